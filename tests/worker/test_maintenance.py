"""What every worker does for all: after a full batch the next one follows at once."""

from collections.abc import Callable
from datetime import timedelta
from time import monotonic

import pytest
from django.utils import timezone

from pgjobs import enqueue
from pgjobs.models import Job
from pgjobs.queue import upkeep
from pgjobs.worker import Loop
from pgjobs.worker.upkeep.chore import Chore
from tests.actors import (
    Hand,
    execute,
    forget_a_job_in_line,
    hours,
    job_that_is,
    linked_job,
    pass_time,
)
from tests.processes import (
    SOON,
    running_worker,
    shared_queue,
    statements_of_workers,
    wait_for,
    wait_for_all,
    wait_for_pass,
)
from tests.tasks import noop

pytestmark = shared_queue


@pytest.fixture
def loop(settings, monkeypatch):
    """A worker that runs nothing and has pauses of minutes between its chores."""
    settings.PGJOBS = {"HEARTBEAT_INTERVAL": 600, "LEASE_DURATION": 3_600}
    monkeypatch.setattr(upkeep, "BATCH", 2)
    with running_worker(queues=("none",), poll=600) as loop:
        yield loop


def begin(loop: Loop, chore: Chore) -> None:
    chore.due = 0
    loop.bell.ring()


def test_jobs_of_the_dead_are_rescued_without_a_pause_after_a_full_batch(loop):
    dead = Hand("dead")
    for _ in range(5):
        enqueue(noop)
    assert len(dead.claim(5)) == 5
    dead.vanish()
    begin(loop, loop.upkeep.survey)
    wait_for_all("READY", timeout=SOON)


def test_old_jobs_are_pruned_without_a_pause_after_a_full_batch(loop):
    long_ago = timezone.now() - hours(99_999)
    for _ in range(5):
        job_that_is("SUCCESSFUL", finished_at=long_ago)
    young = job_that_is("SUCCESSFUL")
    begin(loop, loop.upkeep["prune"])
    wait_for(lambda: Job.objects.count() == 1, "they are deleted", SOON)
    assert Job.objects.get() == young


# Each chore has work of which no notification comes, and a condition that it is done.


def leave_jobs_of_the_dead() -> Callable[[], bool]:
    dead = Hand("dead")
    enqueue(noop)
    assert dead.claim()
    dead.vanish()
    return Job.objects.ready().exists


def leave_a_forgotten_job_in_line() -> Callable[[], bool]:
    forget_a_job_in_line(queue_name="none")
    return Job.objects.filter(status="SUCCESSFUL").exists


def leave_a_job_behind_one_that_is_gone() -> Callable[[], bool]:
    first = enqueue(noop)
    last = linked_job(after=first, queue_name="none")
    wait_for(Job.objects.filter(pk=last.pk, line="predecessor").exists)
    execute("ALTER TABLE pgjobs_job DISABLE TRIGGER USER")
    execute("DELETE FROM pgjobs_job WHERE id = %(id)s", {"id": first.pk})
    execute("ALTER TABLE pgjobs_job ENABLE TRIGGER USER")
    return Job.objects.filter(status="CANCELLED").exists


def leave_an_expired_job() -> Callable[[], bool]:
    job_that_is("READY", expires_at=timezone.now() - hours(1))
    return Job.objects.filter(status="CANCELLED").exists


@pytest.mark.usefixtures("no_schedules", "no_subscriptions")
@pytest.mark.parametrize(
    "leave",
    [
        leave_jobs_of_the_dead,
        leave_a_forgotten_job_in_line,
        leave_a_job_behind_one_that_is_gone,
        leave_an_expired_job,
    ],
)
def test_chore_is_found_and_done_though_there_was_none_before(loop, leave):
    check_that_it_is_done(loop, leave)


def check_that_it_is_done(loop: Loop, leave: Callable[[], Callable[[], bool]]) -> None:
    wait_for_pass(loop)
    is_done = leave()
    assert not is_done()
    begin(loop, loop.upkeep.survey)
    wait_for(is_done, timeout=SOON)


@pytest.mark.listening
@pytest.mark.usefixtures("no_schedules", "no_subscriptions")
def test_worker_asks_once_for_all_chores_and_not_for_jobs_beside(loop):
    wait_for_pass(loop)
    wait_for(lambda: loop.bell.alarm)
    loop.claimer.rule.saw_none(monotonic() - 300)
    poll_at = loop.claimer.rule.due
    assert poll_at > monotonic()
    with statements_of_workers() as executed:
        for _ in range(3):
            begin(loop, loop.upkeep.survey)
            wait_for(lambda: loop.upkeep.survey.due)
    assert executed == ["loop chores"] * 3
    assert loop.claimer.rule.due > poll_at, "the next poll comes later"


def test_worker_that_cannot_listen_polls_although_it_looks_for_chores(settings):
    settings.PGJOBS = {"HEARTBEAT_INTERVAL": 0.2}
    with running_worker(listen=False, poll=0.3) as loop:
        wait_for_pass(loop)
        enqueue(noop)
        wait_for_all("SUCCESSFUL", timeout=SOON)


def test_worker_learns_from_its_chores_when_a_scheduled_job_is_due(loop):
    wait_for_pass(loop)
    loop.listener.wanted = False
    loop.listener.drop("for the test")
    job = enqueue(noop.using(run_after=hours(1)))
    due = timezone.now() + timedelta(seconds=0.5)
    Job.objects.filter(pk=job.pk).update(run_after=due)
    begin(loop, loop.upkeep.survey)
    wait_for_all("READY", timeout=SOON)


def test_worker_that_cannot_listen_learns_from_its_chores_when_a_rate_opens(
    settings,
):
    settings.PGJOBS = {"HEARTBEAT_INTERVAL": 0.2}
    limited = noop.using(rate="1/hour")
    with running_worker(listen=False, poll=0.3) as loop:
        enqueue(limited)
        wait_for_all("SUCCESSFUL", timeout=SOON)
        assert enqueue(limited).status == "WAITING"
        pass_time(3_600)
        wait_for_pass(loop)
        wait_for_all("SUCCESSFUL", timeout=SOON)
