"""Measure tasks that wait: `python -m benchmarks.durable [figure ...]`.

Starts a PostgreSQL of its own, or takes that of DATABASE_URL. Workers are real
`manage.py runjobs` processes, whose connections stay open. Exits with 1 if a figure
misses its goal.
"""

import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
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
from benchmarks.processes import cpu_seconds, cpu_seconds_of_tree
from benchmarks.server import privileged

Begin = Callable[[int], Any]
End = Callable[[Any, int], object]
CONNECTING = json.dumps({"CONN_MAX_AGE": 600})
SETTLING = 0.05  # seconds, after which the worker is idle

WAITING = """
SELECT count(*) FROM pgjobs_job WHERE status = 'WAITING'
"""
UNFINISHED = "SELECT count(*) FROM pgjobs_job WHERE finished_at IS NULL"
# Triggers would take an hour for it.
FILL = """
SET session_replication_role = replica;
INSERT INTO pgjobs_job
    (id, turn, task, status, waiting_for, line, keys, attempts, lease_token,
     last_attempted_at, started_at)
SELECT number + {first} - 1, number + {first} - 1, 'benchmarks.told', 'WAITING',
    'event', 'unknown', pgjobs_enqueued_in(), 1, number, now(), now()
FROM generate_series(1, {number}) AS number;
INSERT INTO pgjobs_wait (job_id, life, name, kind, event, aggregate_id, deadline)
SELECT id, 1, 'benchmark.go', 'event', 'benchmark.go', id::text,
    now() + interval '30 days'
FROM pgjobs_job WHERE id >= {first};
INSERT INTO pgjobs_waitnote (job_id, due_at)
SELECT job_id, deadline FROM pgjobs_wait;
SET session_replication_role = origin;
"""
OTHERS = """
SET session_replication_role = replica;
INSERT INTO pgjobs_event (id, name, aggregate_id)
SELECT number + {first} - 1, 'other.' || number % 1000, number::text
FROM generate_series(1, {number}) AS number;
INSERT INTO pgjobs_awaitedevent (event_id, name, aggregate_id, cluster, transaction)
SELECT id, name, aggregate_id, pgjobs_cluster(), id FROM pgjobs_event
WHERE id >= {first};
SET session_replication_role = origin;
"""
PUBLISH = """
SELECT pgjobs_publish('benchmark.go', aggregate_id => %(aggregate_id)s)
"""
FIRST = 10_000_001  # the id of the first job that waits


@figure
def latency(number: int = 200) -> None:
    """Measure how long it takes from publish() or answer() to the task's next line.

    That is measured twice: from the COMMIT, before which no other session can see what
    was published, and from the call, which ends with it. How long the call takes until
    then is the caller's: its transaction may do more.
    """
    from benchmarks.durable_tasks import answered, plain, told
    from pgjobs import publish
    from pgjobs.models import Job

    with worker("--concurrency", "4"), tempfile.NamedTemporaryFile("r") as notes:
        path = notes.name
        jobs = [answered.enqueue(path=path) for _ in range(number)]
        names = [f"number {each}" for each in range(number)]
        for name in names:
            told.enqueue(name, path=path)
        wait_for(lambda: count(WAITING, []) == 2 * number, 120)
        acts: dict[str, list[Callable[[], object]]] = {
            "enqueue": [lambda: plain.enqueue(path)] * number,
            "answer": [lambda job=job: job.answer("go", "on") for job in jobs],
            "publish": [
                lambda name=name: publish("benchmark.go", {}, aggregate_id=name)
                for name in names
            ],
        }
        for name, calls in acts.items():
            report_times(name, [time_to_note(call, path) for call in calls])
        wait_for(lambda: not count(UNFINISHED, []))
    assert not Job.objects.exclude(status="SUCCESSFUL").exists()
    forget()


def report_times(name: str, times: list[tuple[float, float]]) -> None:
    """Report the times of calls, and those to the lines behind them, in seconds."""
    line = "the task's first line" if name == "enqueue" else "its next line"
    parts = {
        f"the call of {name} and its COMMIT": [call for call, _ in times],
        f"{name}, from the call to {line}": [whole for _, whole in times],
        f"{name}, from its COMMIT to {line}": [whole - call for call, whole in times],
    }
    for what, seconds in parts.items():
        milliseconds = sorted(1e3 * each for each in seconds)
        for percent in (50, 95):
            is_goal = "from its COMMIT" in what and percent == 50 and name != "enqueue"
            value = milliseconds[int(len(times) * percent / 100)]
            report(f"{what}, p{percent}", value, "ms", 3 if is_goal else None)


def time_to_note(act: Callable[[], object], path: str) -> tuple[float, float]:
    """Return the seconds of the call, and those to the line that the task writes."""
    size = os.path.getsize(path)
    time.sleep(SETTLING)
    begun = time.monotonic()
    act()
    taken = time.monotonic() - begun
    wait_for(lambda: os.path.getsize(path) > size)
    return taken, float(Path(path).read_text().splitlines()[-1]) - begun


