"""One fault never stops everything: plain jobs run on, and the log names the fault."""

from collections import Counter
from contextlib import ExitStack
from time import monotonic

import psycopg
import pytest
from django.utils import timezone

from pgjobs import enqueue, enqueue_many, task
from pgjobs.features import modules
from pgjobs.models import Attempt, Job, Queue
from pgjobs.reports.status import overview
from pgjobs.worker import notify_or_poll
from pgjobs.worker.connections.listener import Listener
from pgjobs.worker.upkeep.admission import Admitting
from tests import tasks
from tests.actors import Hand, execute, hours, job_that_is
from tests.processes import (
    drain,
    running_worker,
    shared_queue,
    wait_for,
    wait_for_status,
)
from tests.support.broken import broken

pytestmark = shared_queue

SOON = 10.0  # seconds, as promised
MOST_TRIES = 25  # of one statement, in as many seconds as a test takes at most
# Their connection is opened again after an error, so they have a test of their own.
OF_LISTENING = {
    "commits_wait",
    "need_no_notifications",
    "silent_ones_ended",
    "want_notifications",
}
# The statements that features have in place of `record`.
OF_FEATURES = [module.STATEMENT for module in modules("failure")]


@task(backoff=lambda failures: 3_600)
def fail_twice_at_most(message: str):
    raise ValueError(message)


@pytest.fixture
def restless(monkeypatch):
    """Let workers ask all the time, and hear that commits wait for one another."""
    monkeypatch.setattr(notify_or_poll, "MANY", 0)
    monkeypatch.setattr(notify_or_poll, "ASK_SECONDS", 0)
    monkeypatch.setattr(notify_or_poll, "PATIENCE", 0)
    ask = Listener.ask

    def answered(self, name, **parameters):
        answer = ask(self, name, **parameters)
        return True if name == "commits_wait" else answer

    monkeypatch.setattr(Listener, "ask", answered)


@pytest.mark.usefixtures("restless")
@pytest.mark.parametrize("name", sorted(OF_LISTENING))
def test_worker_neither_spins_nor_stops_while_it_cannot_ask_to_be_notified(
    name, caplog
):
    with running_worker(poll=0.2) as loop:
        with broken(name) as failures:
            wait_for(lambda: failures[name] >= 4, f"{name} is run some times")
            listener = loop.listener
            wait_for(
                lambda: (
                    listener.failures > 1 or listener.refused.lasts(monotonic()) > 1
                ),
                "the listener knows that it fails",
            )
            wait_for_status(enqueue(tasks.noop), "SUCCESSFUL", timeout=SOON)
            assert loop.phase == "running"
            assert loop.faults.since is None
        assert failures[name] <= MOST_TRIES, "it spins"
        assert f"{name} is broken" in caplog.text
        wait_for(lambda: loop.listener.connection, "it listens again")


def fill_with_jobs_of_a_limited_queue() -> None:
    Queue.objects.create(name="narrow", max_running=1)
    enqueue(tasks.noop.using(queue_name="narrow", priority=100))


def fill_with_jobs_of_a_paused_queue() -> None:
    Queue.objects.create(name="paused", paused_at=timezone.now())
    enqueue_many([tasks.noop.using(queue_name="paused", priority=100).bind()] * 200)


@pytest.mark.parametrize(
    "fill", [fill_with_jobs_of_a_limited_queue, fill_with_jobs_of_a_paused_queue]
)
def test_worker_that_cannot_claim_by_queue_gets_past_what_it_may_not_claim(
    fill, caplog
):
    fill()
    with broken("claim_by_queue") as failures, running_worker(slots=2) as loop:
        for _ in range(5):
            wait_until_all(neighbours(), "SUCCESSFUL")
        wait_for(lambda: failures["claim_by_queue"] >= 2, "it is tried again")
        assert loop.claimer.backoff.since is None
        assert failures["claim_by_queue"] <= MOST_TRIES, "it spins"
    assert (
        "Claiming by queue failed, only jobs of queues without a limit run for"
        in caplog.text
    )


