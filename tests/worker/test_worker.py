"""What a worker claims: in which order, how much, and each job once."""

import threading
import time
from collections import Counter
from contextlib import ExitStack, contextmanager
from datetime import timedelta

import psycopg
import pytest
from django.db import connection
from django.utils import timezone

from pgjobs import current_job, enqueue, enqueue_many, task
from pgjobs.base.connections import connect, parameters_of
from pgjobs.models import Job, Progress, Worker
from pgjobs.queue import upkeep
from pgjobs.worker import ExitCode, Loop
from tests import tasks
from tests.processes import (
    SOON,
    WorkerThread,
    drain,
    running_worker,
    shared_queue,
    statements_of_workers,
    wait_for,
    wait_for_all,
    wait_for_status,
)

pytestmark = shared_queue


@pytest.fixture
def path(tmp_path) -> str:
    """A file in which jobs write lines."""
    return str(tmp_path / "lines")


def running() -> int:
    return Job.objects.running().count()


# Order


def test_larger_priorities_run_first_and_equal_ones_in_order_of_enqueueing(path):
    for line, priority in [("a", 0), ("b", -100), ("c", 100), ("d", 0), ("e", 100)]:
        tasks.note.using(priority=priority).enqueue(path, line)
    drain(slots=1)
    assert "".join(tasks.lines(path)) == "ceadb"


def test_queues_are_merged_by_priority(path):
    for line, queue, priority in [
        ("a", "zoo", 0),
        ("b", "aviary", 1),
        ("c", "zoo", 2),
        ("d", "aviary", 0),
    ]:
        tasks.note.using(queue_name=queue, priority=priority).enqueue(path, line)
    drain(slots=1)
    assert "".join(tasks.lines(path)) == "cbad"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"queues": ("a", "c")}, "ac"),
        ({"excluded": ("a", "c")}, "bd"),
        ({"queues": ("nothing",)}, ""),
        ({}, "abcd"),
    ],
)
def test_only_queues_that_are_served_are_run(path, options, expected):
    for name in "abcd":
        tasks.note.using(queue_name=name).enqueue(path, name)
    drain(**options)
    assert "".join(sorted(tasks.lines(path))) == expected
    assert Job.objects.ready().count() == 4 - len(expected)


def test_queue_may_have_any_name(path):
    names = ["mail orders", "Ä;DROP TABLE pgjobs_job;--", "'\"%s{}", "x" * 200, "☃"]
    for name in names:
        tasks.note.using(queue_name=name).enqueue(path, name)
    for name in names:
        drain(queues=(name,))
    assert tasks.lines(path) == names


# Slots


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize(
    ("options", "most"), [({"slots": 4}, 4), ({"slots": 2, "prefetch": 3}, 5)]
)
def test_worker_holds_no_more_jobs_than_it_has_slots_and_prefetches(options, most):
    enqueue_many([tasks.sleep.bind(0.05) for _ in range(60)])
    held = set()
    with notifying(), running_worker(poll=600, **options):
        while Job.objects.ready().exists():
            held.add(running())
        wait_for_all("SUCCESSFUL")
    assert max(held) == most


class notifying:
    """Wake the workers over and over, from several connections at once."""

    def __enter__(self):
        self.over = threading.Event()
        self.threads = [threading.Thread(target=self.notify) for _ in range(5)]
        for thread in self.threads:
            thread.start()

    def notify(self):
        with psycopg.connect(**parameters_of("default"), autocommit=True) as own:
            while not self.over.wait(0.005):
                own.execute("SELECT pg_notify('pgjobs', 'default')")

    def __exit__(self, *error):
        self.over.set()
        for thread in self.threads:
            thread.join()


def test_free_slot_is_filled_while_another_one_is_busy(path):
    held = enqueue(tasks.hold, path)
    with running_worker(slots=2, poll=600):
        wait_for_status(held, "RUNNING")
        for _ in range(5):
            wait_for_status(enqueue(tasks.noop), "SUCCESSFUL")
        tasks.let_go(path)


def test_job_enqueued_while_all_slots_are_busy_starts_when_one_is_free(path):
    held = enqueue(tasks.hold, path)
    with running_worker(slots=1, poll=600):
        wait_for_status(held, "RUNNING")
        late = enqueue(tasks.noop)
        tasks.let_go(path)
        wait_for_status(late, "SUCCESSFUL", timeout=SOON)


