"""Jobs that kill their process: they end FAILED, and innocent ones do not pay."""

from time import monotonic

import pytest

from pgjobs import enqueue, enqueue_many
from pgjobs.models import Attempt, Job
from tests import tasks
from tests.processes import (
    SOON,
    WorkerThread,
    drain,
    running_worker,
    shared_queue,
    wait_for,
    wait_for_pass,
    wait_for_status,
)

pytestmark = shared_queue

BRISK = {"HEARTBEAT_INTERVAL": 0.4, "LEASE_DURATION": 3}


@pytest.fixture
def supervise(start_worker):
    """Run a worker process until the queue is empty, another one whenever it dies."""

    def run_until_drained(*arguments, settings=BRISK) -> int:
        deaths = 0
        while Job.objects.filter(status__in=["READY", "RUNNING"]).exists():
            assert deaths < 10
            worker = start_worker(*arguments, settings=settings, registered=False)
            wait_for(
                lambda worker=worker: (
                    not worker.is_alive
                    or not Job.objects.exclude(
                        status__in=["SUCCESSFUL", "FAILED"]
                    ).exists()
                )
            )
            if worker.is_alive:
                worker.stop()
            else:
                deaths += 1
        return deaths

    return run_until_drained


def test_poison_job_fails_after_three_crashes_and_fifty_others_succeed(supervise):
    innocent = [tasks.sleep.bind(0.02) for _ in range(50)]
    jobs = enqueue_many([*innocent[:3], tasks.kill_own_process.bind(), *innocent[3:]])
    poison = jobs.pop(3)
    deaths = supervise("--concurrency", "4", "--prefetch", "2")
    poison.refresh_from_db()
    assert (poison.status, poison.crashes, poison.failures) == ("FAILED", 3, 0)
    assert poison.reason == "Worker lost (crash 3 of 3)."
    assert deaths == 3
    outcomes = Attempt.objects.filter(job=poison).values_list("number", "outcome")
    assert sorted(outcomes) == [(1, "CRASHED"), (2, "CRASHED"), (3, "CRASHED")]
    ids = [job.pk for job in jobs]
    assert Job.objects.filter(pk__in=ids, status="SUCCESSFUL").count() == 50
    assert not Job.objects.filter(pk__in=ids, crashes__gt=2).exists()


def test_job_that_may_crash_once_only_is_never_run_again(supervise):
    poison = tasks.kill_own_process.using(max_crashes=1).enqueue()
    others = enqueue_many([tasks.noop.bind() for _ in range(5)])
    assert supervise("--concurrency", "4") == 1
    poison.refresh_from_db()
    assert (poison.status, poison.attempts, poison.crashes) == ("FAILED", 1, 1)
    crashes = Job.objects.filter(pk__in=[job.pk for job in others])
    assert set(crashes.values_list("status", "crashes")) == {("SUCCESSFUL", 0)}


def test_operators_retry_gives_a_poison_job_a_new_life(supervise):
    job = tasks.kill_own_process.using(max_crashes=1).enqueue()
    supervise()
    job.refresh_from_db()
    assert job.retry()
    assert (job.status, job.life, job.attempts, job.crashes) == ("READY", 2, 0, 0)


# A last chance has one crash left, so it runs alone


def last_chance(task, *args, **options) -> Job:
    return task.using(max_crashes=1, **options).enqueue(*args)


@pytest.fixture
def path(tmp_path) -> str:
    return str(tmp_path / "held")


def test_last_chance_waits_for_the_others_and_nothing_starts_beside_it(path):
    first = enqueue(tasks.hold, f"{path}1")
    with WorkerThread(slots=4, poll=600) as worker:
        wait_for_status(first, "RUNNING")
        alone = last_chance(tasks.hold, f"{path}2")
        wait_for(
            lambda: worker.loop.claimer.rule.waits_for_idle, "the last chance is met"
        )
        assert Job.objects.running().get() == first
        tasks.let_go(f"{path}1")
        wait_for_status(alone, "RUNNING")
        last = enqueue(tasks.noop)
        worker.loop.claimer.rule.wake()
        wait_for_pass(worker.loop)
        last.refresh_from_db()
        assert (alone.status, last.status) == ("RUNNING", "READY")
        tasks.let_go(f"{path}2")
        wait_for_status(last, "SUCCESSFUL")


def test_last_chances_run_one_after_the_other_in_claim_order(path):
    for line, is_last_chance in [("a", False), ("b", True), ("c", True), ("d", False)]:
        task = tasks.note.using(max_crashes=1) if is_last_chance else tasks.note
        task.enqueue(path, line)
    last_chance(tasks.note, path, "e", priority=1)
    assert drain(slots=4, prefetch=4).finished == 5
    assert "".join(tasks.lines(path)) == "eabcd"


def test_last_chance_does_not_hinder_the_other_workers(path):
    first = enqueue(tasks.hold, path)
    with WorkerThread(slots=4, poll=600, queues=("default",)) as worker:
        wait_for_status(first, "RUNNING")
        alone = last_chance(tasks.noop)
        wait_for(
            lambda: worker.loop.claimer.rule.waits_for_idle, "the last chance is met"
        )
        drain()
        wait_for_status(alone, "SUCCESSFUL")
        tasks.let_go(path)


def test_worker_that_waits_to_be_idle_does_not_spin(path):
    held = enqueue(tasks.hold, path)
    with WorkerThread(slots=4, poll=600) as worker:
        wait_for_status(held, "RUNNING")
        last_chance(tasks.noop)
        wait_for(
            lambda: worker.loop.claimer.rule.waits_for_idle, "the last chance is met"
        )
        wait_for(lambda: worker.loop.wakes_at() > monotonic(), "it has nothing to do")
        tasks.let_go(path)


def test_slots_wait_no_longer_for_a_job_that_was_to_run_alone_and_is_gone(tmp_path):
    path = str(tmp_path / "held")
    enqueue(tasks.hold, path)
    with running_worker(slots=2, poll=0.5) as loop:
        wait_for(lambda: tasks.lines(path), "a job runs")
        alone = tasks.noop.using(max_crashes=1).enqueue()
        other = tasks.noop.enqueue()
        wait_for(
            lambda: loop.claimer.rule.waits_for_idle, "the worker waits to be idle"
        )
        alone.cancel()
        wait_for_status(other, "SUCCESSFUL", timeout=SOON)
        tasks.let_go(path)
