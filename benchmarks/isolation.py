"""Measure tasks in processes of their own: `python -m benchmarks.isolation [name ...]`.

Starts a PostgreSQL of its own, or takes that of DATABASE_URL. Workers are real
`manage.py runjobs` processes. Exits with 1 if a figure misses its goal.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.figures import (
    count,
    figure,
    listening_workers,
    main,
    report,
    start_worker,
    wait_for,
)

SETTLING = 0.05  # seconds, after which the worker is idle
UNFINISHED = "SELECT count(*) FROM pgjobs_job WHERE finished_at IS NULL"
RATE = """
SELECT count(*) / extract(epoch FROM max(finished_at) - min(started_at))
FROM pgjobs_job
"""
# A process that has imported what the project does, and nothing for isolated tasks.
PROJECT = """
import os, django
django.setup()
from pgjobs.tasks.registry import registry
registry.load_sources()
print(os.getpid(), flush=True)
input()
"""


@figure
def latency(number: int = 200) -> None:
    """Measure from the call of enqueue() to the first line of the task.

    In a thread and in a warm process, by turns.
    """
    from benchmarks.isolation_tasks import in_process, in_thread

    times: dict[str, list[float]] = {"thread": [], "process": []}
    with worker("--concurrency", "4"), tempfile.NamedTemporaryFile("r") as notes:
        time_to_note(in_process, notes.name)  # starts it
        for _ in range(number):
            times["thread"].append(time_to_note(in_thread, notes.name))
            times["process"].append(time_to_note(in_process, notes.name))
    middle = {where: 1e3 * statistics.median(taken) for where, taken in times.items()}
    for where, value in middle.items():
        report(f"enqueue to the first line, {where}, p50 of {number}", value, "ms")
    more = middle["process"] - middle["thread"]
    report("a warm process takes longer by", more, "ms", 3)
    forget()


def time_to_note(task: Any, path: str) -> float:
    """Return the seconds from the call to the line that the task writes."""
    size = os.path.getsize(path)
    time.sleep(SETTLING)
    begun = time.monotonic()
    task.enqueue(path)
    wait_for(lambda: os.path.getsize(path) > size)
    return float(Path(path).read_text().splitlines()[-1].split()[0]) - begun


@figure
def rate(jobs: int = 4_000) -> None:
    """Measure jobs that do nothing: in threads, and in processes that are warm."""
    from benchmarks.isolation_tasks import in_process, in_thread
    from pgjobs import enqueue_many

    with worker("--concurrency", "4", "--isolated", "4"):
        enqueue_many([in_process.bind()] * 20)
        wait_for(lambda: not count(UNFINISHED, []))
        for name, task in {"threads": in_thread, "processes": in_process}.items():
            forget()
            enqueue_many([task.bind()] * jobs)
            wait_for(lambda: not count(UNFINISHED, []), 300)
            jobs_per_second = count(RATE, [])
            report(f"{jobs} no-op jobs in 4 {name}", jobs_per_second, "jobs/s")
    milliseconds = 1e3 / float(jobs_per_second)
    report("a no-op job in a process, of 500 jobs/s", milliseconds, "ms", 2)
    forget()


@figure
def memory() -> None:
    """Measure an idle process and its keeper, beside what the project imports."""
    from benchmarks.isolation_tasks import in_process

    project = subprocess.Popen(
        [sys.executable, "-c", PROJECT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert project.stdout is not None
    project.stdout.readline()
    with worker("--concurrency", "1"), tempfile.NamedTemporaryFile("r") as notes:
        time_to_note(in_process, notes.name)
        child = int(Path(notes.name).read_text().split()[1])
        wait_for(lambda: not count(UNFINISHED, []))
        keeper = parent_of(child)
        own = [1e-6 * proportional(pid) for pid in (project.pid, child, keeper)]
    project.communicate("\n")
    names = ("the project's imports", "an idle process", "its keeper")
    for name, value in zip(names, own, strict=True):
        report(f"{name}: memory (PSS)", value, "MB")
    more = own[1] + own[2] - own[0]
    report("an idle process with its keeper, above the imports", more, "MB", 50)
    forget()


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def proportional(pid: int) -> int:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    raise LookupError(pid)


@figure
def start(number: int = 5) -> None:
    """Measure the first job of a process: Django is set up there."""
    from benchmarks.isolation_tasks import in_process

    times = []
    for _ in range(number):
        with worker("--concurrency", "1"), tempfile.NamedTemporaryFile("r") as notes:
            times.append(time_to_note(in_process, notes.name))
    report(f"enqueue to the first line, cold, of {number}", min(times), "s")
    forget()


@figure
def kill(number: int = 5) -> None:
    """Measure from the time limit of a task in C code to the end of its job.

    The exception comes after 1 s, and the kill one `TIMEOUT_GRACE` later.
    """
    from benchmarks.isolation_tasks import held
    from pgjobs.conf import settings
    from pgjobs.models import Job

    times = []
    with worker("--concurrency", "1"), tempfile.TemporaryDirectory() as folder:
        for each in range(number):
            path = Path(folder) / str(each)
            job = held.enqueue(str(path))
            wait_for(path.exists)
            wait_for(lambda: not count(UNFINISHED, []), 120)
            begun = float(path.read_text().split()[0])
            times.append(time.monotonic() - begun - 1 - settings.TIMEOUT_GRACE)
            assert Job.objects.get(pk=job.pk).status == "FAILED"
    report(f"killed after its grace, p50 of {number}", statistics.median(times), "s", 1)
    forget()


@figure
def crowd(number: int = 100_000) -> None:
    """Measure a fetch of a worker that may begin no isolated job.

    The only plain job stands behind isolated ones. Processor time of the server.
    """
    from benchmarks.isolation_tasks import in_process, in_thread
    from benchmarks.locks import clock_of, worker_connection
    from pgjobs import enqueue_many
    from pgjobs.queue.claiming import claim_statement, first_fetch
    from pgjobs.sql import statement
    from pgjobs.worker.fetch_rule import ranges_from

    for behind in (0, number):
        for _ in range(behind // 10_000):
            enqueue_many([in_process.bind()] * 10_000)
        in_thread.enqueue()
        vacuum()
        own, worker_id = worker_connection()
        clock = clock_of(own.connection.info.backend_pid)
        cursors = dict(own.execute(statement("last_turns"), {}))
        for name, fetch in {
            "in claim order": first_fetch(4),
            "by queue": first_fetch(4, by_queue=True),
            "at cursors": first_fetch(4)._replace(ranges=list(ranges_from(cursors))),
        }.items():
            fetch = fetch._replace(isolated=0)
            how = {"limit": 4, "fetch": fetch, "claims": False}
            times = []
            for _ in range(10):
                begun = clock()
                own.execute(*claim_statement(worker_id, **how))
                times.append(1e3 * (clock() - begun))
            what = f"a fetch {name}, behind {behind} isolated jobs"
            report(what, statistics.median(times), "ms")
        own.close()
        forget()


def vacuum() -> None:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE pgjobs_job")


@contextmanager
def worker(*arguments: str) -> Iterator:
    """Run a worker that hears notifications."""
    process = start_worker(*arguments)
    try:
        wait_for(listening_workers)
        time.sleep(1)
        yield process
    finally:
        process.terminate()
        process.wait()


def forget() -> None:
    from pgjobs.models import Job

    Job.objects.all().delete()


if __name__ == "__main__":
    import benchmarks.isolation_rivals  # noqa: F401  (its figure)

    sys.exit(main(sys.argv[1:], "benchmarks.isolation_tasks"))
