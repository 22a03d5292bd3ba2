"""Time limits: an attempt that takes too long is stopped, or given up."""

import asyncio
import contextlib
import threading
import time
from datetime import timedelta

import pytest
from asgiref.sync import sync_to_async
from django.db import transaction

from pgjobs import constant, enqueue, task
from pgjobs.exceptions import TaskTimeout
from pgjobs.models import Attempt, Job, Worker
from pgjobs.worker import ExitCode
from pgjobs.worker.slots.deadlines import Deadlines
from tests import tasks
from tests.processes import (
    WorkerThread,
    drain,
    run,
    running_worker,
    shared_queue,
    wait_for,
    wait_for_status,
)

pytestmark = shared_queue

SOON = 0.05
IMPATIENT = {"TIMEOUT_GRACE": 0.05}


def work_for_ever():
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        pass


@task(max_attempts=1, timeout=SOON)
def work_too_long():
    work_for_ever()


@task(max_attempts=1, timeout=SOON)
async def wait_too_long():
    await asyncio.sleep(60)


@task(max_attempts=1, timeout=SOON)
async def call_too_long():
    await sync_to_async(work_for_ever)()


@pytest.mark.parametrize("slow", [work_too_long, wait_too_long, call_too_long])
def test_attempt_that_takes_too_long_is_stopped(slow):
    job = run(slow)
    reason = "TaskTimeout: The attempt took longer than 0.05 s."
    assert (job.status, job.failures, job.reason) == ("FAILED", 1, reason)
    attempt = Attempt.objects.get(job=job)
    assert attempt.outcome == "FAILED"
    assert attempt.exception_class == "pgjobs.exceptions.TaskTimeout"
    assert slow.function.__name__ in attempt.traceback


def test_stopping_an_attempt_ends_its_transaction():
    later = tasks.noop.using(run_after=timedelta(hours=1)).enqueue()
    run(delete_and_work_too_long)
    assert Job.objects.filter(pk=later.pk).exists()


@task(max_attempts=1, timeout=SOON)
def delete_and_work_too_long():
    with transaction.atomic():
        Job.objects.filter(task="tests.noop").delete()
        work_for_ever()


# Which limit


@task
def work_without_limit():
    work_for_ever()


def test_limit_may_be_set_for_one_job():
    job = work_without_limit.using(timeout=timedelta(seconds=SOON)).enqueue()
    assert job.timeout == SOON
    drain()
    job.refresh_from_db()
    assert "longer than 0.05 s" in job.reason


def test_limit_of_the_job_precedes_that_of_the_task():
    job = work_too_long.using(timeout=60).enqueue()
    with running_worker():
        wait_for_status(job, "RUNNING")
        time.sleep(3 * SOON)
        job.cancel()
        wait_for_status(job, "CANCELLED")
    assert job.failures == 0


def test_project_has_a_limit_for_jobs_without_one(settings):
    settings.PGJOBS = {"TIMEOUT": timedelta(seconds=SOON)}
    job = run(work_without_limit)
    assert job.timeout is None
    assert "longer than 0.05 s" in job.reason


def test_limit_of_the_task_holds_for_jobs_inserted_by_sql():
    job = Job.objects.create(task="tests.work_too_long")
    assert job.timeout is None
    drain()
    job.refresh_from_db()
    assert "longer than 0.05 s" in job.reason


def test_job_that_ends_in_time_is_left_alone():
    jobs = [tasks.noop.using(timeout=60).enqueue() for _ in range(20)]
    loop = drain()
    assert loop.executor.deadlines.due == {}
    for job in jobs:
        job.refresh_from_db()
        assert job.status == "SUCCESSFUL"


# What follows


@task(max_attempts=2, timeout=SOON, backoff=constant(0))
def work_too_long_twice():
    work_for_ever()


@task(timeout=SOON, no_retry_on=TaskTimeout)
def work_too_long_once():
    work_for_ever()


@task(timeout=SOON, retry_on=OSError)
def work_too_long_for_oserror():
    work_for_ever()


@task(timeout=SOON, backoff=constant(100))
def work_too_long_now():
    work_for_ever()


@pytest.mark.parametrize(
    ("slow", "status", "failures"),
    [
        (work_too_long_twice, "FAILED", 2),
        (work_too_long_once, "FAILED", 1),
        (work_too_long_for_oserror, "FAILED", 1),
        (work_too_long_now, "SCHEDULED", 1),
    ],
)
def test_attempt_that_took_too_long_follows_the_rules_of_retries(
    slow, status, failures
):
    job = run(slow)
    assert (job.status, job.failures) == (status, failures)


