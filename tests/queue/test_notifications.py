"""Which changes of a job's status are notified, and to which listeners."""

import pytest

from pgjobs.models import Job
from tests.actors import Hand, admit, running_job, session
from tests.tasks import noop

pytestmark = pytest.mark.django_db(transaction=True)

LOCKED = noop.using(lock="door")
ENDED = "status = 'SUCCESSFUL', worker_id = NULL, finished_at = now()"


@pytest.fixture
def listener(transactional_db):
    with session() as listening:
        listening.listen("pgjobs", "pgjobs_admission", "pgjobs_finished")
        yield listening


def update(job: Job, columns: str, listener) -> list[tuple[str, str]]:
    """Change a job by plain SQL; return what this notifies."""
    listener.heard()
    listener.execute(f"UPDATE pgjobs_job SET {columns} WHERE id = {job.pk}")
    return listener.heard()


def test_end_of_a_plain_job_is_notified_to_those_that_wait_for_it_alone(listener):
    assert update(running_job(), ENDED, listener) == []
    awaited = running_job()
    finished = [("pgjobs_finished", str(awaited.pk))]
    assert update(awaited, f"awaited = true, {ENDED}", listener) == finished


def test_end_of_a_job_with_a_lock_is_notified_to_an_admission(listener):
    notified = [("pgjobs_admission", "default")]
    assert update(running_job(LOCKED), ENDED, listener) == notified


def test_end_that_a_worker_records_is_not_notified(listener):
    hand = Hand()
    LOCKED.enqueue()
    job = hand.claim_one()
    listener.heard()
    assert hand.succeed(job)
    assert listener.heard() == []


@pytest.mark.parametrize(
    ("task", "channel"), [(noop, "pgjobs"), (LOCKED, "pgjobs_admission")]
)
def test_return_to_the_queue_is_notified(task, channel, listener):
    back = "status = 'READY', worker_id = NULL"
    assert update(running_job(task), back, listener) == [(channel, "default")]


def test_admission_notifies_of_the_jobs_that_it_makes_ready_once(listener):
    Hand()  # its queue is served
    LOCKED.enqueue()
    LOCKED.enqueue()
    listener.heard()
    assert admit() == 1
    assert listener.heard() == [("pgjobs", "default")]


def test_status_that_stays_the_same_is_not_notified(listener):
    assert update(noop.enqueue(), "status = status", listener) == []
    waiting = LOCKED.enqueue()
    assert update(waiting, "status = status, queue_name = 'mail'", listener) == []
    ended = running_job()
    update(ended, f"awaited = true, {ENDED}", listener)
    assert update(ended, "status = status, reason = ''", listener) == []
