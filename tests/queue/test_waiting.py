"""Waiting for the end of a job: woken at once, and never for longer than asked."""

import threading
from datetime import timedelta

import pytest
from asgiref.sync import async_to_sync
from django.db import connection, transaction
from django.test import override_settings
from django.utils import timezone

from pgjobs.exceptions import JobCancelled, JobFailed
from pgjobs.models import Job
from tests.actors import Hand, execute, fields_of, in_thread, job_that_is, running_job
from tests.processes import SOON, wait_for
from tests.tasks import noop

pytestmark = pytest.mark.django_db(transaction=True)

LONG = 60  # seconds that no test lasts: what ends earlier was woken
woken_only = override_settings(PGJOBS={"POLL_INTERVAL": LONG})
polling_only = override_settings(PGJOBS={"POLL_INTERVAL": 0.05, "LISTEN": False})


@pytest.fixture
def hand(transactional_db):
    return Hand()


def is_awaited(job: Job) -> bool:
    return fields_of(job)["awaited"]


def wait_while(job: Job, act, timeout=LONG):
    """Wait for the job elsewhere; meanwhile act; return what the wait returned."""
    with in_thread(job.wait, timeout) as waiting:
        wait_for(lambda: is_awaited(job) or waiting.done(), "a caller waits")
        act()
        return waiting.result(timeout=60)


def listening_sessions() -> int:
    execute("SELECT pg_stat_clear_snapshot()")
    return execute(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
        " AND starts_with(application_name, 'pgjobs:wait:')"
    )[0][0]


# Jobs that have ended


def test_result_of_a_finished_job_is_there_at_once():
    job = job_that_is("SUCCESSFUL", return_value={"a": [1, None, "é"]})
    assert job.wait() == {"a": [1, None, "é"]}
    assert job.wait(timeout=0) == {"a": [1, None, "é"]}
    assert job.wait(timedelta(0)) == {"a": [1, None, "é"]}


def test_job_without_a_result_gives_none():
    hand, job = Hand(), noop.enqueue()
    hand.succeed(hand.claim_one())
    assert job.wait(0) is None


def test_failed_job_raises_with_the_reason():
    job = job_that_is("FAILED", reason="ValueError: no luck")
    message = rf"Job {job.pk} \(tests\.noop\) failed: ValueError: no luck"
    with pytest.raises(JobFailed, match=message):
        job.wait()


def test_cancelled_job_raises_with_the_reason():
    job = job_that_is("CANCELLED", reason="Ann said so.")
    message = rf"Job {job.pk} \(tests\.noop\) was cancelled: Ann said so\."
    with pytest.raises(JobCancelled, match=message):
        job.wait()


def test_job_that_is_gone_raises():
    job = noop.enqueue()
    Job.objects.all().delete()
    with pytest.raises(JobFailed, match=rf"Job {job.pk} does not exist .* rolled back"):
        job.wait()


# Jobs that have not


@pytest.mark.parametrize("status", ["READY", "SCHEDULED", "WAITING", "RUNNING"])
def test_wait_that_takes_too_long_raises_a_timeout(status):
    job = job_that_is(status)
    with pytest.raises(TimeoutError, match=rf"Job {job.pk} is {status} after 0\.05 s"):
        job.wait(timeout=0.05)
    with pytest.raises(TimeoutError):
        job.wait(timeout=0)


def test_timeout_asks_for_a_worker_where_only_that_is_missing():
    with pytest.raises(TimeoutError, match="Does a worker run"):
        job_that_is("READY").wait(timeout=0)
    with pytest.raises(TimeoutError) as caught:
        job_that_is("RUNNING").wait(timeout=0)
    assert "a worker" not in str(caught.value)


@pytest.mark.parametrize("timeout", [-1, "5", float("nan"), True, timedelta(-1)])
def test_value_that_is_no_timeout_is_refused(timeout):
    with pytest.raises(ValueError, match="timeout must be"):
        noop.enqueue().wait(timeout)


@woken_only
def test_success_wakes_the_waiter(hand):
    job = noop.enqueue()
    claimed = hand.claim_one()
    assert wait_while(job, lambda: hand.succeed(claimed, '"done"')) == "done"


@woken_only
@pytest.mark.parametrize(
    ("end", "error"),
    [
        (lambda hand, claimed, job: hand.set_back(claimed, "FAIL", "no"), JobFailed),
        (lambda hand, claimed, job: job.fail("no"), JobFailed),
        (lambda hand, claimed, job: hand.set_back(claimed, "CANCEL"), JobCancelled),
    ],
)
def test_any_end_wakes_the_waiter(hand, end, error):
    job = noop.enqueue()
    claimed = hand.claim_one()
    with pytest.raises(error):
        wait_while(Job.objects.get(), lambda: end(hand, claimed, job))


