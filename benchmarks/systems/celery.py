"""Celery on Redis: ten threads, or processes; results ignored, a large prefetch."""

import os

import celery
import redis

from benchmarks import tasks
from benchmarks.adapter import OPTIONS

URL = os.environ["REDIS_URL"]
app = celery.Celery("benchmarks.systems.celery", broker=URL)
app.conf.task_ignore_result = True
app.conf.worker_prefetch_multiplier = 64
app.conf.worker_hijack_root_logger = False
app.conf.broker_connection_retry_on_startup = True
TASKS = {
    "noop": app.task(tasks.noop, name="noop"),
    "stamp": app.task(tasks.stamp, name="stamp"),
    "hold": app.task(tasks.hold, name="hold", time_limit=OPTIONS.get("limit")),
}
server = redis.Redis.from_url(URL)


def enqueue(task, number):
    TASKS[task].delay(number)


def hold(path):
    TASKS["hold"].delay(path)


def enqueue_many(task, numbers):
    for number in numbers:
        TASKS[task].delay(number)


def unfinished():
    return server.llen("celery") + server.hlen("unacked")


def work():
    pool, slots = OPTIONS.get("pool", "threads"), str(OPTIONS.get("slots", 10))
    options = ["--pool", pool, "--concurrency", slots, "--loglevel", "WARNING"]
    quiet = ["--without-gossip", "--without-mingle"]
    app.worker_main(["worker", *options, *quiet])
