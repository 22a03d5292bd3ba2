"""awa: a Rust core with async Python handlers."""

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
UNFINISHED = "SELECT count(*) FROM awa.jobs WHERE state IN ('available', 'running')"
loop = asyncio.new_event_loop()
client = awa.AsyncClient(URL)
connection = psycopg.connect(URL, autocommit=True)


def setup():
    loop.run_until_complete(client.migrate())


def enqueue(task, number):
    loop.run_until_complete(client.insert(TASKS[task](number)))


def enqueue_many(task, numbers):
    jobs = [TASKS[task](number) for number in numbers]
    loop.run_until_complete(client.insert_many_copy(jobs))


def unfinished():
    return connection.execute(UNFINISHED).fetchone()[0]


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