def test_all_that_is_due_becomes_ready_at_once_however_much_it_is(path, monkeypatch):
    """Although there is a slot for one only: others may have room for the rest."""
    monkeypatch.setattr(upkeep, "BATCH", 2)
    for _ in range(7):
        tasks.hold.using(run_after=timedelta(hours=1)).enqueue(path)
    Job.objects.update(run_after=timezone.now())
    with running_worker(slots=1, poll=600):
        wait_for(lambda: not Job.objects.scheduled().exists(), "all are promoted")
        assert not Job.objects.finished().exists()
        tasks.let_go(path)
        wait_for_all("SUCCESSFUL")


# Exactly one worker


@pytest.mark.slow
def test_three_processes_run_each_of_two_thousand_jobs_once(start_worker, path):
    workers = [start_worker("--poll", "600", "--name", "twin") for _ in range(3)]
    names = Worker.objects.values_list("name", flat=True)
    assert list(names) == ["twin"] * 3
    enqueue_many([tasks.note.bind(path, str(number)) for number in range(2_000)])
    wait_for_all("SUCCESSFUL")
    times = Counter(tasks.lines(path))
    assert len(times) == 2_000
    assert set(times.values()) == {1}
    assert set(Job.objects.values_list("attempts", flat=True)) == {1}
    assert [worker.stop() for worker in workers] == [0, 0, 0]
    counts = [int(each.printed.split("Completed ")[1].split()[0]) for each in workers]
    assert sum(counts) == 2_000
    assert sorted(counts)[1] > 0, "at least two of them had a share"


# Locked rows


@contextmanager
def locked(job):
    """Hold the job's row, as a transaction of the application may."""
    with connect("default", "test", "lock") as other, other.transaction():
        other.execute("SELECT FROM pgjobs_job WHERE id = %s FOR UPDATE", [job.pk])
        yield


def test_row_that_another_transaction_holds_is_skipped_without_waiting(path):
    first, second = enqueue(tasks.note, path, "1"), enqueue(tasks.note, path, "2")
    with locked(first), running_worker(poll=600):
        wait_for_status(second, "SUCCESSFUL")
        assert tasks.lines(path) == ["2"]


def is_patient(loop) -> bool:
    """Whether it has tried for a while to get a job that it cannot get."""
    now = time.monotonic()
    if loop.phase != "running":
        return False
    waits = loop.claimer.rule.passed_over, loop.upkeep.promotion.overdue
    return any(wait.lasts(now) > 1.0 for wait in waits)


@pytest.mark.parametrize("delay", [None, timedelta(microseconds=1)])
def test_locked_job_is_looked_for_less_and_less_and_runs_when_it_is_free(path, delay):
    """A released row lock notifies no worker. Waiting for it must not make one spin."""
    job = tasks.note.using(run_after=delay).enqueue(path, "1")
    with ExitStack() as stack:
        with locked(job), statements_of_workers() as executed:
            worker = stack.enter_context(WorkerThread(poll=600))
            wait_for(lambda: is_patient(worker.loop), "it is patient")
            assert executed.count("loop record_and_claim") < 10
        wait_for_status(job, "SUCCESSFUL", timeout=SOON)


def has_looked(loop: Loop) -> bool:
    return "claimer" in vars(loop) and loop.claimer.rule.poll_at > 0


def test_draining_waits_for_a_ready_job_that_another_transaction_has_locked(path):
    job = enqueue(tasks.note, path, "1")
    with ExitStack() as stack:
        with locked(job):
            worker = stack.enter_context(WorkerThread(drain=True, poll=600))
            wait_for(lambda: has_looked(worker.loop), "it has looked")
            assert worker.thread.is_alive()
        worker.join()
    assert tasks.lines(path) == ["1"]


def test_overdue_job_is_promoted_although_the_worker_is_busy():
    enqueue_many([tasks.sleep.bind(0.002) for _ in range(3_000)])
    later = timedelta(seconds=0.2)
    urgent = tasks.noop.using(priority=100, run_after=later).enqueue()
    with running_worker(poll=600):
        wait_for_status(urgent, "SUCCESSFUL")
        assert Job.objects.ready().exists(), "it came after all others"
        Job.objects.ready().discard()


# Rows that others hold


