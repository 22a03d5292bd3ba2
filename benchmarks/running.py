"""Measure how a worker runs: async tasks, cancelling, stopping, memory, connections.

    python -m benchmarks.running [figure ...]

The figures are the functions below that `@figure` marks; all of them without an
argument. Starts a PostgreSQL of its own, or takes that of DATABASE_URL. Workers are
real `manage.py runjobs` processes with the settings of the example project. Exits with
1 if a figure misses its goal.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

from benchmarks.figures import (
    count,
    figure,
    listening_workers,
    main,
    report,
    sessions_named,
    start_worker,
    wait_for,
)

# The figures


@figure
def async_tasks(number: int = 1_000, seconds: float = 0.1, slots: int = 200) -> None:
    from benchmarks.running_tasks import wait

    with worker("--concurrency", str(slots)):
        taken = [time_of_jobs([wait.bind(seconds)] * number) for _ in range(5)]
    what = f"{number:,} async tasks of {seconds * 1e3:g} ms, {slots} slots"
    report(f"{what}, first", taken[0], "s", 1.2)
    report(f"{what}, median of 5", statistics.median(taken), "s", 1.2)


@figure
def cancelling(number: int = 100) -> None:
    """Measure from the call of job.cancel() to the exception in the task."""
    from benchmarks.running_tasks import work, work_async

    with worker("--concurrency", "4"):
        for task in (work, work_async):
            milliseconds = sorted(time_of_cancel(task) * 1e3 for _ in range(number))
            for percent in (50, 95):
                value = milliseconds[int(number * percent / 100)]
                what = f"cancel to exception in {task.name}, p{percent} of {number}"
                report(what, value, "ms", 100 if percent == 95 else None)


def time_of_cancel(task) -> float:
    with tempfile.NamedTemporaryFile("r") as notes:
        job = task.enqueue(notes.name)
        wait_for(lambda: len(times_in(notes.name)) == 1)
        begun = time.monotonic()
        assert job.cancel()
        wait_for(lambda: len(times_in(notes.name)) == 2)
        return times_in(notes.name)[1] - begun


def times_in(path: str) -> list[float]:
    return [float(line) for line in Path(path).read_text().splitlines()]


@figure
def stopping(number: int = 10) -> None:
    """Measure from SIGTERM to the end of the process of a worker with idle slots."""
    from benchmarks.running_tasks import noop, wait

    for used in (False, True):
        seconds = []
        for _ in range(number):
            with worker() as process:
                if used:
                    time_of_jobs([noop.bind(), wait.bind(0)] * 10)
                begun = time.monotonic()
                process.terminate()
                process.wait()
                seconds.append(time.monotonic() - begun)
        what = f"SIGTERM to exit, {'after some jobs' if used else 'never used'}"
        report(f"{what}, median of {number}", statistics.median(seconds), "s", 0.5)
        report(f"{what}, worst of {number}", max(seconds), "s", 0.5)


@figure
def memory(jobs: int = 50_000, first: int = 2_000) -> None:
    """Measure the resident memory of a worker with 4 slots, and how it grows."""
    from benchmarks.running_tasks import noop, query, wait

    kinds = [noop.bind(), query.bind(), wait.bind(0)]
    with worker() as process:
        report("resident memory with 4 slots, never used", megabytes(process), "MB", 90)
        time_of_jobs(some_of(kinds, first))
        before = megabytes(process)
        report(f"resident memory after {first:,} jobs", before, "MB", 90)
        for _ in range(10):
            time_of_jobs(some_of(kinds, jobs // 10))
        after = megabytes(process)
        growth = 100 * (after - before) / before
        report(f"resident memory after {jobs:,} jobs more", after, "MB", 90)
        report("its growth", growth, "%", 5)


def some_of(kinds: list, number: int) -> list:
    return [kinds[each % len(kinds)] for each in range(number)]


def megabytes(process: subprocess.Popen) -> float:
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) * 1024 / 1e6


@figure
def connections(jobs: int = 10_000, slots: int = 10) -> None:
    """Count the sessions that jobs with queries leave, however Django connects."""
    from benchmarks.running_tasks import query

    ways = {f"CONN_MAX_AGE {age}": {"CONN_MAX_AGE": age} for age in (0, 60, None)}
    pool = {"min_size": 1, "max_size": slots}
    ways["a pool"] = {"CONN_MAX_AGE": 0, "OPTIONS": {"pool": pool}}
    for name, connecting in ways.items():
        before = backends()
        how = json.dumps(connecting)
        with worker("--concurrency", str(slots), BENCHMARK_CONNECTING=how):
            taken = time_of_jobs([query.bind()] * jobs)
            time.sleep(1)  # for sessions that are about to end
            what = f"sessions after {jobs:,} jobs with {slots} slots, {name}"
            report(what, backends() - before, "", slots + 4)
            report(f"    time of a job, {name}", taken / jobs * 1e3, "ms")


@figure
def process_units(total: int = 8_000, heavy: int = 60, light: int = 120) -> None:
    """Sample, each 10 ms, what the jobs of two workers on this host take together."""
    from benchmarks.running_tasks import wait
    from pgjobs import enqueue_many
    from pgjobs.models import Job

    with workers(2, "--concurrency", "8", "--units", str(total)):
        begun = time.monotonic()
        enqueue_many([wait.using(process_units=2_000).bind(0.2)] * heavy)
        enqueue_many([wait.using(process_units=100).bind(0.1)] * light)
        sums = []
        while Job.objects.exclude(status="SUCCESSFUL").exists():
            sums.append(count(UNITS_IN_USE, []))
            time.sleep(max(0, begun + len(sums) * 0.01 - time.monotonic()))
        taken = time.monotonic() - begun
    Job.objects.all().delete()
    what = f"two workers with {total:,} process units"
    report(f"{what}: highest sum of {len(sums)} samples", max(sums), "units", total + 1)
    report(f"{what}: what is left at that moment", total - max(sums), "units", 1)
    report(f"{what}: mean sum", statistics.mean(sums), "units")
    units = heavy * 2_000 * 0.2 + light * 100 * 0.1
    report(f"{what}: time, in that of a perfect packing", taken * total / units, "")


@figure
def dependencies(number: int = 2_000, rounds: int = 7) -> None:
    """Compare jobs whose dependency has just succeeded with those that have none."""
    from benchmarks.running_tasks import dependent, plain, refresh
    from pgjobs import enqueue_many
    from pgjobs.models import Job

    enqueueing, running = [], []
    for _ in range(rounds):
        refresh.enqueue(1).succeed()
        taken = []
        for task in (plain, dependent):
            begun = time.monotonic()
            for _ in range(number // 10):
                task.enqueue(1)
            middle = time.monotonic()
            assert not Job.objects.filter(status="WAITING").exists()
            with worker("--concurrency", "4"):
                wait_for(lambda: not Job.objects.filter(finished_at=None).exists())
                begun_running = time.monotonic()
                enqueue_many([task.bind(1)] * number)
                wait_for(lambda: not Job.objects.filter(finished_at=None).exists())
                taken.append((middle - begun, time.monotonic() - begun_running))
        enqueueing.append(taken[1][0] / taken[0][0])
        running.append(taken[1][1] / taken[0][1])
        Job.objects.all().delete()
    what = "jobs with a satisfied dependency, in the time of others"
    report(f"{what}: enqueue", statistics.median(enqueueing), "times")
    report(f"{what}: {number:,} at once, run", statistics.median(running), "times")


@figure
def gap_of_a_lock() -> None:
    """For how long a lock is free between two of its jobs, with two workers."""
    from benchmarks.running_tasks import lap
    from pgjobs import enqueue_many
    from pgjobs.models import Job

    with workers(2, "--poll", "60", "--concurrency", "4"):
        enqueue_many([lap.using(lock="one").bind() for _ in range(1_000)])
        wait_for(lambda: not Job.objects.exclude(status="SUCCESSFUL").exists(), 60)
    laps = list(Job.objects.order_by("id").values_list("return_value", flat=True))
    Job.objects.all().delete()
    gaps = [
        (process != next_process, 1000 * (begun - ended))
        for (process, _, ended), (next_process, begun, _) in pairwise(laps)
    ]
    handed_over = [gap for is_handed_over, gap in gaps if is_handed_over]
    report("jobs of a lock that the other worker ran next", len(handed_over), "")
    report("gap before them, median", statistics.median(handed_over), "ms")
    report(
        "gap between two jobs of a lock, longest", max(gap for _, gap in gaps), "ms", 50
    )


UNITS_IN_USE = """
SELECT coalesce(sum(coalesce(process_units, 1)), 0)::bigint
FROM pgjobs_job WHERE status = 'RUNNING'
"""


# What they are made of


@contextmanager
def worker(*arguments: str, **environment: str) -> Iterator[subprocess.Popen]:
    """Run a worker process for the length of a block; it listens when it begins."""
    with workers(1, *arguments, **environment) as (process,):
        yield process


@contextmanager
def workers(
    number: int, *arguments: str, **environment: str
) -> Iterator[list[subprocess.Popen]]:
    """Run worker processes for the length of a block."""
    wait_for(lambda: sessions_named("pgjobs:%") == 0)
    processes = [start_worker(*arguments, **environment) for _ in range(number)]
    try:
        wait_for(lambda: listening_workers() == number)
        yield processes
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait()


def time_of_jobs(bound_tasks: list) -> float:
    """Run jobs; return the seconds from the enqueueing to the end of the last one."""
    from pgjobs import enqueue_many
    from pgjobs.models import Job

    enqueue_many(bound_tasks)
    wait_for(lambda: not Job.objects.exclude(status="SUCCESSFUL").exists(), 600)
    from django.db.models import Max, Min

    ends = Job.objects.aggregate(begun=Min("enqueued_at"), ended=Max("finished_at"))
    Job.objects.all().delete()
    return (ends["ended"] - ends["begun"]).total_seconds()


def backends() -> int:
    return count(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()", []
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], "benchmarks.running_tasks"))
