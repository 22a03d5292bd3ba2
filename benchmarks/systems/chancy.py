"""chancy: ten threads and eager polling."""

import asyncio
import os

import psycopg
from chancy import Chancy, Queue, Worker, job

from benchmarks import tasks

URL = os.environ["DATABASE_URL"]
QUEUE = Queue(
    "default",
    concurrency=10,
    executor="chancy.executors.thread.ThreadedExecutor",
    eager_polling=True,
)


@job()
def noop(*, number: int):
    tasks.noop(number)


@job()
def stamp(*, number: int):
    tasks.stamp(number)


TASKS = {"noop": noop, "stamp": stamp}
chancy = Chancy(URL)
connection = psycopg.connect(URL, autocommit=True)
UNFINISHED = """
SELECT count(*) FROM chancy_jobs WHERE state IN ('pending', 'running', 'retrying')
"""


def setup():
    async def migrate():
        async with Chancy(URL) as own:
            await own.migrate()
            await own.declare(QUEUE, upsert=True)

    asyncio.run(migrate())


def bound(task, number):
    return TASKS[task].job.with_kwargs(number=number)


def enqueue(task, number):
    chancy.sync_pool.open()
    chancy.sync_push(bound(task, number))


def enqueue_many(task, numbers):
    chancy.sync_pool.open()
    for _ in chancy.sync_push_many([bound(task, number) for number in numbers]):
        continue


def unfinished():
    return connection.execute(UNFINISHED).fetchone()[0]


def work():
    async def run():
        async with Chancy(URL) as own, Worker(own) as worker:
            await worker.wait_for_shutdown()

    asyncio.run(run())
