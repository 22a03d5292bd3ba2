"""Tasks that run in a process of their own."""

import asyncio
import ctypes
import os
import subprocess
import sys
import time

from django.db import connection

from pgjobs import current_job, task
from tests import tasks


@task(isolated=True)
def pids() -> list[int]:
    return [os.getpid(), os.getppid()]


@task(isolated=True)
def add(a: int, b: int = 1) -> int:
    return a + b


@task(isolated=True, max_attempts=1)
def fail_with(message: str) -> None:
    raise ValueError(message)


@task(isolated=True, max_crashes=2, backoff=lambda failures: 0)
def segfault() -> None:
    current_job().log("about to crash")
    ctypes.string_at(0)


@task(isolated=True, max_crashes=1)
def leave(code: int) -> None:
    os._exit(code)


@task(isolated=True, max_attempts=1)
def sleep(seconds: float) -> None:
    ends_at = time.monotonic() + seconds
    while time.monotonic() < ends_at:
        time.sleep(0.01)


@task(isolated=True, max_attempts=1)
def hold_the_gil(seconds: int) -> None:
    ctypes.PyDLL(None).sleep(seconds)


@task(isolated=True, memory_limit="150MB", max_attempts=1)
def fill(megabytes: int) -> int:
    kept = b"x" * (megabytes * 1_000_000)
    time.sleep(30)
    return len(kept)


@task(isolated=True, keep_logs="INFO")
def write() -> None:
    print("from Python")
    os.write(2, b"from C\n")
    subprocess.run([sys.executable, "-c", "print('from a program')"], check=True)


@task(isolated=True)
def report() -> None:
    current_job().log("a line")
    current_job().progress(1, 2, "half")


@task(isolated=True)
async def await_pid() -> int:
    await asyncio.sleep(0)
    return os.getpid()


@task(isolated=True, atomic=True)
def enqueue_and_fail(fails: bool) -> int:
    tasks.noop.enqueue()
    if fails:
        raise ValueError("no")
    return connection.connection.info.backend_pid


@task(isolated=True)
def step_twice() -> list[int]:
    job = current_job()
    return [job.step("pid", os.getpid), os.getpid()]
