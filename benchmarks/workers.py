"""Measure many workers, idle and busy: `python -m benchmarks.workers [figure ...]`.

Starts a PostgreSQL of its own, or takes that of DATABASE_URL. Workers are real
`manage.py runjobs` processes. What counts is processor time, because other work on the
machine hardly changes it. Exits with 1 if a figure misses its goal.
"""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from benchmarks.figures import (
    count,
    figure,
    listening_workers,
    main,
    report,
    start_worker,
    wait_for,
)
from benchmarks.processes import cpu_seconds_of_tree
from benchmarks.server import privileged

NUMBERS = (1, 4, 16, 64)  # of workers
CROWDS = (10, 100, 1_000)  # of schedules, and of subscriptions
STARTING = 600.0  # seconds, for all of them
SETTLING = 15.0
SETTLING_IDLE = 60.0  # until each has done, or put off, what it does after its start
AT_ONCE = 8  # that start at the same time
SUBSCRIPTIONS = """
INSERT INTO pgjobs_subscription (task, event)
SELECT 'benchmarks.task ' || number, %s || CASE WHEN %s THEN number::text ELSE '' END
FROM generate_series(1, %s) AS number
"""


@figure
def idle(seconds: float = 60) -> None:
    """Measure what workers without jobs cost the server, all of them together."""
    checkpoint()
    without = share_of_server(seconds)
    report("server without workers", without, "% of a core")
    for number in NUMBERS:
        with workers(number, "--concurrency", "4") as processes:
            time.sleep(SETTLING_IDLE)
            checkpoint()  # of what their start has written
            begun = seconds_of(processes)
            share = share_of_server(seconds) - without
            ended = seconds_of(processes)
            sessions = count(SESSIONS, [])
        what = f"{number} idle workers"
        report(f"{what}: server", share, "% of a core", 1 if number == 64 else None)
        own = 100 * (ended - begun) / seconds
        report(f"{what}: they themselves", own, "% of a core")
        report(f"{what}: sessions", sessions, "")


SESSIONS = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND application_name LIKE 'pgjobs:%%'
"""


@figure
def busy(jobs: int = 20_000) -> None:
    """Measure a drain of jobs that do nothing by more and more workers."""
    from benchmarks.workers_tasks import noop
    from pgjobs import enqueue_many
    from pgjobs.models import Job

    for number in NUMBERS:
        with workers(number, "--concurrency", "4") as processes:
            time.sleep(SETTLING)
            server, own = server_seconds(), seconds_of(processes)
            enqueue_many([noop.bind()] * jobs)  # the workers begin with its commit
            wait_for(lambda: not Job.objects.exclude(status="SUCCESSFUL").exists(), 900)
            server, own = server_seconds() - server, seconds_of(processes) - own
            rate = count(RATE, [])
        Job.objects.all().delete()
        what = f"{number} busy workers with 4 slots"
        report(f"{what}: jobs/s", rate, "")
        report(f"{what}: server", server / jobs * 1e6, "us/job")
        report(f"{what}: they themselves", own / jobs * 1e6, "us/job")


RATE = """
SELECT count(*) / extract(epoch FROM max(finished_at) - min(started_at))
FROM pgjobs_job
"""


@figure
def schedules(seconds: float = 60) -> None:
    """Measure schedules that are due once a minute, with four workers."""
    from pgjobs.models import Job, Schedule

    with workers(4, "--concurrency", "4"):
        time.sleep(SETTLING)
        without = share_of_server(seconds)
        for number in CROWDS:
            spread(number, task="benchmarks.noop")
            time.sleep(SETTLING)
            before = Job.objects.count()
            share = share_of_server(seconds) - without
            runs = Job.objects.count() - before
            of_run = share / 100 * seconds / max(runs, 1) * 1e6
            what = f"{number:,} schedules of a minute"
            report(f"{what}: runs in {seconds:g} s", runs, "")
            report(f"{what}: server", share, "% of a core")
            report(f"{what}: server", of_run, "us/run")
            Schedule.objects.filter(task="benchmarks.noop").delete()
            Job.objects.all().delete()


def spread(number: int, task: str) -> None:
    """Create schedules of a minute that fire one after the other."""
    from django.utils.timezone import now

    from pgjobs.models import Schedule

    minute, begin = timedelta(minutes=1), now()
    moments = [begin + minute * each / number for each in range(number)]
    Schedule.objects.bulk_create(
        Schedule(
            name=f"schedule {each}",
            task=task,
            every=minute,
            origin_at=moment,  # without it all would fire together a minute later
            next_run_at=moment,
        )
        for each, moment in enumerate(moments)
    )


@figure
def subscribers(events: int = 200) -> None:
    """Measure publishing beside subscriptions to other events, and to this one."""
    publish_beside("no subscription", events)
    for number in CROWDS:
        execute(SUBSCRIPTIONS, ["other.", True, number])
        publish_beside(f"{number:,} to other events", events)
        execute(SUBSCRIPTIONS, ["crowd", False, number])
        publish_beside(f"{number:,} to this event", events // 20)


def publish_beside(what: str, times: int) -> None:
    """Measure publishing beside the subscriptions that exist, and remove them."""
    from pgjobs import publish
    from pgjobs.models import Event, Job, Subscription

    begun = server_seconds()
    for each in range(times):
        publish("crowd", {"number": each})
    used = (server_seconds() - begun) / times * 1e6
    report(f"publish beside {what}: server", used, "us")
    Job.objects.all().delete()
    Event.objects.all().delete()
    Subscription.objects.filter(task__startswith="benchmarks.task ").delete()


# What they are made of


@contextmanager
def workers(number: int, *arguments: str) -> Iterator[list[subprocess.Popen]]:
    """Run worker processes for the length of a block; all listen when it begins."""
    processes: list[subprocess.Popen] = []
    try:
        while len(processes) < number:
            some = min(AT_ONCE, number - len(processes))
            processes += [start_worker(*arguments) for _ in range(some)]
            wanted = len(processes)
            wait_for(lambda wanted=wanted: listening_workers() >= wanted, STARTING)
        yield processes
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait()


def execute(statement: str, parameters: list) -> None:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)


def seconds_of(processes: list[subprocess.Popen]) -> float:
    return sum(cpu_seconds_of_tree(process.pid) for process in processes)


def checkpoint() -> None:
    with privileged() as server:
        server.execute("CHECKPOINT")


def share_of_server(seconds: float) -> float:
    """Return how much of a core the server uses, in percent."""
    begun = server_seconds()
    time.sleep(seconds)
    return 100 * (server_seconds() - begun) / seconds


def server_seconds() -> float:
    """Return the processor time of all processes of the server."""
    own = count("SELECT pg_backend_pid()", [])
    status = Path(f"/proc/{own}/stat").read_text().rpartition(")")[2].split()
    return cpu_seconds_of_tree(int(status[1]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], "benchmarks.workers_tasks"))
