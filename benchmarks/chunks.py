"""Measure calls of many jobs: `python -m benchmarks.chunks [figure ...]`.

Starts a PostgreSQL of its own, or takes that of DATABASE_URL. Exits with 1 if a figure
misses its goal.
"""

import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from benchmarks.figures import (
    count,
    figure,
    listening_workers,
    main,
    report,
    start_worker,
    wait_for,
)
from benchmarks.processes import cpu_seconds

UNFINISHED = "SELECT count(*) FROM pgjobs_job WHERE finished_at IS NULL"
SETTLING = 1.0  # seconds, after which the worker is idle
OF_WORKER = "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'pgjobs:%'"


@figure
def members(number: int = 100_000, rounds: int = 3) -> None:
    """Compare the processor time of members with that of as many plain jobs.

    It is that of the worker and of its sessions in the server, from when its queue goes
    on to the last end.
    """
    from benchmarks.chunks_tasks import many, one

    taken: dict[str, list[Used]] = {"plain": [], "chunks": []}
    for _ in range(rounds):
        for name, task, options in (
            ("plain", one, ("--prefetch", "auto")),
            ("chunks", many, ()),
        ):
            taken[name].append(seconds_of(task, number, options))
    for name, used in taken.items():
        for where, seconds in zip(Used._fields, zip(*used, strict=True), strict=True):
            what = f"processor time of one of {number:,} jobs, {name}, {where}"
            report(what, statistics.median(seconds) / number * 1e6, "us")
    ratios = [
        sum(b) / sum(a) for a, b in zip(taken["plain"], taken["chunks"], strict=True)
    ]
    what = f"a member of 500 to a plain job, median of {rounds}"
    report(what, statistics.median(ratios), "", 0.35)


class Used(NamedTuple):
    """Processor time in seconds: of the worker, and of its sessions in the server."""

    worker: float
    server: float


def seconds_of(task: Any, number: int, options: tuple[str, ...]) -> Used:
    from pgjobs import enqueue_many
    from pgjobs.models import Queue

    forget()
    Queue.objects.update_or_create(name="default")
    Queue.objects.filter(name="default").pause()
    for first in range(0, number, 10_000):
        enqueue_many([task.bind(pk=first + each) for each in range(10_000)])
    count("SELECT count(*) FROM pgjobs_job", [])
    vacuum()
    with worker("--concurrency", "4", *options) as process:
        begun = processor_time(process.pid)
        Queue.objects.filter(name="default").resume()
        wait_for(lambda: slowly(UNFINISHED), 600)
        ended = processor_time(process.pid)
        return Used(*(b - a for a, b in zip(begun, ended, strict=True)))


@figure
def poison(number: int = 500) -> None:
    """Count the calls in which nine tenths of the innocent ones have ended."""
    from benchmarks.chunks_tasks import Item, poisoned
    from pgjobs.testing import perform

    done: list[int] = []
    sizes: list[int] = []
    function = poisoned.function

    def counted(calls):
        sizes.append(len(calls))
        function(calls)
        done.append(len(sizes))

    poisoned.function = counted
    try:
        perform(poisoned, [Item(number - 1 - pk) for pk in range(number)])
    except ValueError:
        pass
    finally:
        poisoned.function = function
    ended = 0
    for call in done:
        ended += sizes[call - 1]
        if ended >= 0.9 * (number - 1):
            what = f"calls until nine tenths of {number - 1} innocent ones have ended"
            report(what, call, "calls", 11)
            break
    report("calls in all", len(sizes), "calls", 20)
    assert ended <= number - 1


def slowly(query: str) -> bool:
    """Whether nothing is left; asked rarely, so that the question costs nothing."""
    time.sleep(0.2)
    return not count(query, [])


def processor_time(pid: int) -> Used:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(OF_WORKER)
        sessions = [row[0] for row in cursor.fetchall()]
    return Used(cpu_seconds(pid), sum(map(cpu_seconds, sessions)))


@contextmanager
def worker(*arguments: str) -> Iterator:
    """Run a worker that hears notifications."""
    process = start_worker(*arguments)
    try:
        wait_for(listening_workers)
        time.sleep(SETTLING)
        yield process
    finally:
        process.terminate()
        process.wait()


def forget() -> None:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE pgjobs_job CASCADE")


def vacuum() -> None:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE pgjobs_job")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], "benchmarks.chunks_tasks"))
