"""Jobs that expire: cancelled unless an attempt has begun in time."""

from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone

from pgjobs import Retry, current_job, enqueue, enqueue_many, signals, task
from pgjobs.base.connections import connect
from pgjobs.exceptions import InvalidTask, JobCancelled
from pgjobs.models import Job
from pgjobs.queue import upkeep
from pgjobs.queue.upkeep import Batch
from pgjobs.sql import statement
from pgjobs.worker.connections.connection import ONE_PLAN
from tests import tasks
from tests.actors import Hand, execute, fields_of, hours, job_that_is, session
from tests.declaring.test_tasks import declared
from tests.processes import (
    drain,
    running_worker,
    shared_queue,
    statements_of_workers,
    wait_for,
)

pytestmark = shared_queue

PAST = datetime(2020, 1, 1, tzinfo=UTC)
REASON = "Expired: not started in time."


@pytest.fixture
def hand():
    return Hand()


@pytest.fixture
def heard():
    """The jobs whose end was announced, with their status."""
    received = []

    def receive(sender, job, **named):
        received.append((job.pk, job.status))

    signals.job_finished.connect(receive)
    yield received
    signals.job_finished.disconnect(receive)


def expired_job(**options) -> Job:
    return tasks.noop.using(expires=PAST, **options).enqueue()


def state(job: Job) -> tuple[str, str]:
    row = fields_of(job)
    assert (row["finished_at"] is None) == (row["status"] != "CANCELLED")
    return row["status"], row["reason"]


CANCELLED = ("CANCELLED", REASON)

# When a job expires


def test_time_counts_from_enqueueing():
    job = tasks.noop.using(expires=hours(1)).enqueue()
    assert job.expires_at == fields_of(job)["expires_at"]
    assert abs(job.expires_at - job.enqueued_at - hours(1)) < timedelta(seconds=1)


@pytest.mark.parametrize("run_after", [hours(2), timezone.now() + hours(2)])
def test_time_counts_from_when_the_job_can_run(run_after):
    job = tasks.noop.using(run_after=run_after, expires=hours(1)).enqueue()
    assert job.expires_at - job.run_after == hours(1)
    assert job.status == "SCHEDULED"


def test_moment_is_taken_as_it_is():
    at = timezone.now() + hours(5)
    job = tasks.noop.using(run_after=hours(2), expires=at).enqueue()
    assert job.expires_at == fields_of(job)["expires_at"] == at


@task(expires=timedelta(hours=3))
def perishable():
    pass


def test_task_has_a_default_that_a_job_can_override():
    for job, length in (
        (enqueue(perishable), 3),
        (enqueue(perishable.using(priority=1)), 3),
        (enqueue(perishable.using(expires=hours(1))), 1),
    ):
        assert round((job.expires_at - job.enqueued_at) / hours(1)) == length
    assert tasks.noop.enqueue().expires_at is None


def test_jobs_with_and_without_an_end_are_inserted_together():
    jobs = enqueue_many([perishable.bind(), tasks.noop.bind()])
    assert [job.expires_at is None for job in jobs] == [False, True]


# Claims


def test_claim_starts_no_expired_job_and_says_that_it_has_met_some(hand):
    late = [expired_job() for _ in range(3)]
    fresh = [tasks.noop.using(expires=hours(1)).enqueue(), tasks.noop.enqueue()]
    brought = hand.record_and_claim(limit=10)
    assert [job.id for job in brought.jobs] == [job.pk for job in fresh]
    assert brought.met_expired
    assert sorted(upkeep.expire(execute)) == [job.pk for job in late]
    assert {state(job) for job in late} == {CANCELLED}
    assert not hand.record_and_claim(limit=10).met_expired


def test_claim_that_met_expired_jobs_only_is_followed_by_another():
    late = enqueue_many([tasks.noop.using(expires=PAST).bind() for _ in range(50)])
    job = tasks.noop.using(priority=-5).enqueue()
    assert drain(slots=2).finished == 1
    assert {state(each) for each in late} == {CANCELLED}
    job.refresh_from_db()
    assert job.status == "SUCCESSFUL"


def test_worker_does_not_spin_while_an_expired_job_is_locked():
    job = expired_job()
    with session() as other:
        other.begin()
        other.execute("SELECT FROM pgjobs_job FOR UPDATE")
        with running_worker(poll=600) as loop, statements_of_workers() as executed:
            wait_for(lambda: executed.count("loop expire") >= 6, "it tries again")
            assert loop.claimer.rule.passed_over.since is not None, "it looks rarely"
            other.rollback()
            wait_for(lambda: state(job) == CANCELLED, "the job is cancelled")


def test_expired_job_that_must_run_alone_holds_up_no_job(hand):
    expired_job(max_crashes=1)
    job = tasks.noop.enqueue()
    brought = hand.record_and_claim(limit=4, is_idle=False)
    assert ([each.id for each in brought.jobs], brought.met_last_chance) == (
        [job.pk],
        False,
    )


def test_manager_claims_no_expired_job_and_announces_it(hand, heard):
    late, job = expired_job(), tasks.noop.enqueue()
    assert Job.objects.claim(hand.row, limit=5) == [job]
    assert heard == [(late.pk, "CANCELLED")]


@task(expires=timedelta(hours=1), max_attempts=3)
def late_at_the_second_attempt():
    id = current_job().id
    Job.objects.filter(pk=id).update(expires_at=PAST)
    if current_job().attempt == 1:
        raise Retry(after=0)


