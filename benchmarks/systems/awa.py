"""awa: a Rust core with async Python handlers.

Its jobs go to the queue storage, as those of a new installation do once its first
worker has started.
"""

import asyncio
import os
from dataclasses import dataclass

import awa
import psycopg

from benchmarks import tasks
from benchmarks.adapter import OPTIONS

URL = os.environ["DATABASE_URL"]


@dataclass
class Noop:
    number: int


@dataclass
class Stamp:
    number: int


TASKS = {"noop": Noop, "stamp": Stamp}
# Its view of all jobs takes seconds to count.
COMPLETED = """
SELECT coalesce(sum(completed_count), 0)::bigint FROM awa.receipt_completion_batches
"""
enqueued = 0  # by this process, thus all
loop = asyncio.new_event_loop()
client = awa.AsyncClient(URL)
connection = psycopg.connect(URL, autocommit=True)


def setup():
    loop.run_until_complete(client.migrate())
    loop.run_until_complete(client.install_queue_storage(schema="awa"))


def enqueue(task, number):
    global enqueued
    loop.run_until_complete(client.insert(TASKS[task](number)))
    enqueued += 1


def enqueue_many(task, numbers):
    global enqueued
    jobs = [TASKS[task](number) for number in numbers]
    loop.run_until_complete(client.enqueue_many_copy(jobs))
    enqueued += len(jobs)


def unfinished():
    return enqueued - connection.execute(COMPLETED).fetchone()[0]


def work():
    async def run():
        @client.task(Noop)
        async def noop(job):
            tasks.noop(job.args.number)

        @client.task(Stamp)
        async def stamp(job):
            tasks.stamp(job.args.number)

        await client.start([("default", OPTIONS["slots"])])
        await asyncio.Event().wait()

    loop.run_until_complete(run())
