"""Small tasks for the tests, named by what they do."""

import ctypes
import gc
import os
import random
import signal
import time
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from pgjobs import Snooze, current_job, enqueue_many, task
from pgjobs.models import Job


@dataclass
class Point:
    x: int


@task
def noop():
    pass


@task
def add(a: int, b: int = 1) -> int:
    return a + b


@task
def enqueue_noop():
    noop.enqueue()


@task
def echo(value):
    return value


@task
def total(numbers: list[int]) -> int:
    return sum(numbers)


@task
def pair(first=None, second=None, **more):
    return [first, second, *more.values()]


@task(max_attempts=1)
def fail_with(message: str):
    raise ValueError(message)


@task
def sleep(seconds: float):
    time.sleep(seconds)


@task
def note(path: str, line: str):
    """Leave a line in a file: an account that no database error can touch."""
    write(path, line)


@task
def hold(path: str) -> int:
    """Note the process, then wait until the test lets go."""
    write(path, str(os.getpid()))
    wait_for_go(path)
    return os.getpid()


@task(max_attempts=1)
def hold_and_fail(path: str):
    hold(path)
    raise ValueError("no")


@task
def enqueue_notes(path: str, number: int):
    enqueue_many([note.bind(path, str(line)) for line in range(number)])


@task
def own_process() -> int:
    return os.getpid()


@task
def number_frozen() -> int:
    return gc.get_freeze_count()


@task
def grow(megabytes: int):
    """Keep so much memory for the rest of the process's life."""
    kept.append(bytearray(b"x") * (megabytes * 1_000_000))


kept: list[bytearray] = []


@task
def kill_own_process():
    os.kill(os.getpid(), signal.SIGKILL)


@task
def count_jobs() -> int:
    return Job.objects.count()


@task
async def count_jobs_async() -> int:
    return await Job.objects.acount()


@task(max_attempts=1)
def sit_in_c_code(seconds: int):
    """Sleep where no exception of Python's reaches."""
    ctypes.CDLL(None).sleep(seconds)


@task
def die_after_a_step(path: str):
    job = current_job()
    job.step("charge", write, path, "charged")
    if job.attempt == 1:
        kill_own_process.function()
    job.step("ship", write, path, "shipped")


def write(path: str, line: str) -> None:
    with open(path, "ab", buffering=0) as file:
        file.write(f"{line}\n".encode())


def lines(path) -> list[str]:
    """Return what jobs have written."""
    return Path(path).read_text().splitlines() if Path(path).exists() else []


def let_go(path) -> None:
    """Let the jobs end that hold this path."""
    Path(f"{path}.go").touch()


def wait_for_go(path: str) -> None:
    deadline = time.monotonic() + 60
    while not os.path.exists(f"{path}.go") and time.monotonic() < deadline:
        time.sleep(0.01)


@task
def add_to_batch(number: int):
    batch = current_job().batch
    enqueue_many([noop.using(batch=batch).bind() for _ in range(number)])


@task(lock="letters")
def append_letter(path: str, letter: str):
    """Write in two steps what another job of the lock would come between."""
    time.sleep(random.uniform(0, 0.003))
    before = Path(path).read_text() if os.path.exists(path) else ""
    time.sleep(random.uniform(0, 0.003))
    Path(path).write_text(before + letter)


@task
def anything(**values):
    pass


@task(name="reports.generate_monthly")
def generate_monthly(client_id: int, month: str, format: str = "pdf") -> str:
    """Generate a monthly report for a client.

    :param client_id: Whose report.
    """
    return f"{client_id}_{month}.{format}"


@task
def rest(length: timedelta, at: Point | None = None) -> str:
    return f"{length.total_seconds():g} {at}"


@task
def snooze_a_day():
    raise Snooze(timedelta(days=1))
