"""Jobs of a queue that is paused, or has no worker, take no room from others."""

import pytest

from pgjobs import enqueue
from pgjobs.models import Job, Note, Queue, Worker
from pgjobs.queue import admitting
from pgjobs.reports.obstacles import obstacles
from tests.actors import Hand, admit, execute, session, statuses, stored_statuses
from tests.processes import shared_queue, wait_for, wait_for_all, wait_for_status
from tests.tasks import noop

pytestmark = shared_queue

mutex = noop.using(lock="door", lock_mode="mutex")
limited = noop.using(max_running=1)
rated = noop.using(rate="1/day")
slow = {"queue_name": "slow"}


@pytest.fixture
def served():
    """Let a worker serve all queues but "slow"."""
    return Hand(excluded="slow")


@pytest.fixture
def passing():
    """Return a function that lets the worker of "slow" begin and vanish again."""

    def pass_by(*jobs: Job) -> None:
        hand = Hand("slow", queues="slow")
        admit()
        for job in jobs:
            job.refresh_from_db()
            assert job.status == "READY"
        hand.vanish()

    return pass_by


# Jobs that no admission has looked at


@pytest.mark.parametrize("task", [mutex, limited, rated])
def test_job_of_a_queue_without_worker_takes_no_room(task, served):
    enqueue(task.using(**slow))
    enqueue(task)
    assert statuses() == ["WAITING", "READY"]
    served.succeed(served.claim_one())
    assert statuses() == ["WAITING", "SUCCESSFUL"]


@pytest.mark.parametrize("task", [mutex, limited])
def test_job_of_a_paused_queue_takes_no_room_until_it_is_resumed(task):
    hand = Hand()
    queue = Queue.objects.create(name="slow")
    queue.pause()
    enqueue(task.using(**slow))
    enqueue(task)
    assert statuses() == ["WAITING", "READY"]
    hand.succeed(hand.claim_one())
    assert statuses() == ["WAITING", "SUCCESSFUL"]
    with session() as ear:
        ear.listen("pgjobs_admission")
        queue.resume()
        assert ("pgjobs_admission", "sweep") in ear.heard()
    assert admitting.admit(execute, sweeps=True).admitted == 1
    assert stored_statuses() == ["READY", "SUCCESSFUL"]


@pytest.mark.parametrize("wanted", ["quiet", "stop"])
@pytest.mark.parametrize("task", [mutex, limited])
def test_job_whose_worker_is_to_claim_no_more_takes_no_room(task, wanted, served):
    quiet = Hand("slow", queues="slow")
    before = enqueue(task.using(**slow))
    assert statuses() == ["READY"]
    Worker.objects.filter(pk=quiet.row.pk).update(wanted=wanted)
    enqueue(task.using(**slow))
    enqueue(task)
    assert statuses() == ["WAITING", "WAITING", "READY"]
    assert obstacles("default", [before.pk])[before.pk].waiting_for == "unserved"
    served.succeed(served.claim_one())
    Worker.objects.filter(pk=quiet.row.pk).update(wanted="")
    assert statuses() == ["READY", "WAITING", "SUCCESSFUL"]


def test_job_whose_queue_is_served_again_waits_in_its_position(served):
    enqueue(mutex.using(**slow))
    enqueue(mutex)
    assert statuses() == ["WAITING", "READY"]
    Hand("slow", queues="slow")
    assert statuses() == ["WAITING", "READY"]
    first = Job.objects.order_by("pk")[0]
    assert (first.waiting_for, first.line) == ("lock", "mutex door")
    served.succeed(served.claim_one())
    assert statuses() == ["READY", "SUCCESSFUL"]


def test_ordered_job_of_an_unserved_queue_keeps_its_position(served):
    enqueue(noop.using(lock="door", **slow))
    enqueue(noop.using(lock="door"))
    assert statuses() == ["WAITING", "WAITING"]
    Hand("slow", queues="slow")
    assert statuses() == ["READY", "WAITING"]


@pytest.mark.parametrize("task", [mutex, limited])
def test_job_in_line_whose_queue_is_paused_meanwhile_is_skipped(task):
    hand = Hand()
    for each in (task, task.using(**slow), task):
        enqueue(each)
    assert statuses() == ["READY", "WAITING", "WAITING"]
    Queue.objects.create(name="slow").pause()
    hand.succeed(hand.claim_one())
    assert statuses() == ["SUCCESSFUL", "WAITING", "READY"]


