"""Cancelling a running job: at once or by the heartbeat, in the job's own way."""

import asyncio
import time

import pytest
from asgiref.sync import sync_to_async

from pgjobs import current_job, enqueue, task
from pgjobs.exceptions import TaskCancelled
from pgjobs.models import Attempt, Job
from pgjobs.worker import ExitCode
from tests import tasks
from tests.actors import Hand, session
from tests.processes import (
    SOON,
    WorkerThread,
    running_worker,
    shared_queue,
    wait_for,
    wait_for_status,
)

pytestmark = shared_queue

BEATING = {"HEARTBEAT_INTERVAL": 0.1, "LEASE_DURATION": 5}
CALM = {"HEARTBEAT_INTERVAL": 600, "LEASE_DURATION": 3_600}


@pytest.fixture
def path(tmp_path) -> str:
    return str(tmp_path / "path")


def start(task, path: str) -> Job:
    job = enqueue(task, path)
    wait_for(lambda: tasks.lines(path), "it runs")
    return job


def spin(seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        time.sleep(0.001)


@task
def work(path: str):
    tasks.write(path, "works")
    spin()


@task
async def wait(path: str):
    tasks.write(path, "waits")
    await asyncio.sleep(60)


@task
async def call(path: str):
    tasks.write(path, "calls")
    await sync_to_async(spin)()


@task(cancel="cooperative")
def look(path: str):
    tasks.write(path, "looks")
    while True:
        current_job().check_cancelled()
        time.sleep(0.001)


@task(cancel="cooperative")
async def look_async(path: str):
    tasks.write(path, "looks")
    while not current_job().cancel_requested:
        await asyncio.sleep(0.001)
    raise ValueError("in a way of its own")


EVERY_KIND = [work, wait, call, look, look_async]


@pytest.mark.listening
@pytest.mark.parametrize("kind", EVERY_KIND)
def test_running_job_is_asked_to_stop_at_once(kind, path, settings):
    settings.PGJOBS = CALM
    with running_worker(poll=600):
        job = start(kind, path)
        assert job.cancel("superfluous") is True
        assert job.cancel_requested_at is not None
        wait_for_status(job, "CANCELLED", timeout=SOON)
    assert (job.reason, job.return_value) == ("superfluous", None)
    assert Attempt.objects.get(job=job).worker_name


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_heartbeat_brings_the_request_to_a_worker_without_notifications(
    kind, path, settings
):
    settings.PGJOBS = BEATING
    with running_worker(poll=0.05, listen=False):
        job = start(kind, path)
        job.cancel()
        wait_for_status(job, "CANCELLED")


@pytest.mark.listening
def test_request_that_was_notified_while_no_worker_listened_is_found(
    path, settings, monkeypatch
):
    settings.PGJOBS = CALM
    with running_worker(poll=600) as loop:
        job = start(look, path)
        wait_for(lambda: loop.bell.alarm)
        subscribe = loop.listener.subscribe

        def cancel_and_subscribe(connection):
            job.cancel()
            subscribe(connection)

        monkeypatch.setattr(loop.listener, "subscribe", cancel_and_subscribe)
        with session() as other:
            backend = loop.listener.connection.info.backend_pid
            other.execute(f"SELECT pg_terminate_backend({backend}, 5000)")
        wait_for_status(job, "CANCELLED")


def test_interrupted_job_stores_its_attempt_as_cancelled(path):
    with running_worker():
        job = start(work, path)
        job.cancel()
        wait_for_status(job, "CANCELLED")
    assert (job.failures, job.attempts) == (0, 1)
    assert Attempt.objects.get(job=job).outcome == "CANCELLED"


def test_bulk_act_notifies_all_workers(tmp_path):
    paths = [str(tmp_path / name) for name in "abc"]
    with running_worker(slots=1), running_worker(slots=2):
        jobs = [start(work, path) for path in paths]
        assert Job.objects.running().cancel() == (3, 0)
        for job in jobs:
            wait_for_status(job, "CANCELLED")


def test_only_the_job_that_is_cancelled_is_asked_to_stop(tmp_path):
    with running_worker(slots=2):
        job = start(work, str(tmp_path / "one"))
        other = start(work, str(tmp_path / "other"))
        job.cancel()
        wait_for_status(job, "CANCELLED")
        other.refresh_from_db()
        assert other.status == "RUNNING"
        other.cancel()
        wait_for_status(other, "CANCELLED")


def test_request_is_notified_to_the_worker_that_owns_the_job():
    hand, other = Hand(), Hand("other")
    jobs = [enqueue(tasks.noop) for _ in range(3)]
    hand.claim(2)
    other.claim(1)
    with session() as listener:
        channels = {f"pgjobs_worker_{each.id}" for each in (hand, other)}
        listener.listen(*channels)
        Job.objects.filter(pk__in=[each.pk for each in jobs]).cancel()
        assert set(listener.heard()) == {(channel, "cancel") for channel in channels}
        Job.objects.all().cancel()  # asked once
        assert listener.heard() == []


def test_foreign_notification_cancels_nothing(path):
    with running_worker() as loop, session() as other:
        job = start(look, path)
        other.execute(f"NOTIFY {loop.listener.own_channel}, 'cancel'")
        wait_for_status(enqueue(tasks.noop), "SUCCESSFUL")
        job.refresh_from_db()
        assert job.status == "RUNNING"
        job.cancel()
        wait_for_status(job, "CANCELLED")


# Races


@task
def swallow_request(path: str) -> str:
    try:
        work(path)
    except TaskCancelled:
        return "done all the same"


@task
def fail_instead(path: str):
    try:
        work(path)
    except TaskCancelled:
        raise ValueError("broken") from None


def test_body_that_succeeds_all_the_same_is_successful(path):
    with running_worker():
        job = start(swallow_request, path)
        assert job.cancel() is True
        wait_for_status(job, "SUCCESSFUL")
    assert job.return_value == "done all the same"


def test_body_that_fails_instead_is_cancelled_and_never_retried(path):
    with running_worker():
        job = start(fail_instead, path)
        job.cancel()
        wait_for_status(job, "CANCELLED")
    assert Attempt.objects.get(job=job).message == "ValueError: broken"


def test_success_that_was_recorded_first_wins_and_the_caller_learns_it(path):
    with running_worker():
        job = start(tasks.hold, path)
        tasks.let_go(path)
        wait_for(lambda: Job.objects.get(pk=job.pk).status == "SUCCESSFUL")
        assert job.cancel() is False
    assert (job.status, job.cancel_requested_at) == ("SUCCESSFUL", None)


@task
def catch_every_exception(path: str):
    try:
        work(path)
    except Exception:  # noqa: BLE001  (what the test is about)
        return "swallowed"


def test_catching_exception_does_not_swallow_the_request(path):
    with running_worker():
        job = start(catch_every_exception, path)
        job.cancel()
        wait_for_status(job, "CANCELLED")


# At other times


@pytest.mark.usefixtures("eager")
def test_claimed_job_that_has_not_begun_ends_without_running(path, tmp_path):
    held = enqueue(tasks.hold, path)
    waiting = [enqueue(tasks.note, str(tmp_path / "ran"), "x") for _ in range(2)]
    with running_worker(slots=1, prefetch=2):
        wait_for(lambda: Job.objects.running().count() == 3, "all are claimed")
        waiting[0].cancel()
        wait_for_status(waiting[0], "CANCELLED")
        tasks.let_go(path)
        wait_for_status(waiting[1], "SUCCESSFUL")
        wait_for_status(held, "SUCCESSFUL")
    assert tasks.lines(tmp_path / "ran") == ["x"]
    assert Attempt.objects.get().message == "Cancelled before it began."


@pytest.mark.parametrize("kind", [work, wait, look])
def test_job_is_asked_to_stop_while_its_worker_shuts_down(kind, path):
    with WorkerThread(grace=60) as worker:
        job = start(kind, path)
        worker.loop.stop()
        job.cancel()
        assert worker.join() == ExitCode.STOPPED
    job.refresh_from_db()
    assert job.status == "CANCELLED"


@pytest.mark.listening
def test_busy_worker_is_notified_of_the_request_too(path, settings):
    settings.PGJOBS = CALM
    with running_worker(slots=2):
        job = start(look, path)
        busy = enqueue(go_on)
        job.cancel()
        wait_for_status(job, "CANCELLED")
        Job.objects.filter(task=busy.task).cancel()


@task
def go_on():
    go_on.enqueue()


# What the job knows


@task(cancel="cooperative")
def say_what_is_known(path: str) -> list:
    job = current_job()
    known = [job.cancel_requested, job.still_owned()]
    tasks.hold(path)
    return [*known, job.cancel_requested, job.still_owned()]


def test_job_that_is_asked_to_stop_still_belongs_to_its_worker(path):
    with running_worker() as loop:
        job = start(say_what_is_known, path)
        (execution,) = loop.executor.running.values()
        job.cancel()
        wait_for(lambda: execution.running.cancel_requested)
        tasks.let_go(path)
        wait_for_status(job, "SUCCESSFUL")
    assert job.return_value == [False, True, True, True]


@task
def ask_whether_owned(path: str, answer: str):
    tasks.hold(path)
    tasks.write(answer, str(current_job().still_owned()))


def test_job_that_was_ended_by_hand_is_no_longer_owned(path, tmp_path):
    answer = str(tmp_path / "answer")
    job = enqueue(ask_whether_owned, path, answer)
    with running_worker():
        wait_for(lambda: tasks.lines(path), "it runs")
        job.fail()
        tasks.let_go(path)
        wait_for(lambda: tasks.lines(answer) == ["False"])