@pytest.mark.parametrize(
    "held", [tasks.hold, tasks.hold_and_fail, tasks.hold.using(lock="door")]
)
def test_locked_row_of_one_job_does_not_stop_the_others(path, held):
    job = enqueue(held, path)
    with running_worker(slots=1, poll=600) as loop:
        wait_for(lambda: tasks.lines(path), "the job runs")
        with locked(job):
            tasks.let_go(path)
            wait_for(lambda: loop.in_flight.locked, "its outcome is set aside")
            for other in (tasks.noop, tasks.noop.using(lock="gate")):
                wait_for_status(enqueue(other), "SUCCESSFUL", timeout=SOON)
        wait_for_status(job, "SUCCESSFUL", "FAILED", timeout=SOON)


@task
def report_when_told(path: str):
    tasks.hold(path)
    current_job().log("here")
    tasks.hold(f"{path}.end")


def test_report_of_a_job_whose_row_is_locked_is_stored_when_it_is_free(path):
    job = enqueue(report_when_told, path)
    with running_worker(slots=2, poll=600):
        wait_for(lambda: tasks.lines(path), "the job runs")
        with locked(job), statements_of_workers() as executed:
            tasks.let_go(path)
            wait_for(lambda: "loop report" in executed, "the worker has tried")
            wait_for_status(enqueue(tasks.noop), "SUCCESSFUL")
            assert "loop locked" not in executed, "nothing was waited for"
        wait_for(lambda: Progress.objects.filter(job=job, log__contains="here"))
        tasks.let_go(f"{path}.end")
        wait_for_status(job, "SUCCESSFUL")


def test_worker_stops_although_the_row_of_its_job_is_locked(path):
    """What cannot be released is rescued."""
    jobs = [enqueue(tasks.hold, path) for _ in range(2)]
    with WorkerThread(slots=2, poll=600) as worker:
        wait_for(lambda: len(tasks.lines(path)) == 2, "the jobs run")
        with locked(jobs[0]):
            worker.loop.stop()
            worker.loop.stop()
            assert worker.join(timeout=SOON) == ExitCode.SECOND_SIGNAL
        assert [wait_for_status(job, "READY", "RUNNING").status for job in jobs] == [
            "RUNNING",
            "READY",
        ]
    tasks.let_go(path)
    with running_worker():
        assert [wait_for_status(job, "SUCCESSFUL").crashes for job in jobs] == [1, 0]


# Connections


@pytest.mark.direct
def test_connections_of_a_worker_have_its_name():
    with running_worker(name="a worker with a name that is longer than it may be " * 2):
        names = worker_connections()
    assert [name.split(":")[1] for name in names] == ["heartbeat", "listen", "loop"]
    assert {len(name) for name in names} == {63}


def test_worker_reports_its_memory_with_its_sign_of_life():
    with running_worker():
        wait_for(lambda: Worker.objects.get().memory, "the worker has reported it")
        assert Worker.objects.get().memory > 1 << 20


@pytest.mark.direct
def test_worker_leaves_no_row_and_no_connection_behind():
    with running_worker():
        assert Worker.objects.count() == 1
        assert len(worker_connections()) == 3
    assert not Worker.objects.exists()
    wait_for(lambda: not worker_connections(), "its connections are closed")


def worker_connections() -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT application_name FROM pg_stat_activity"
            " WHERE application_name LIKE 'pgjobs:%%'"
            " AND datname = current_database() ORDER BY 1"
        )
        return [name for (name,) in cursor]


def test_manager_claims_on_the_connection_of_django(path):
    jobs = [enqueue(tasks.noop) for _ in range(3)]
    worker = Worker.objects.create(
        name="by hand",
        host="here",
        pid=1,
        slots=1,
        started_at=jobs[0].enqueued_at,
        heartbeat_at=jobs[0].enqueued_at,
        beating_since=jobs[0].enqueued_at,
        lease_until=jobs[0].enqueued_at,
        heartbeat_interval=5,
        holds_session_lock=False,
    )
    claimed = Job.objects.claim(worker, 2)
    assert claimed == jobs[:2]
    assert [job.status for job in claimed] == ["RUNNING"] * 2
    assert [job.attempts for job in claimed] == [1, 1]
    assert claimed[0].lease_token < claimed[1].lease_token
    assert Job.objects.claim(worker, 2, queues=["other"]) == []