def test_job_that_comes_after_another_is_not_admitted_where_no_worker_serves_it(served):
    first = enqueue(noop)
    enqueue(mutex.using(after=first, **slow))
    enqueue(mutex.using(after=first))
    first.succeed()
    assert statuses() == ["SUCCESSFUL", "WAITING", "READY"]


def test_job_of_an_unserved_queue_can_be_cancelled_and_deleted(served):
    first, second = enqueue(mutex.using(**slow)), enqueue(mutex.using(**slow))
    enqueue(mutex)
    assert statuses() == ["WAITING", "WAITING", "READY"]
    first.cancel()
    second.delete()
    assert statuses() == ["CANCELLED", "READY"]
    assert not Note.objects.exists()


# Jobs that were admitted before


@pytest.mark.parametrize("task", [mutex, limited])
def test_holder_whose_worker_is_gone_makes_room_for_others(task, served, passing):
    holder = enqueue(task.using(**slow))
    passing(holder)
    enqueue(task)
    assert statuses() == ["WAITING", "READY"]
    holder.refresh_from_db()
    assert holder.waiting_for in ("lock", "limit")
    served.succeed(served.claim_one())
    assert statuses() == ["WAITING", "SUCCESSFUL"]


@pytest.mark.parametrize("task", [mutex, limited])
def test_holder_whose_queue_is_paused_makes_room_for_others(task):
    hand = Hand()
    enqueue(task.using(**slow))
    enqueue(task)
    assert statuses() == ["READY", "WAITING"]
    Queue.objects.create(name="slow").pause()
    assert statuses() == ["WAITING", "READY"]
    hand.succeed(hand.claim_one())
    Queue.objects.get().resume()
    assert statuses() == ["READY", "SUCCESSFUL"]


def test_all_holders_that_would_not_run_make_room_at_once(served, passing):
    five = noop.using(max_running=5)
    passing(*[enqueue(five.using(**slow)) for _ in range(5)])
    for _ in range(6):
        enqueue(five)
    assert statuses() == ["WAITING"] * 5 + ["READY"] * 5 + ["WAITING"]


def test_holder_that_no_other_job_waits_for_stays(served, passing):
    job = enqueue(mutex.using(**slow))
    passing(job)
    assert statuses() == ["READY"]


def test_ordered_holder_keeps_its_position(served, passing):
    job = enqueue(noop.using(lock="door", **slow))
    passing(job)
    enqueue(noop.using(lock="door"))
    assert statuses() == ["READY", "WAITING"]


def test_holder_that_runs_stays(served):
    enqueue(mutex.using(**slow))
    Hand("slow", queues="slow").claim_one()
    execute("UPDATE pgjobs_worker SET lease_until = now() WHERE queues = 'slow'")
    enqueue(mutex)
    assert statuses() == ["RUNNING", "WAITING"]


def test_holder_that_makes_room_frees_all_its_keys(served, passing):
    both = enqueue(limited.using(lock="door", lock_mode="mutex", **slow))
    passing(both)
    enqueue(mutex.using(priority=1))
    enqueue(limited)
    admitting.admit(execute)
    assert stored_statuses() == ["READY", "WAITING", "WAITING"]
    assert statuses() == ["WAITING", "READY", "READY"]


def test_real_worker_takes_back_what_no_worker_serves_and_runs_the_others(start_worker):
    impatient = {"HEARTBEAT_INTERVAL": 0.5}
    stuck = enqueue(mutex.using(**slow))
    hand = Hand("slow", queues="slow")
    admit()
    assert Job.objects.ready().get() == stuck
    hand.vanish()
    jobs = [enqueue(mutex) for _ in range(5)]
    later = enqueue(mutex.using(**slow))
    start_worker("--exclude", "slow", settings=impatient)
    for job in jobs:
        wait_for_status(job, "SUCCESSFUL")
    for job in (stuck, later):
        job.refresh_from_db()
        assert job.status == "WAITING"
    start_worker("--queues", "slow", settings=impatient)
    wait_for_all("SUCCESSFUL")


def test_worker_that_begins_to_serve_a_queue_admits_what_waits_there(start_worker):
    """It does so without a notification, and long before the next sweep."""
    enqueue(mutex.using(**slow))
    patient = {"HEARTBEAT_INTERVAL": 600, "LEASE_DURATION": 3_600}
    start_worker("--queues", "slow", settings=patient)
    wait_for(Job.objects.filter(status="SUCCESSFUL").exists)