def test_job_with_an_attempt_behind_it_does_not_expire(hand):
    job = enqueue(late_at_the_second_attempt)
    drain()
    job.refresh_from_db()
    assert (job.status, job.attempts) == ("SUCCESSFUL", 2)


@pytest.mark.parametrize("verdict", ["RETRY", "SNOOZE", "RELEASE"])
def test_attempt_of_any_end_keeps_a_job_from_expiring(hand, verdict):
    job = tasks.noop.using(expires=hours(1)).enqueue()
    hand.set_back(hand.claim_one(), verdict, delay=60 if verdict != "RELEASE" else 0)
    Job.objects.filter(pk=job.pk).update(expires_at=PAST)
    assert upkeep.expire(execute) == []
    assert hand.claim() if verdict == "RELEASE" else state(job)[0] == "SCHEDULED"


# The sweep


@pytest.mark.parametrize("status", ["READY", "SCHEDULED", "WAITING"])
def test_queued_jobs_expire_although_no_worker_claims_them(status):
    job = job_that_is(status, expires_at=PAST)
    later = job_that_is(status, expires_at=timezone.now() + hours(1))
    never = job_that_is(status)
    assert upkeep.expire(execute) == [job.pk]
    assert state(job) == CANCELLED
    assert state(later) == state(never) == (status, "")


@pytest.mark.parametrize("status", ["RUNNING", "SUCCESSFUL", "FAILED", "CANCELLED"])
def test_what_has_begun_does_not_expire(status):
    job = job_that_is(status, expires_at=PAST)
    before = fields_of(job)
    assert upkeep.expire(execute) == []
    assert fields_of(job) == before


def test_sweep_goes_in_batches_longest_expired_first(monkeypatch):
    monkeypatch.setattr(upkeep, "BATCH", 2)
    jobs = [
        tasks.noop.using(expires=PAST + timedelta(days=number)).enqueue()
        for number in (3, 1, 2)
    ]
    assert sorted(upkeep.expire(execute)) == [jobs[1].pk, jobs[2].pk]
    assert upkeep.expire(execute) == [jobs[0].pk]
    assert upkeep.expire(execute) == []


def test_worker_cancels_jobs_that_it_does_not_serve_and_notifies_their_waiters(
    heard, settings
):
    settings.PGJOBS = {"POLL_INTERVAL": 600}
    with running_worker(queues=("mail",)) as loop:
        job = tasks.noop.using(expires=timedelta(seconds=0.05)).enqueue()
        wait_for(lambda: execute("SELECT expires_at < now() FROM pgjobs_job")[0][0])
        loop.upkeep.expiry.due = 0
        loop.bell.ring()
        with pytest.raises(JobCancelled, match="not started in time"):
            job.wait(60)
        wait_for(lambda: heard, "its end is announced")
    assert heard == [(job.pk, "CANCELLED")]
    assert loop.finished == 0


def test_end_of_a_job_that_a_claim_cancelled_is_announced_once(heard):
    job = expired_job()
    drain()
    assert heard == [(job.pk, "CANCELLED")]


def test_sweep_reads_only_what_has_expired():
    later = tasks.noop.using(expires=hours(1))
    enqueue_many([later.bind() for _ in range(3_000)])
    with connect("default", "test", "explain") as own:
        own.execute(ONE_PLAN)
        own.execute("VACUUM ANALYZE pgjobs_job")
        plan = own.execute(
            "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + statement("expire"),
            Batch().parameters(),
        ).fetchone()[0][0]["Plan"]
    assert "pgjobs_job_expiring" in str(plan)
    assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < 10


# Acts


def test_expired_job_that_an_operator_retries_runs(hand):
    job = expired_job()
    upkeep.expire(execute)
    assert Job.objects.get(pk=job.pk).retry()
    assert fields_of(job)["expires_at"] is None
    assert hand.claim_one().id == job.pk


# Declarations


@pytest.mark.parametrize(
    ("value", "because"),
    [
        (timedelta(0), "must be more than 0 s"),
        (timedelta(seconds=-1), "must be between 0 s and 100 years"),
        (timedelta.max, "must be between 0 s and 100 years"),
        (60, "must be an aware datetime or a timedelta"),
        (0, "must be an aware datetime or a timedelta"),
        ("1h", "must be an aware datetime or a timedelta"),
        (True, "must be an aware datetime or a timedelta"),
        (float("nan"), "must be an aware datetime or a timedelta"),
        (datetime(2030, 1, 1), "must be an aware datetime or a timedelta"),
        (datetime(1960, 1, 1, tzinfo=UTC), "must lie in the years"),
    ],
)
def test_value_that_is_no_time_is_refused(value, because):
    with pytest.raises(InvalidTask, match=f"expires {because}"):
        tasks.noop.using(expires=value)
    if not isinstance(value, datetime):
        with pytest.raises(InvalidTask, match=f"expires {because}"):
            declared(expires=value)


def test_task_cannot_expire_at_a_moment():
    with pytest.raises(InvalidTask, match="expires of a task must be a timedelta"):
        declared(expires=timezone.now() + hours(1))


def test_job_that_would_expire_before_it_can_run_is_refused():
    at = timezone.now() + hours(1)
    with pytest.raises(InvalidTask, match="expires must be later than run_after"):
        tasks.noop.using(run_after=at, expires=at)


def test_job_inserted_by_sql_can_expire(hand):
    execute(
        "INSERT INTO pgjobs_job (task, expires_at) VALUES ('tests.noop', '2020-01-01Z')"
    )
    assert hand.record_and_claim(limit=1).met_expired
    assert len(upkeep.expire(execute)) == 1
