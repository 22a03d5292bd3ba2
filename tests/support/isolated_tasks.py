"""Tasks that run in a process of their own."""

import asyncio
import ctypes
import os
import subprocess
import sys
import time
from pathlib import Path

from django.db import connection, transaction

from pgjobs import Fail, Snooze, current_job, task
from tests import tasks


@task(name="isolated.pids", isolated=True)
def pids() -> list[int]:
    return [os.getpid(), os.getppid()]


@task(name="isolated.add", isolated=True)
def add(a: int, b: int = 1) -> int:
    return a + b


@task(name="isolated.fail_with", isolated=True, max_attempts=1)
def fail_with(message: str) -> None:
    raise ValueError(message)


@task(
    name="isolated.segfault", isolated=True, max_crashes=2, backoff=lambda failures: 0
)
def segfault() -> None:
    current_job().log("about to crash")
    ctypes.string_at(0)


@task(name="isolated.leave", isolated=True, max_crashes=1)
def leave(code: int) -> None:
    os._exit(code)


@task(name="isolated.sleep", isolated=True, max_attempts=1)
def sleep(seconds: float) -> None:
    ends_at = time.monotonic() + seconds
    while time.monotonic() < ends_at:
        time.sleep(0.01)


@task(name="isolated.hold_the_gil", isolated=True, max_attempts=1)
def hold_the_gil(seconds: int) -> None:
    ctypes.PyDLL(None).sleep(seconds)


@task(name="isolated.fill", isolated=True, memory_limit="150MB", max_attempts=1)
def fill(megabytes: int) -> int:
    kept = b"x" * (megabytes * 1_000_000)
    time.sleep(30)
    return len(kept)


@task(name="isolated.write", isolated=True, keep_logs="INFO")
def write() -> None:
    sys.stdout.write("from Python\n")
    os.write(2, b"from C\n")
    subprocess.run([sys.executable, "-c", "print('from a program')"], check=True)


@task(name="isolated.report", isolated=True)
def report() -> None:
    current_job().log("a line")
    current_job().progress(1, 2, "half")


@task(name="isolated.await_pid", isolated=True)
async def await_pid() -> int:
    await asyncio.sleep(0)
    return os.getpid()


@task(name="isolated.enqueue_and_fail", isolated=True, atomic=True)
def enqueue_and_fail(fails: bool) -> int:
    tasks.noop.enqueue()
    if fails:
        raise ValueError("no")
    return connection.connection.info.backend_pid


@task(name="isolated.hold_in_transaction", isolated=True, atomic=True)
def hold_in_transaction(path: str) -> None:
    tasks.hold(path)


@task(name="isolated.hold_in_hook", isolated=True, atomic=True)
def hold_in_hook(path: str) -> None:
    transaction.on_commit(lambda: tasks.hold(path))


@task(name="isolated.step_twice", isolated=True)
def step_twice() -> list[int]:
    job = current_job()
    return [job.step("pid", os.getpid), os.getpid()]


@task(name="isolated.hold", isolated=True)
def hold(path: str) -> None:
    """Leave the pids of child and grandchildren in a file, and stay."""
    daemon = (
        "import os, time; os.setsid(); print(os.getpid(), flush=True); time.sleep(99)"
    )
    program = subprocess.Popen(
        [sys.executable, "-c", daemon], stdout=subprocess.PIPE, text=True
    )
    grandchild = program.stdout.readline().strip()
    Path(path).write_text(f"{os.getpid()} {os.getppid()} {grandchild} .")
    for _ in range(99):  # each signal ends one of them
        ctypes.PyDLL(None).sleep(1)


@task(name="isolated.fork_twice", isolated=True)
def fork_twice() -> str:
    return "child" if os.fork() == 0 else "parent"


@task(name="isolated.close_all", isolated=True, max_crashes=1)
def close_all() -> None:
    os.closerange(3, 1000)


@task(name="isolated.garble", isolated=True, max_crashes=1)
def garble() -> None:
    for descriptor in range(3, 100):
        try:
            if os.path.realpath(f"/proc/self/fd/{descriptor}").startswith("/proc"):
                os.write(descriptor, b"garbage that is no frame " * 10)
        except OSError:
            continue
    time.sleep(5)


@task(name="isolated.flood", isolated=True, keep_logs="INFO")
def flood() -> None:
    for _ in range(200):
        os.write(1, b"much too much\n" * 1000)


@task(name="isolated.query", isolated=True)
def query(seconds: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_sleep(%s)", [seconds])


@task(name="isolated.decide", isolated=True)
def decide(how: str) -> None:
    if how == "snooze":
        raise Snooze(60)
    raise Fail("as asked")


@task(name="isolated.pid_slowly", isolated=True, backoff=lambda failures: 0)
def pid_slowly() -> int:
    time.sleep(0.1)
    return os.getpid()


@task(name="isolated.keep", isolated=True)
def keep(megabytes: int) -> list[int]:
    """Fill memory that stays taken when the job has ended."""
    kept.append(b"x" * (megabytes * 1_000_000))
    return [os.getpid()]


kept: list[bytes] = []
