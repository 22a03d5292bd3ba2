"""pgqueuer: asyncio, asyncpg and uvloop; a pool of connections for the worker."""

import os
import signal

import asyncpg
import uvloop
from pgqueuer import QueueManager
from pgqueuer.db import AsyncpgDriver, AsyncpgPoolDriver
from pgqueuer.queries import Queries

from benchmarks import tasks
from benchmarks.adapter import OPTIONS

URL = os.environ["DATABASE_URL"]
UNFINISHED = "SELECT count(*) FROM pgqueuer"
loop = uvloop.new_event_loop()
connection = loop.run_until_complete(asyncpg.connect(URL))
queries = Queries(AsyncpgDriver(connection))


def payload(number):
    return str(number).encode()


def setup():
    loop.run_until_complete(queries.install())
    loop.run_until_complete(queries.optimize_autovacuum())


def enqueue(task, number):
    loop.run_until_complete(queries.enqueue(task, payload(number)))


def enqueue_many(task, numbers):
    payloads = [payload(number) for number in numbers]
    names, priorities = [task] * len(payloads), [0] * len(payloads)
    loop.run_until_complete(queries.enqueue(names, payloads, priorities))


def unfinished():
    return loop.run_until_complete(connection.fetchval(UNFINISHED))


async def run():
    async with asyncpg.create_pool(URL, min_size=5, max_size=20) as pool:
        manager = QueueManager(Queries(AsyncpgPoolDriver(pool)))

        @manager.entrypoint("noop")
        async def noop(job):
            tasks.noop(int(job.payload))

        @manager.entrypoint("stamp")
        async def stamp(job):
            tasks.stamp(int(job.payload))

        loop.add_signal_handler(signal.SIGTERM, manager.shutdown.set)
        await manager.run(batch_size=OPTIONS["batch_size"])


def work():
    loop.run_until_complete(run())
