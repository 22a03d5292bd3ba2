"""Retries, crashes and pruning: no value of another life, none that is lost."""

from datetime import timedelta

import pytest
from django.utils import timezone

from pgjobs import chain, enqueue, group, result, results, task
from pgjobs.models import Job, Predecessor
from pgjobs.queue import upkeep
from tests.actors import (
    WAITING_SESSIONS,
    Hand,
    admit,
    execute,
    hours,
    in_thread,
    session,
)
from tests.processes import drain, shared_queue, wait_for
from tests.tasks import add, echo, noop

pytestmark = shared_queue

FIVE, SIX = "5", "6"


@pytest.fixture
def hand(db):
    return Hand()


def pair_of(successor=None) -> tuple[Job, Job]:
    first, last = enqueue(chain(echo.bind(5), successor or echo.bind(result)))
    return first, last


def succeed(hand: Hand, job: Job, value: str = FIVE) -> None:
    claimed = hand.claim_one()
    assert claimed.id == job.pk
    assert hand.succeed(claimed, value)


def status_of(job: Job) -> str:
    admit()
    job.refresh_from_db()
    return job.status


def value_claimed(hand: Hand, job: Job):
    """Return the value that a claim brings."""
    claimed = hand.claim_one()
    assert claimed.id == job.pk
    assert claimed.results is not None
    return claimed.results


@pytest.mark.parametrize(
    "options",
    [{}, {"lock": "door"}, {"max_running": 1}, {"run_after": timedelta(hours=1)}],
    ids=str,
)
def test_retry_takes_back_successors_that_have_not_begun(hand, options):
    first, last = pair_of(echo.using(**options).bind(result))
    succeed(hand, first)
    before = status_of(last)
    assert before == ("SCHEDULED" if "run_after" in options else "READY")
    first.retry()
    assert status_of(last) == ("SCHEDULED" if "run_after" in options else "WAITING")
    if "run_after" in options:
        last.run_now()
        assert status_of(last) == "WAITING"
    succeed(hand, first, SIX)
    assert status_of(last) == "READY"
    assert '"value": 6' in value_claimed(hand, last)


def test_job_that_waited_for_a_lock_waits_for_the_retried_job(hand):
    enqueue(noop.using(lock="door").bind())
    holder = hand.claim_one()
    first, last = pair_of(echo.using(lock="door").bind(result))
    succeed(hand, first)
    assert status_of(last) == "WAITING"
    first.retry()
    assert hand.succeed(holder)
    assert status_of(last) == "WAITING"
    succeed(hand, first, SIX)
    assert '"value": 6' in value_claimed(hand, last)


def test_lock_of_a_job_that_is_taken_back_is_free(hand):
    first, last = pair_of(echo.using(lock="door", lock_mode="mutex").bind(result))
    other = enqueue(noop.using(lock="door", lock_mode="mutex", priority=-5).bind())
    other.cancel()
    succeed(hand, first)
    assert status_of(last) == "READY"
    other.retry()
    admit(sweeps=False)
    other.refresh_from_db()
    assert other.status == "WAITING"
    first.retry()
    admit(sweeps=False)
    other.refresh_from_db()
    assert other.status == "READY"


def test_retry_of_a_member_takes_back_what_names_the_results(hand):
    batch, last = enqueue(chain(group([add.bind(1, 0)]), echo.bind(results)))
    member = Job.objects.get(batch=batch)
    succeed(hand, member, FIVE)
    assert status_of(last) == "READY"
    member.retry()
    assert status_of(last) == "WAITING"
    succeed(hand, member, SIX)
    assert '"value": 6' in value_claimed(hand, last)


def test_job_that_names_no_result_stays_ready(hand):
    first, last = enqueue(chain(echo.bind(5), noop.bind()))
    succeed(hand, first)
    assert status_of(last) == "READY"
    first.retry()
    assert status_of(last) == "READY"


def test_job_that_has_begun_keeps_its_value(hand):
    first, last = pair_of()
    succeed(hand, first)
    admit()
    claimed = hand.claim_one()
    assert claimed.id == last.pk
    first.retry()
    assert status_of(last) == "RUNNING"


def test_stored_value_lasts_through_a_retry_of_the_job_before():
    first, last = pair_of()
    drain()
    first.retry()
    last.refresh_from_db()
    last.retry()
    last.refresh_from_db()
    assert last.kwargs == {"value": 5}
    assert not Predecessor.objects.filter(gives_result=True).exists()


def test_crash_before_the_value_is_stored_reads_it_again(hand):
    first, last = pair_of()
    succeed(hand, first)
    assert '"value": 5' in value_claimed(hand, last)
    hand.vanish()
    other = Hand("other")
    other.rescue()
    assert '"value": 5' in value_claimed(other, last)


def test_failure_of_a_job_that_was_retried_is_no_result(hand):
    """The value was read, and lost with its worker, before the retry failed."""
    first, last = pair_of()
    succeed(hand, first)
    assert '"value": 5' in value_claimed(hand, last)
    first.retry()
    hand.vanish()
    other = Hand("other")
    other.rescue()
    failing = other.claim_one()
    assert failing.id == first.pk
    other.set_back(failing, "FAIL")
    drain()
    last.refresh_from_db()
    assert last.status == "FAILED"
    assert f"value: is none: job {first.pk} is FAILED" in last.reason
    first.refresh_from_db()
    first.retry()
    last.retry()
    drain()
    last.refresh_from_db()
    assert (last.status, last.return_value) == ("SUCCESSFUL", 5)