@figure
def processor(drained: int = 500, alone: int = 50, rounds: int = 5) -> None:
    """Compare the processor time of jobs that wait once with that of plain jobs.

    It is that of a worker and of the server, with what the server does for an answer or
    an event, and without enqueueing. The kinds take turns, and so do two ways: the
    worker drains all jobs, and later those that go on; or they come one by one.
    """
    from benchmarks.durable_tasks import answered, plain, sleeping, told
    from pgjobs import enqueue, publish

    kinds: dict[str, tuple[Begin, End | None]] = {
        "plain": (lambda each: enqueue(plain), None),
        "sleep": (lambda each: enqueue(sleeping), None),
        "answer": (lambda each: enqueue(answered), lambda job, _: job.answer("go", "")),
        "event": (
            lambda each: enqueue(told, f"number {each}"),
            lambda _, each: publish("benchmark.go", {}, aggregate_id=f"number {each}"),
        ),
    }
    ways = {"one by one": (time_alone, alone), "drained": (time_drained, drained)}
    taken: dict[tuple[str, str], list[float]] = {}
    with worker("--concurrency", "4") as process:
        for _ in range(rounds):
            for how, (measure, number) in ways.items():
                for kind, (begin, end) in kinds.items():
                    seconds = measure(process.pid, number, begin, end)
                    wait_until(lambda: not count(UNFINISHED, []))
                    forget()
                    times = taken.setdefault((how, kind), [])
                    times.append(seconds / number * 1e3)
    for how in ways:
        plain_times = taken[how, "plain"]
        report(f"a plain job, {how}", statistics.median(plain_times), "ms")
        for kind in list(kinds)[1:]:
            pairs = zip(plain_times, taken[how, kind], strict=True)
            quotient = statistics.median((b - a) / a for a, b in pairs)
            what = f"to suspend and resume one ({kind}), {how}"
            report(what, quotient, "plain jobs", 3)


def time_drained(pid: int, number: int, begin: Begin, end: End | None) -> float:
    """Return the processor time of the worker and the server for so many jobs."""
    from django.db import transaction

    from pgjobs.models import Queue

    queue, _ = Queue.objects.get_or_create(name="default")
    queue.pause()
    jobs = [begin(each) for each in range(number)]
    time.sleep(SETTLING)
    before = processor_time(pid)
    queue.resume()
    if end is not None:
        wait_until(lambda: count(WAITING, []) == number)
        with transaction.atomic():
            for each, job in enumerate(jobs):
                end(job, each)
    wait_until(lambda: not count(UNFINISHED, []))
    return processor_time(pid) - before


def time_alone(pid: int, number: int, begin: Begin, end: End | None) -> float:
    """Do as `time_drained` with jobs and answers that come one by one."""
    session = count("SELECT pg_backend_pid()", [])
    before, enqueueing = processor_time(pid), 0.0
    for each in range(number):
        begun = cpu_seconds(session)
        job = begin(each)
        enqueueing += cpu_seconds(session) - begun
        time.sleep(SETTLING)
        if end is not None:
            wait_for(lambda: count(WAITING, []))
            end(job, each)
            time.sleep(SETTLING)
    wait_until(lambda: not count(UNFINISHED, []))
    return processor_time(pid) - before - enqueueing


def processor_time(pid: int) -> float:
    with privileged() as server:
        path = server.execute("SHOW data_directory").fetchone()[0]
    postmaster = int(Path(path, "postmaster.pid").read_text().split()[0])
    return cpu_seconds_of_tree(pid) + cpu_seconds_of_tree(postmaster)


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait without asking often, for to ask takes processor time, too."""
    deadline = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


@figure
def fitting(waiting: int = 100_000, others: int = 1_000_000, number: int = 100) -> None:
    """Publish events of which each fits one of many jobs that wait.

    The processor time is that of a session that publishes and of the session of a
    worker, which wakes the jobs.
    """
    from django.db import transaction

    from pgjobs.features.durable.queue import wake
    from pgjobs.queue.statements import execute_on
    from pgjobs.worker.connections.connection import OwnConnection, Watchdog, plan_once
    from tests.support.declared import store_definitions

    store_definitions()
    watchdog = Watchdog()
    own = OwnConnection("default", "loop", "benchmark", watchdog, 60, plan_once)
    pid = own.open().info.backend_pid
    publisher = count("SELECT pg_backend_pid()", [])
    places = iter(range(FIRST, FIRST + waiting))
    for text, size in ((FILL, waiting), (OTHERS, others)):
        with privileged() as server:
            server.execute(text.format(first=FIRST, number=size))
            server.execute("VACUUM ANALYZE")
        own_time, publishers_time = [], []
        for _ in range(number):
            begun = cpu_seconds(publisher)
            with transaction.atomic():  # so the worker wakes the job
                execute_on("default")(PUBLISH, {"aggregate_id": str(next(places))})
            publishers_time.append((cpu_seconds(publisher) - begun) * 1e3)
            begun = cpu_seconds(pid)
            assert wake(own.execute).number == 1
            own_time.append((cpu_seconds(pid) - begun) * 1e3)
        beside = f", beside {others:,} others" if text is OTHERS else ""
        what = f"to publish an event for one of {waiting:,} waits{beside}"
        report(what, statistics.median(publishers_time), "ms")
        what = f"to wake its job{beside}"
        report(what, statistics.median(own_time), "ms", 1)
    own.close()
    watchdog.stop()
    forget()


@contextmanager
def worker(*arguments: str) -> Iterator:
    """Run a worker that hears notifications."""
    process = start_worker(*arguments, BENCHMARK_CONNECTING=CONNECTING)
    try:
        wait_for(listening_workers)
        time.sleep(1)
        yield process
    finally:
        process.terminate()
        process.wait()


def forget() -> None:
    from pgjobs.models import Event, Job

    with privileged() as server:
        server.execute("TRUNCATE pgjobs_wait, pgjobs_waitnote, pgjobs_awaitedevent")
    Job.objects.all().delete()
    Event.objects.all().delete()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], "benchmarks.durable_tasks"))