@woken_only
def test_what_is_not_the_end_does_not_end_the_wait(hand):
    job = noop.enqueue()

    def run_twice():
        hand.set_back(hand.claim_one(), "RETRY", "once more")
        hand.succeed(hand.claim_one(), "2")

    assert wait_while(job, run_twice) == 2


@woken_only
def test_end_of_another_job_wakes_no_waiter(hand):
    job = noop.enqueue()
    claimed = hand.claim_one()

    def end_another():
        other = running_job(hand=hand)
        Job.objects.filter(pk=other.pk).update(awaited=True)
        other.succeed("other")
        hand.succeed(claimed, '"mine"')

    assert wait_while(job, end_another) == "mine"


@woken_only
def test_several_wait_for_the_same_job(hand):
    job = noop.enqueue()
    claimed = hand.claim_one()
    with in_thread(job.wait, LONG) as one, in_thread(job.wait, LONG) as two:
        wait_for(lambda: listening_sessions() == 2, "both wait")
        wait_for(lambda: is_awaited(job), "a caller waits")
        hand.succeed(claimed, "7")
        assert (one.result(timeout=60), two.result(timeout=20)) == (7, 7)


@woken_only
def test_job_that_is_ending_when_the_waiting_begins_is_not_missed(hand):
    job = noop.enqueue()
    claimed = hand.claim_one()
    with in_thread(job.wait, LONG) as waiting:
        with transaction.atomic():
            hand.succeed(claimed, "1")
            wait_for(lambda: listening_sessions() == 1, "a caller waits")
        assert waiting.result(timeout=60) == 1


@polling_only
def test_without_listening_the_end_is_seen_by_polling(hand):
    job = noop.enqueue()
    claimed = hand.claim_one()
    assert wait_while(job, lambda: hand.succeed(claimed, "1")) == 1


@polling_only
def test_job_that_vanishes_meanwhile_ends_the_wait(hand):
    job = noop.enqueue()
    with pytest.raises(JobFailed, match="does not exist"):
        wait_while(job, Job.objects.all().delete)


@polling_only
def test_broken_listening_does_not_hide_the_end(hand):
    """A lost notification costs at most one poll interval."""
    job = noop.enqueue()
    claimed = hand.claim_one()

    def end_without_notification():
        Job.objects.filter(pk=job.pk).update(awaited=False)
        hand.succeed(claimed, "1")

    with override_settings(PGJOBS={"POLL_INTERVAL": 0.05}):
        assert wait_while(job, end_without_notification) == 1


@woken_only
def test_row_that_another_transaction_holds_does_not_prolong_the_wait():
    job = noop.enqueue()

    def wait_shortly():
        held.wait(SOON)
        with pytest.raises(TimeoutError):
            job.wait(timeout=0.2)
        return "it has ended"

    held = threading.Event()
    with in_thread(wait_shortly) as waiting, transaction.atomic():
        Job.objects.select_for_update().get(pk=job.pk)
        held.set()
        assert waiting.result(timeout=SOON) == "it has ended"


def test_waiting_leaves_no_session_behind():
    job = job_that_is("SUCCESSFUL")
    job.wait()
    with pytest.raises(TimeoutError):
        noop.enqueue().wait(0.01)
    wait_for(lambda: listening_sessions() == 0, "the sessions are closed")


def test_waiting_does_not_touch_the_callers_connection(hand):
    job = job_that_is("SUCCESSFUL")
    before = connection.connection
    job.wait()
    assert connection.connection is before
    assert connection.get_autocommit()


# Where waiting would last for ever


def test_waiting_inside_a_transaction_is_refused():
    with transaction.atomic():
        job = noop.enqueue()
        with pytest.raises(RuntimeError, match="inside a transaction"):
            job.wait(timeout=5)
        with pytest.raises(RuntimeError, match="inside a transaction"):
            async_to_sync(job.await_result)(timeout=5)


# Async


@woken_only
def test_async_code_can_wait(hand):
    job = noop.enqueue()
    claimed = hand.claim_one()
    with in_thread(async_to_sync(job.await_result), LONG) as waiting:
        wait_for(lambda: is_awaited(job) or waiting.done(), "a caller waits")
        hand.succeed(claimed, '"done"')
        assert waiting.result(timeout=60) == "done"


def test_async_waiting_ends_as_waiting_does():
    with pytest.raises(TimeoutError):
        async_to_sync(noop.enqueue().await_result)(timeout=0.01)
    failed = job_that_is("FAILED", finished_at=timezone.now())
    with pytest.raises(JobFailed):
        async_to_sync(failed.await_result)()
