"""huey on Redis: ten threads, results not stored."""

import os

from huey import RedisHuey
from huey.consumer import Consumer

from benchmarks import tasks

huey = RedisHuey("benchmark", url=os.environ["REDIS_URL"], results=False)
TASKS = {
    "noop": huey.task(name="noop")(tasks.noop),
    "stamp": huey.task(name="stamp")(tasks.stamp),
}


def enqueue(task, number):
    TASKS[task](number)


def enqueue_many(task, numbers):
    for number in numbers:
        TASKS[task](number)


def unfinished():
    return huey.pending_count()


def work():
    Consumer(huey, workers=10, periodic=False).run()
