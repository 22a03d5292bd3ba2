"""A job waits from when it could run: not from its enqueue, if something held it up."""

from datetime import timedelta

import pytest

from pgjobs import enqueue
from pgjobs.queue import upkeep
from pgjobs.queue.upkeep import Batch
from pgjobs.reports.status import overview
from tests.actors import Hand, admit, execute
from tests.tasks import noop

pytestmark = pytest.mark.django_db

LONG = timedelta(minutes=20)


@pytest.fixture
def hand() -> Hand:
    return Hand()


def let_pass() -> None:
    """Let all jobs be enqueued, due and begun twenty minutes earlier."""
    execute(
        "UPDATE pgjobs_job SET enqueued_at = enqueued_at - %(time)s,"
        " run_after = run_after - %(time)s,"
        " last_attempted_at = last_attempted_at - %(time)s",
        {"time": LONG},
    )


def oldest() -> float:
    """Return for how many seconds the oldest ready job has waited, as operators see."""
    (queue,) = overview("default").queues
    return queue.oldest_ready_seconds


def test_fresh_job_waits_since_its_enqueue(hand):
    enqueue(noop)
    let_pass()
    assert oldest() > 1_000
    assert hand.claim_one().waited > 1_000


def test_job_that_an_operator_retries_waits_from_then(hand):
    job = enqueue(noop)
    let_pass()
    job.fail()
    assert job.retry()
    assert oldest() < 60
    assert hand.claim_one().waited < 60


def test_job_that_is_to_come_is_retried_at_its_time():
    job = enqueue(noop.using(run_after=timedelta(hours=1)))
    due = job.run_after
    job.fail()
    assert job.retry()
    assert job.status == "SCHEDULED" and job.run_after == due


@pytest.mark.parametrize(
    ("verdict", "how"),
    [
        ("CRASH", {"statement": "crash"}),
        *[(verdict, {}) for verdict in ("RELEASE", "RETRY", "SNOOZE")],
    ],
)
def test_job_that_goes_back_waits_from_then(hand, verdict, how):
    enqueue(noop)
    claimed = hand.claim_one()
    let_pass()
    assert hand.set_back(claimed, verdict, **how) == "READY"
    assert oldest() < 60
    assert hand.claim_one().waited < 60


def test_job_that_is_rescued_waits_from_then(hand):
    lost = Hand("lost")
    enqueue(noop)
    assert lost.claim_one()
    let_pass()
    lost.fall_silent(600)
    upkeep.rescue(execute, hand.id, Batch(10))
    assert oldest() < 60
    assert hand.claim_one().waited < 60


def test_job_that_is_admitted_waits_from_then(hand):
    locked = noop.using(lock="door")
    enqueue(locked)
    second = enqueue(locked)
    first = hand.claim_one()
    let_pass()
    assert hand.succeed(first)
    admit()
    second.refresh_from_db()
    assert second.status == "READY"
    assert oldest() < 60
    assert hand.claim_one().waited < 60