def test_member_that_was_deleted_is_no_shorter_list(hand):
    batch, last = enqueue(
        chain(group([echo.bind(1), echo.bind(2)]), echo.bind(results))
    )
    for job in hand.claim(2):
        assert hand.succeed(job, "1")
    assert status_of(last) == "READY"
    Job.objects.filter(batch=batch).first().delete()
    drain()
    last.refresh_from_db()
    assert last.status == "FAILED"
    assert "1 are gone with their jobs" in last.reason


# Both commit orders


def test_claim_and_retry_at_once_give_no_value_of_the_old_life(hand):
    first, _ = pair_of()
    succeed(hand, first)
    admit()
    with session() as other:
        other.begin()
        other.execute("SELECT pgjobs_retry_jobs(ARRAY[%(id)s])", {"id": first.pk})
        assert hand.claim() == []  # the row of the successor is locked
        other.commit()
    assert [job.id for job in hand.claim()] == [first.pk]


def test_admission_and_retry_at_once_leave_no_job_ready(hand):
    """The retry holds the row, so the admission that sees the old end leaves it."""
    first, last = pair_of()
    claimed = hand.claim_one()
    with session() as other:
        assert hand.succeed(claimed, FIVE)
        other.begin()
        other.execute("SELECT pgjobs_retry_jobs(ARRAY[%(id)s])", {"id": first.pk})
        admit()
        last.refresh_from_db()
        assert last.status == "WAITING"
        other.commit()
    assert status_of(last) == "WAITING"
    succeed(hand, first, SIX)
    assert '"value": 6' in value_claimed(hand, last)


def test_claim_with_an_older_snapshot_reads_what_was_committed_since(hand):
    """As a fetch does that found the job READY before a retry, and again after it."""
    first, last = pair_of()
    succeed(hand, first)
    text = (
        "SELECT pg_advisory_lock(5), pgjobs_results_of(keys) FROM pgjobs_job "
        "WHERE id = %(id)s"
    )

    def read():
        with session() as other:
            return other.execute(text, {"id": last.pk})[0][1]

    with session() as holder:
        holder.execute("SELECT pg_advisory_lock(5)")
        with in_thread(read) as reading:
            wait_for(lambda: execute(WAITING_SESSIONS)[0][0], "it has its snapshot")
            Job.objects.filter(pk=first.pk).update(return_value=6)
            holder.execute("SELECT pg_advisory_unlock(5)")
            assert '"value": 6' in reading.result(timeout=60)


def test_job_before_that_runs_again_is_waited_for(hand):
    """Whatever made the job run early, it takes no half result."""
    first, last = pair_of()
    drain(queues=("nowhere",))
    Job.objects.filter(pk=first.pk).update(
        status="SCHEDULED", run_after=hours_from_now()
    )
    execute("UPDATE pgjobs_predecessor SET is_open = false")
    execute("SELECT set_config('pgjobs.admits', 'on', false)")
    Job.objects.filter(pk=last.pk).update(status="READY", line=None, waiting_for=None)
    execute("SELECT set_config('pgjobs.admits', '', false)")
    drain()
    last.refresh_from_db()
    assert last.status in ("SCHEDULED", "WAITING")
    assert "has not ended" in last.reason


def hours_from_now():
    return timezone.now() + hours(5)


# Pruning

ALL_AT_ONCE = {"SUCCESSFUL": 0.0, "FAILED": 0.0, "CANCELLED": 0.0}


def exists_after_pruning(job: Job) -> bool:
    upkeep.prune(execute, ALL_AT_ONCE)
    return Job.objects.filter(pk=job.pk).exists()


def test_job_is_kept_while_an_unfinished_one_names_its_result(hand):
    first, last = pair_of()
    succeed(hand, first)
    assert status_of(last) == "READY"
    assert exists_after_pruning(first)
    claimed = hand.claim_one()
    assert exists_after_pruning(first)
    assert hand.set_back(claimed, "FAIL")
    assert status_of(last) == "FAILED"
    assert not exists_after_pruning(first)


def test_job_may_go_once_its_value_is_stored():
    seen = task(name="tests.results.prunes")(prunes)
    _, last = pair_of(seen.bind(result))
    drain()
    last.refresh_from_db()
    assert last.return_value is False
    assert last.kwargs == {"value": 5}


def prunes(value: int) -> bool:
    """Return whether the job before is kept, while this one runs."""
    first = Job.objects.get(task="tests.echo")
    upkeep.prune(execute, ALL_AT_ONCE)
    return Job.objects.filter(pk=first.pk).exists()


def test_members_are_kept_while_an_unfinished_job_names_the_results(hand):
    batch = enqueue(group([echo.bind(5)]))
    member = Job.objects.get(batch=batch)
    succeed(hand, member)
    admit()
    last = echo.using(after=batch).enqueue(results)  # no admission has seen it
    assert exists_after_pruning(member)
    assert status_of(last) == "READY"
    assert exists_after_pruning(member)
    last.cancel()
    admit()
    assert not exists_after_pruning(member)