def test_drain_whose_claim_by_queue_fails_for_long_says_so(monkeypatch):
    monkeypatch.setattr("pgjobs.worker.loop.DRAIN_PATIENCE", 1.0)
    fill_with_jobs_of_a_limited_queue()
    plain = neighbours()
    with broken("claim_by_queue"), running_worker(drain=True) as loop:
        wait_until_all(plain, "SUCCESSFUL")
        wait_for(lambda: loop.phase == "stopped", "it gives up")
    assert Job.objects.filter(status="READY").count() == 1


def test_worker_whose_claim_fails_for_ever_neither_spins_nor_ends(caplog):
    enqueue(tasks.noop)
    with broken("record_and_claim") as failures, running_worker(poll=600) as loop:
        backoff = loop.claimer.backoff
        wait_for(lambda: backoff.lasts(monotonic()) > 2, "it has tried some times")
        assert loop.phase == "running"
    assert failures["record_and_claim"] <= MOST_TRIES
    assert "Claiming failed, trying again in" in caplog.text
    assert "record_and_claim is broken" in caplog.text


def test_outcomes_are_recorded_and_chores_done_while_the_claim_fails(tmp_path):
    path = str(tmp_path / "held")
    job = enqueue(tasks.hold, path)
    with running_worker(poll=600) as loop:
        wait_for(lambda: tasks.lines(path), "the job runs")
        with broken("record_and_claim"):
            enqueue(tasks.noop)
            wait_for(lambda: loop.claimer.backoff.since is not None, "it fails")
            late = job_that_is("SCHEDULED", expires_at=timezone.now() - hours(1))
            tasks.let_go(path)
            loop.upkeep.expiry.due = 0.0
            loop.bell.ring()
            wait_for_status(job, "SUCCESSFUL", timeout=SOON)
            wait_for_status(late, "CANCELLED", timeout=SOON)


# Rows that no statement can change


def neighbours(**options) -> list[Job]:
    return enqueue_many([tasks.noop.using(**options).bind() for _ in range(5)])


def wait_until_all(jobs: list[Job], status: str) -> None:
    for job in jobs:
        wait_for_status(job, status, timeout=SOON)


def test_job_that_cannot_be_claimed_fails_and_the_others_run(refuse, caplog):
    refuse("NEW.status = 'RUNNING'")
    bad = enqueue(tasks.echo.using(priority=100), 1)
    others = neighbours()
    with running_worker(poll=600):
        wait_until_all(others, "SUCCESSFUL")
        wait_for_status(bad, "FAILED", timeout=SOON)
    assert bad.reason == "A worker cannot go on with the job (claim): " + REFUSED
    assert f"Job id={bad.pk} FAILED" in caplog.text


REFUSED = "refused\nCONTEXT:  PL/pgSQL function refuse() line 1 at RAISE"


def test_job_that_cannot_be_promoted_fails_and_the_others_run(refuse):
    refuse("NEW.status = 'READY'")
    soon = {"run_after": hours(0.0001)}
    bad = enqueue(tasks.echo.using(**soon), 1)
    others = neighbours(**soon)
    with running_worker(poll=0.2):
        wait_until_all(others, "SUCCESSFUL")
        wait_for_status(bad, "FAILED", timeout=SOON)
    assert "(promote): refused" in bad.reason


def test_job_that_cannot_expire_fails_and_the_others_expire(refuse):
    refuse("NEW.status = 'CANCELLED'")
    jobs = [
        *neighbours(run_after=hours(1)),
        enqueue(tasks.echo.using(run_after=hours(1)), 1),
    ]
    Job.objects.update(expires_at=timezone.now() - hours(1))
    with running_worker(poll=600) as loop:
        loop.upkeep.expiry.due = 0.0
        loop.bell.ring()
        wait_until_all(jobs[:-1], "CANCELLED")
        wait_for_status(jobs[-1], "FAILED", timeout=SOON)


