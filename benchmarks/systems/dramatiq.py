"""dramatiq on Redis: one process, ten threads."""

import os
import sys

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from benchmarks import tasks

broker = RedisBroker(url=os.environ["REDIS_URL"])
dramatiq.set_broker(broker)
TASKS = {
    "noop": dramatiq.actor(tasks.noop, actor_name="noop"),
    "stamp": dramatiq.actor(tasks.stamp, actor_name="stamp"),
}


def enqueue(task, number):
    TASKS[task].send(number)


def enqueue_many(task, numbers):
    for number in numbers:
        TASKS[task].send(number)


def unfinished():
    return broker.client.hlen("dramatiq:default.msgs")


def work():
    command = [sys.executable, "-m", "dramatiq", "benchmarks.systems.dramatiq"]
    os.execv(sys.executable, [*command, "--processes", "1", "--threads", "10"])
