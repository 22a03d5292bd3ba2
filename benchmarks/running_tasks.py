"""The tasks of benchmarks/running.py."""

import asyncio
import os
import time

from django.db import connection

from pgjobs import Dependency, same, task
from pgjobs.exceptions import TaskCancelled


@task(name="benchmarks.noop")
def noop():
    pass


@task(name="benchmarks.refresh")
def refresh(client: int):
    pass


@task(name="benchmarks.dependent", dependencies=Dependency(refresh, client=same))
def dependent(client: int):
    pass


@task(name="benchmarks.plain")
def plain(client: int):
    pass


@task(name="benchmarks.query")
def query():
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")


@task(name="benchmarks.wait")
async def wait(seconds: float):
    await asyncio.sleep(seconds)


@task(name="benchmarks.lap")
def lap():
    """Return which process ran it, and when."""
    began = time.monotonic()
    time.sleep(0.001)
    return [os.getpid(), began, time.monotonic()]


@task(name="benchmarks.work")
def work(path: str):
    """Work until it is cancelled; note when it began and when it learned of that."""
    note(path)
    try:
        while True:
            time.sleep(0.001)
    except TaskCancelled:
        note(path)
        raise


@task(name="benchmarks.work_async")
async def work_async(path: str):
    note(path)
    try:
        await asyncio.sleep(600)
    except asyncio.CancelledError:
        note(path)
        raise


def note(path: str) -> None:
    """Store the time, by a clock that is the same for all processes."""
    with open(path, "a") as file:
        os.write(file.fileno(), f"{time.monotonic()}\n".encode())