def test_jobs_that_chores_skip_are_problems_that_jobstatus_reports(refuse, caplog):
    long_ago = timezone.now() - hours(1)
    due = enqueue(tasks.echo.using(run_after=hours(1)), 1)
    Job.objects.filter(pk=due.pk).update(run_after=long_ago)
    late = enqueue(tasks.echo.using(run_after=hours(1)), 2)
    Job.objects.filter(pk=late.pk).update(expires_at=long_ago)
    refuse("true")
    with running_worker(poll=600) as loop:
        loop.upkeep.expiry.due = 0.0
        loop.bell.ring()
        for id, chore in ((due.pk, "promote"), (late.pk, "expire")):
            told = f"Job id={id} is skipped: chore={chore}"
            wait_for(lambda told=told: told in caplog.text, told, SOON)
    assert overview("default").problems == [
        "1 scheduled job is overdue: does a worker run?",
        "1 expired job is not cancelled: does a worker run?",
    ]


def test_job_that_cannot_be_rescued_fails_and_the_others_are_rescued(refuse):
    dead = Hand("dead")
    bad = enqueue(tasks.echo, 1)
    others = neighbours()
    assert len(dead.claim(6)) == 6
    dead.vanish()
    refuse("NEW.status = 'READY'")
    with running_worker(poll=600) as loop:
        loop.upkeep["rescue"].expect()
        loop.bell.ring()
        wait_until_all(others, "SUCCESSFUL")
        wait_for_status(bad, "FAILED", timeout=SOON)
    assert "(rescue): refused" in bad.reason
    assert Attempt.objects.filter(job=bad).exists()


def test_job_whose_success_cannot_be_stored_fails(refuse):
    refuse("NEW.status = 'SUCCESSFUL'")
    bad = enqueue(tasks.echo, 1)
    others = neighbours()
    drain(slots=6)
    wait_until_all(others, "SUCCESSFUL")
    bad.refresh_from_db()
    assert bad.status == "FAILED"
    assert bad.reason.startswith("Its outcome cannot be stored: refused")


def test_error_whose_characters_cannot_be_stored_is_retried_all_the_same(refuse):
    """A database of another encoding than UTF-8 lacks some of them."""
    refuse("false OR octet_length(NEW.reason) > length(NEW.reason)")
    bad = enqueue(fail_twice_at_most, "naïve 50 % 😀")
    drain()
    bad.refresh_from_db()
    assert (bad.status, bad.failures) == ("SCHEDULED", 1)
    assert bad.reason.startswith(r"ValueError: na\xefve")


def test_outcome_that_cannot_be_stored_at_all_leaves_the_other_slots_alone(
    refuse, caplog
):
    refuse("NEW.status <> 'RUNNING' AND OLD.status = 'RUNNING'")
    bad = enqueue(tasks.echo, 1)
    with running_worker(slots=2, poll=600) as loop:
        wait_for(lambda: loop.in_flight.failing, "its outcome is kept for later")
        wait_until_all(neighbours(), "SUCCESSFUL")
        execute("DROP FUNCTION refuse() CASCADE")
        wait_for_status(bad, "SUCCESSFUL", timeout=SOON)
    assert "Recording failed, the next try in" in caplog.text
    assert f"jobs={bad.pk}: refused" in caplog.text


def test_sweep_that_meets_a_lock_is_not_tried_again_at_once():
    admitting, now = Admitting(), monotonic()
    admitting.sweeping.due = 0.0
    assert admitting.is_due(now)
    for _ in range(3):
        admitting.deferred(now)
        assert not admitting.is_due(now)
        assert admitting.is_due(admitting.due)


def test_drain_ends_although_an_outcome_cannot_be_stored(refuse):
    refuse("NEW.status <> 'RUNNING' AND OLD.status = 'RUNNING'")
    bad = enqueue(tasks.echo, 1)
    others = neighbours()
    drain()
    wait_until_all(others, "SUCCESSFUL")
    bad.refresh_from_db()
    assert bad.status == "RUNNING"


def test_job_that_cannot_be_deleted_is_skipped_and_the_others_are_pruned(
    refuse, caplog
):
    jobs = [*neighbours(), enqueue(tasks.echo, 1)]
    Job.objects.succeed()
    Job.objects.update(finished_at=timezone.now() - hours(99_999))
    refuse("true", "DELETE")
    with running_worker(poll=600) as loop:
        for _ in range(2):
            loop.upkeep["prune"].due = 0.0
            loop.bell.ring()
            wait_for(lambda: Job.objects.count() == 1, "they are deleted", SOON)
            wait_for(lambda: loop.upkeep["prune"].due > 0, "it has pruned")
    assert Job.objects.get() == jobs[-1]
    assert caplog.text.count(f"Job id={jobs[-1].pk} is skipped: chore=prune") == 1
    assert "Chore name=prune failed" not in caplog.text


