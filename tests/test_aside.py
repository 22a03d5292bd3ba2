"""Who has a place of a mutex or limit, but would not run, stands aside."""

import pytest

from pgjobs import enqueue
from pgjobs.models import Hold, Queue, work
from tests.actors import Hand, execute, session, statuses
from tests.processes import shared_queue, wait_for_all, wait_for_status
from tests.tasks import noop

pytestmark = shared_queue

mutex = noop.using(lock="door", lock_mode="mutex")
limited = noop.using(max_running=1)
slow = {"queue_name": "slow"}


def sweep() -> None:
    work.sweep(execute, work.BEGINNING)


@pytest.fixture
def served():
    """Let a worker serve all queues but "slow"."""
    return Hand(excluded="slow")


@pytest.mark.parametrize("task", [mutex, limited])
def test_holder_in_a_queue_without_worker_stands_aside_for_others(task, served):
    holder, waiter = enqueue(task.using(**slow)), enqueue(task)
    assert statuses() == ["READY", "WAITING"]
    sweep()
    assert statuses() == ["WAITING", "READY"]
    holder.refresh_from_db()
    assert holder.waiting_for in ("lock", "limit")
    served.succeed(served.claim_one())
    assert statuses() == ["WAITING", "SUCCESSFUL"]
    assert waiter.pk


@pytest.mark.parametrize("task", [mutex, limited])
def test_holder_in_a_paused_queue_stands_aside_until_it_is_resumed(task):
    hand = Hand()
    queue = Queue.objects.create(name="slow")
    queue.pause()
    enqueue(task.using(**slow))
    enqueue(task)
    sweep()
    assert statuses() == ["WAITING", "READY"]
    hand.succeed(hand.claim_one())
    with session() as ear:
        ear.listen("pgjobs_unsettled")
        queue.resume()
        assert ear.heard() == [("pgjobs_unsettled", "aside slow")]
    work.settle(execute, [work.Key("aside", "slow")])
    assert statuses() == ["READY", "SUCCESSFUL"]


def test_job_that_comes_back_waits_for_its_turn(served):
    enqueue(mutex.using(**slow))
    enqueue(mutex)
    sweep()
    Hand("slow", queues="slow")
    sweep()
    assert statuses() == ["WAITING", "READY"]
    assert set(Hold.objects.values_list("state", flat=True)) == {"lock", "place"}


def test_all_that_would_not_run_stand_aside_at_once(served):
    for _ in range(5):
        enqueue(mutex.using(**slow))
    enqueue(mutex)
    sweep()
    assert statuses() == ["WAITING"] * 5 + ["READY"]
    assert Hold.objects.filter(state="aside").count() == 5
    served.succeed(served.claim_one())
    assert statuses() == ["WAITING"] * 5 + ["SUCCESSFUL"]


def test_holder_for_whom_nobody_waits_stays(served):
    enqueue(mutex.using(**slow))
    sweep()
    assert statuses() == ["READY"]


def test_ordered_jobs_keep_their_turn(served):
    enqueue(noop.using(lock="door", **slow))
    enqueue(noop.using(lock="door"))
    sweep()
    assert statuses() == ["READY", "WAITING"]


def test_holder_that_runs_stays(served):
    enqueue(mutex.using(**slow))
    Hand("slow", queues="slow").claim_one()
    execute("UPDATE pgjobs_worker SET lease_until = now() WHERE queues = 'slow'")
    enqueue(mutex)
    sweep()
    assert statuses() == ["RUNNING", "WAITING"]


def test_who_stands_aside_frees_its_places_of_all_keys(served):
    both = limited.using(lock="door", lock_mode="mutex")
    enqueue(both.using(**slow))
    enqueue(mutex.using(priority=1))
    enqueue(limited)
    assert statuses() == ["READY", "WAITING", "WAITING"]
    sweep()
    assert statuses() == ["WAITING", "READY", "READY"]


def test_job_that_stands_aside_can_be_cancelled_and_deleted(served):
    first, second = enqueue(mutex.using(**slow)), enqueue(mutex.using(**slow))
    enqueue(mutex)
    sweep()
    first.cancel()
    second.delete()
    assert statuses() == ["CANCELLED", "READY"]
    assert Hold.objects.count() == 1


def test_workers_do_all_of_this(start_worker):
    stuck = enqueue(mutex.using(**slow))
    jobs = [enqueue(mutex) for _ in range(5)]
    start_worker("--exclude", "slow", settings={"HEARTBEAT_INTERVAL": 0.5})
    for job in jobs:
        wait_for_status(job, "SUCCESSFUL")
    stuck.refresh_from_db()
    assert stuck.status == "WAITING"
    start_worker("--queues", "slow", settings={"HEARTBEAT_INTERVAL": 0.5})
    wait_for_all("SUCCESSFUL")
