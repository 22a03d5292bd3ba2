"""Celery on Redis: ten threads, results ignored, a large prefetch."""

import os

import celery
import redis

from benchmarks import tasks

URL = os.environ["REDIS_URL"]
app = celery.Celery("benchmarks.systems.celery", broker=URL)
app.conf.task_ignore_result = True
app.conf.worker_prefetch_multiplier = 64
app.conf.worker_hijack_root_logger = False
app.conf.broker_connection_retry_on_startup = True
TASKS = {
    "noop": app.task(tasks.noop, name="noop"),
    "stamp": app.task(tasks.stamp, name="stamp"),
}
server = redis.Redis.from_url(URL)


def enqueue(task, number):
    TASKS[task].delay(number)


def enqueue_many(task, numbers):
    for number in numbers:
        TASKS[task].delay(number)


def unfinished():
    return server.llen("celery") + server.hlen("unacked")


def work():
    options = ["--pool", "threads", "--concurrency", "10", "--loglevel", "WARNING"]
    quiet = ["--without-gossip", "--without-mingle"]
    app.worker_main(["worker", *options, *quiet])
