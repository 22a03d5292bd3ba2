"""RQ on Redis: one worker that does not fork, results not stored."""

import os

import redis
import rq

from benchmarks import tasks

server = redis.Redis.from_url(os.environ["REDIS_URL"])
queue = rq.Queue(connection=server)
TASKS = {"noop": tasks.noop, "stamp": tasks.stamp}


def enqueue(task, number):
    queue.enqueue(TASKS[task], number, result_ttl=0)


def enqueue_many(task, numbers):
    function = TASKS[task]
    queue.enqueue_many(
        [rq.Queue.prepare_data(function, (number,), result_ttl=0) for number in numbers]
    )


def unfinished():
    return queue.count + queue.started_job_registry.count


def work():
    rq.SimpleWorker([queue], connection=server).work(logging_level="WARNING")