@task(max_attempts=1, timeout=SOON)
def save_what_is_there() -> str:
    try:
        work_for_ever()
    except TaskTimeout:
        return "half of it"


@task(max_attempts=1, timeout=SOON)
async def save_what_is_there_async() -> str:
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        return "half of it"


@pytest.mark.parametrize("saving", [save_what_is_there, save_what_is_there_async])
def test_task_may_save_what_it_has_and_succeed(saving):
    job = run(saving)
    assert (job.status, job.return_value) == ("SUCCESSFUL", "half of it")


@task(max_attempts=1, timeout=SOON)
def catch_exceptions_for_ever():
    try:
        work_for_ever()
    except Exception:  # noqa: BLE001  (what the test is about)
        return "swallowed"


def test_catching_exception_does_not_swallow_the_limit():
    assert run(catch_exceptions_for_ever).status == "FAILED"


@task
def look_at_the_thread() -> str:
    return threading.current_thread().name


def test_next_job_runs_on_the_same_thread_unharmed():
    jobs = []
    for _ in range(5):
        enqueue(work_too_long)
        jobs.append(enqueue(look_at_the_thread))
    assert drain(slots=1).executor.given_up == 0
    for job in jobs:
        job.refresh_from_db()
        assert (job.status, job.return_value) == ("SUCCESSFUL", "pgjobs-slot-1")


# Bodies that do not stop


@task(max_attempts=1, timeout=SOON)
def swallow_the_limit(path: str):
    while True:
        try:
            tasks.wait_for_go(path)
            return "late"
        except TaskTimeout:
            tasks.write(path, "swallowed")


@task(max_attempts=1, timeout=SOON)
def sit_too_long_in_c_code(path: str):
    tasks.sit_in_c_code(1)
    return "late"


@task(max_attempts=1, timeout=SOON)
async def swallow_the_limit_async(path: str):
    while True:
        try:
            while not tasks.lines(f"{path}.go"):
                await asyncio.sleep(0.01)
            return "late"
        except asyncio.CancelledError:
            tasks.write(path, "swallowed")


STUBBORN = [swallow_the_limit, sit_too_long_in_c_code, swallow_the_limit_async]


@pytest.mark.parametrize("stubborn", STUBBORN)
def test_body_that_does_not_stop_is_given_up_and_the_worker_starts_again(
    stubborn, tmp_path, settings, caplog
):
    settings.PGJOBS = IMPATIENT
    path = str(tmp_path / "stubborn")
    neighbour = str(tmp_path / "neighbour")
    job = enqueue(stubborn, path)
    other = enqueue(tasks.hold, neighbour)
    with WorkerThread(slots=2) as worker:
        wait_for_status(job, "FAILED")
        assert job.reason == "TaskTimeout: The attempt took longer than 0.05 s."
        assert f"in {stubborn.function.__name__}" in Attempt.objects.get().traceback
        # Its neighbour is not disturbed, and its slot goes on.
        for following in [tasks.noop.enqueue(), wait_too_long.enqueue()]:
            wait_for_status(following, "SUCCESSFUL", "FAILED")
        assert worker.thread.is_alive()
        tasks.let_go(neighbour)
        assert worker.join() == ExitCode.RESTART
        tasks.let_go(path)
        tasks.write(f"{path}.go", "async")
    other.refresh_from_db()
    assert other.status == "SUCCESSFUL"
    if stubborn is not swallow_the_limit_async:  # whose loop has ended with the worker
        wait_for(lambda: "ended long after it was given up" in caplog.text)
    job.refresh_from_db()
    assert (job.status, job.return_value) == ("FAILED", None)
    assert not Worker.objects.exists()


@pytest.mark.usefixtures("eager")
def test_worker_claims_no_more_when_as_much_runs_on_as_it_has_slots(tmp_path, settings):
    settings.PGJOBS = IMPATIENT
    stubborn, held = str(tmp_path / "stubborn"), str(tmp_path / "held")
    for _ in range(2):
        enqueue(swallow_the_limit, stubborn)
    with WorkerThread(slots=2, prefetch=2) as worker:
        wait_for(lambda: Job.objects.failed().count() == 2)
        late = enqueue(tasks.hold, held)
        assert worker.join() == ExitCode.RESTART
        tasks.let_go(stubborn)
    late.refresh_from_db()
    assert (late.status, tasks.lines(held)) == ("READY", [])