def test_statement_that_takes_too_long_is_tried_with_half_of_its_batch(monkeypatch):
    with running_worker(poll=600) as loop:
        expiry, limits = loop.upkeep.expiry, []

        def expire(execute, batch):
            limits.append(batch.size)
            raise psycopg.errors.QueryCanceled("canceling statement due to timeout")

        monkeypatch.setattr("pgjobs.queue.upkeep.expire", expire)

        def has_tried_three_times() -> bool:
            expiry.due = expiry.backoff.retry_at = 0.0
            loop.bell.ring()
            return len(limits) >= 3

        wait_for(has_tried_three_times)
        wait_for_status(enqueue(tasks.noop), "SUCCESSFUL", timeout=SOON)
    assert limits[:3] == [1000, 500, 250]


# Statements that a worker needs only after another fault


@pytest.mark.parametrize(
    "names",
    [
        [*OF_FEATURES, "record"],
        [*OF_FEATURES, "record", "record_without_attempt"],
    ],
)
def test_failures_that_cannot_be_stored_in_any_way_leave_plain_jobs_alone(
    names, caplog
):
    with ExitStack() as faults, running_worker(slots=2, poll=600) as loop:
        failures = [faults.enter_context(broken(name)) for name in names]
        failing = [enqueue(fail_twice_at_most, str(number)) for number in range(3)]
        wait_for(lambda: all(map(Counter.total, failures)), "each is tried")
        wait_until_all(neighbours(), "SUCCESSFUL")
        assert loop.faults.since is None
        assert max(map(Counter.total, failures)) <= MOST_TRIES
        assert f"{names[-1]} is broken" in caplog.text
        faults.close()
        wait_until_all(failing, "SCHEDULED")


def test_success_that_cannot_be_stored_in_any_way_leaves_plain_jobs_alone(
    refuse, caplog
):
    refuse("NEW.status <> 'RUNNING' AND OLD.status = 'RUNNING'")
    quick = {"poll": 600, "grace": 1}
    with broken("record_successes") as failures, running_worker(**quick) as loop:
        enqueue(tasks.echo, 1)
        wait_for(lambda: failures["record_successes"], "it is tried")
        wait_until_all(neighbours(), "SUCCESSFUL")
        assert loop.faults.since is None
        assert failures["record_successes"] <= MOST_TRIES
    assert "record_successes is broken" in caplog.text


def test_worker_that_cannot_ask_what_became_of_a_job_runs_the_others(tmp_path, caplog):
    path = str(tmp_path / "held")
    job = enqueue(tasks.hold, path)
    quick = {"slots": 1, "poll": 600, "grace": 1}
    with broken("in_doubt") as failures, running_worker(**quick) as loop:
        wait_for(lambda: tasks.lines(path), "the job runs")
        Job.objects.filter(pk=job.pk).delete()
        tasks.let_go(path)
        wait_for(lambda: failures["in_doubt"], "the worker asks")
        wait_until_all(neighbours(), "SUCCESSFUL")
        assert loop.faults.since is None
        assert failures["in_doubt"] <= MOST_TRIES
    assert "in_doubt is broken" in caplog.text


def test_worker_that_cannot_find_what_makes_claims_fail_goes_on_once_it_can(
    refuse, caplog
):
    """Until then it cannot claim: any job may be the one."""
    name = "claim_these"
    refuse("NEW.status = 'RUNNING'")
    with running_worker(poll=600) as loop:
        with broken(name) as failures:
            bad = enqueue(tasks.echo, 1)
            wait_for(lambda: failures[name] >= 3, "it is tried")
            assert loop.phase == "running"
            assert loop.faults.since is None
        assert failures[name] <= MOST_TRIES, "it spins"
        wait_for_status(bad, "FAILED", timeout=SOON)
        wait_until_all(neighbours(), "SUCCESSFUL")
    assert f"{name} is broken" in caplog.text
