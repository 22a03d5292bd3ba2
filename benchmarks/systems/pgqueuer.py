"""pgqueuer: asyncio, asyncpg and uvloop."""

import os
import signal

import asyncpg
import uvloop
from pgqueuer import QueueManager
from pgqueuer.db import AsyncpgDriver
from pgqueuer.queries import Queries

from benchmarks import tasks
from benchmarks.adapter import OPTIONS

loop = uvloop.new_event_loop()
connection = loop.run_until_complete(asyncpg.connect(os.environ["DATABASE_URL"]))
driver = AsyncpgDriver(connection)
queries = Queries(driver)
UNFINISHED = "SELECT count(*) FROM pgqueuer"


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


def work():
    manager = QueueManager(queries)

    @manager.entrypoint("noop")
    async def noop(job):
        tasks.noop(int(job.payload))

    @manager.entrypoint("stamp")
    async def stamp(job):
        tasks.stamp(int(job.payload))

    loop.add_signal_handler(signal.SIGTERM, manager.shutdown.set)
    loop.run_until_complete(manager.run(batch_size=OPTIONS["batch_size"]))