@pytest.mark.usefixtures("eager")
def test_slot_of_a_job_that_is_given_up_goes_to_one_that_waits(tmp_path, settings):
    settings.PGJOBS = IMPATIENT
    path = str(tmp_path / "stubborn")
    job = enqueue(swallow_the_limit, path)
    held = enqueue(tasks.hold, str(tmp_path / "held"))
    waiting = enqueue(tasks.noop)
    with WorkerThread(slots=2, prefetch=1) as worker:
        wait_for(lambda: Job.objects.running().count() == 3 or tasks.lines(path))
        wait_for_status(waiting, "SUCCESSFUL")
        tasks.let_go(tmp_path / "held")
        assert worker.join() == ExitCode.RESTART
        tasks.let_go(path)
    held.refresh_from_db()
    assert (waiting.attempts, held.status) == (1, "SUCCESSFUL")
    job.refresh_from_db()
    assert job.status == "FAILED"


@task(max_attempts=1, timeout=SOON)
async def block_without_end(path: str):
    tasks.wait_for_go(path)


@task(max_attempts=1, timeout=SOON)
async def swallow_the_limit_and_block(path: str):
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.sleep(60)
    await asyncio.sleep(0.2)  # it is given up meanwhile
    tasks.wait_for_go(path)


@task
async def wait_in_sync_code(path: str, started: str):
    tasks.write(started, "x")
    await sync_to_async(tasks.wait_for_go)(path)


@pytest.mark.parametrize(
    ("blocking", "grace"),
    [
        (block_without_end, 0.3),  # reported as blocking, then given up
        (block_without_end, 0),  # the other way round
        (swallow_the_limit_and_block, 0.05),
    ],
)
def test_jobs_that_share_a_blocked_event_loop_run_on_another_one(
    blocking, grace, tmp_path, settings, monkeypatch
):
    monkeypatch.setattr("pgjobs.worker.slots.event_loop.TICK", 0.02)
    monkeypatch.setattr("pgjobs.worker.slots.event_loop.BLOCKED_SECONDS", 0.1)
    settings.PGJOBS = {"TIMEOUT_GRACE": grace}
    blocked, held, started = (str(tmp_path / name) for name in "abc")
    other = enqueue(wait_in_sync_code, held, started)
    with WorkerThread(slots=3) as worker:
        wait_for(lambda: tasks.lines(started), "it runs")
        job = enqueue(blocking, blocked)
        wait_for_status(job, "FAILED")
        wait_for(lambda: len(tasks.lines(started)) == 2, "it runs again")
        tasks.let_go(held)
        wait_for_status(other, "SUCCESSFUL")
        assert worker.join() == ExitCode.RESTART
        tasks.let_go(blocked)
    assert (other.failures, other.attempts) == (0, 2)
    assert other.attempts_made.get().message == (
        f"Released: job {job.pk} blocks the event loop."
    )


def test_worker_process_replaces_itself_when_it_has_given_up_a_job(start_worker):
    worker = start_worker("--concurrency", "1", settings=IMPATIENT)
    (row,) = Worker.objects.all()
    job = enqueue(tasks.sit_in_c_code.using(timeout=SOON), 600)
    wait_for_status(job, "FAILED")
    wait_for_status(enqueue(tasks.noop), "SUCCESSFUL")
    (new_row,) = Worker.objects.all()
    assert new_row.pid == row.pid == worker.pid
    assert new_row.pk != row.pk
    assert worker.stop() == ExitCode.STOPPED


def test_worker_that_is_to_stop_does_not_wait_for_what_it_has_given_up(start_worker):
    worker = start_worker("--max-jobs", "1", settings=IMPATIENT)
    job = enqueue(tasks.sit_in_c_code.using(timeout=SOON), 600)
    assert worker.wait() == ExitCode.STOPPED
    job.refresh_from_db()
    assert "TaskTimeout" in job.reason


# Deadlines


def test_deadlines_are_met_in_their_order_and_may_be_lifted():
    deadlines = Deadlines()
    met = []
    for seconds in (0.06, 0.04, 0.02):
        deadlines.set(seconds, seconds, lambda seconds=seconds: met.append(seconds))
    deadlines.set("lifted", 0.03, lambda: met.append("lifted"))
    deadlines.set("far", 10**10, lambda: met.append("far"))
    deadlines.lift("lifted")
    deadlines.lift("unknown")
    wait_for(lambda: len(met) == 3)
    deadlines.stop()
    assert met == [0.02, 0.04, 0.06]


def test_deadline_that_raises_does_not_end_the_others(caplog):
    deadlines = Deadlines()
    met = []
    deadlines.set(1, 0, lambda: 1 / 0)
    deadlines.set(2, 0.01, lambda: met.append(2))
    wait_for(lambda: met)
    deadlines.stop()
    assert "Deadline failed" in caplog.text
