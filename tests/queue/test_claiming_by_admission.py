"""An admission may claim what it admits, if the worker knows of no READY job.

It may take no job that a fetch for READY jobs would have left to others.
"""

import random
from datetime import timedelta

import pytest
from django.utils import timezone

from pgjobs import enqueue, enqueue_many
from pgjobs.models import Job, Queue
from pgjobs.queue import admitting
from pgjobs.queue.claiming import ClaimedJob
from pgjobs.queue.recording import Success
from tests.actors import Hand, execute, linked_job, session, stored_statuses
from tests.processes import running_worker, shared_queue, wait_for
from tests.tasks import noop

pytestmark = [shared_queue, pytest.mark.usefixtures("unhurried")]

LOCKED = noop.using(lock="door")
ONE_CRASH_LEFT = """
    UPDATE pgjobs_job SET crashes = max_crashes - 1, attempts = max_crashes - 1
    WHERE id = %(id)s
"""


@pytest.fixture
def hand():
    return Hand()


def admit_and_claim(hand: Hand, *ended: ClaimedJob, limit: int = 10, **serving):
    """Record successes, admit and claim, all in one statement."""
    return admitting.record_and_admit(
        execute,
        hand.id,
        admitting.BEGINNING,
        False,
        successes=[Success(job.id, job.lease_token, None) for job in ended],
        claims=True,
        limit=limit,
        **serving,
    )


def ids(jobs) -> list[int]:
    return [job.id for job in jobs]


def test_job_is_claimed_as_it_is_admitted_and_has_all_that_a_claim_gives(hand):
    job = enqueue(LOCKED.using(priority=7, timeout=timedelta(seconds=5)))
    other = Hand("other")
    (claimed,) = admit_and_claim(hand).claimed
    assert stored_statuses() == ["RUNNING"]
    job.refresh_from_db()
    assert (job.worker_id, job.attempts, job.line) == (hand.id, 1, None)
    assert job.lease_token == claimed.lease_token > 0
    assert job.waiting_for is job.blocked_by_id is None
    assert job.started_at and job.last_attempted_at
    Job.objects.update(status="READY", worker_id=None, started_at=None)
    fetched = other.claim_one()
    new = {"lease_token": claimed.lease_token, "waited": claimed.waited, "attempt": 1}
    # For the database it is a job that goes on, which did nothing before.
    assert fetched._replace(**new, resumed=None) == claimed


def test_line_flows_at_one_statement_a_job(hand):
    jobs = enqueue_many([LOCKED.bind() for _ in range(5)])
    claimed = admit_and_claim(hand).claimed
    for job in jobs:
        assert ids(claimed) == [job.id]
        admission = admit_and_claim(hand, *claimed)
        assert admission.recorded == {claimed[0].lease_token}
        assert admission.admitted == 0
        claimed = admission.claimed
    assert claimed == []
    assert stored_statuses() == ["SUCCESSFUL"] * 5


def test_chain_flows_at_one_statement_a_job(hand):
    last = enqueue(noop)
    for _ in range(3):
        last = linked_job(after=last)
    (first,) = hand.claim()
    claimed = [first]
    for _ in range(3):
        claimed = admit_and_claim(hand, *claimed).claimed
        assert len(claimed) == 1
    assert stored_statuses() == [*["SUCCESSFUL"] * 3, "RUNNING"]


def test_first_jobs_of_the_order_come_first(hand):
    low = enqueue(noop.using(lock="a", priority=-1))
    high = enqueue(noop.using(lock="b", priority=1))
    assert ids(admit_and_claim(hand).claimed) == [high.id, low.id]


def test_more_jobs_than_there_is_room_for_become_ready_for_all_workers(hand):
    enqueue_many([noop.using(lock=f"lock-{n}").bind() for n in range(3)])
    admission = admit_and_claim(hand, limit=2)
    assert (admission.claimed, admission.admitted) == ([], 3)
    assert stored_statuses() == ["READY"] * 3


def test_worker_without_room_claims_nothing(hand):
    enqueue(LOCKED)
    assert admit_and_claim(hand, limit=0).claimed == []
    assert stored_statuses() == ["READY"]


def enqueue_for_a_second_round(hand: Hand, number: int) -> None:
    """Enqueue jobs of free locks that an admission reaches in its second round.

    In the first round a job with the same lock comes before, and meets a full limit.
    """
    limited = noop.using(max_running=1, limit_key="mail")
    enqueue(limited)
    hand.claim_one()
    for n in range(number):
        for task in (limited, noop):
            enqueue(task.using(lock=f"second-{n}", lock_mode="mutex"))


def test_room_counts_over_all_rounds_of_an_admission(hand):
    enqueue_for_a_second_round(hand, 2)
    first = enqueue(noop.using(lock="first"))
    admission = admit_and_claim(hand, limit=2)
    assert ids(admission.claimed) == [first.pk]
    assert admission.admitted == 2


def test_what_became_ready_comes_before_what_is_admitted_later(hand):
    enqueue_for_a_second_round(hand, 1)
    enqueue_many([noop.using(lock=f"first-{n}").bind() for n in range(3)])
    admission = admit_and_claim(hand, limit=2)
    assert (admission.claimed, admission.admitted) == ([], 4)


def last_chance(job: Job) -> None:
    execute(ONE_CRASH_LEFT, {"id": job.pk})


def limited(job: Job) -> None:
    Queue.objects.create(name=job.queue_name, max_running=1)


def of_two_units(job: Job) -> None:
    Job.objects.filter(pk=job.pk).update(process_units=2)


@pytest.mark.parametrize(
    ("options", "change"),
    [
        ({}, of_two_units),
        ({"expires": timedelta(hours=1)}, None),
        ({}, last_chance),
        ({}, limited),
    ],
    ids=["units", "expires", "last chance", "limited queue"],
)
def test_job_that_only_a_fetch_may_take_is_left_to_it(hand, options, change):
    job = enqueue(LOCKED.using(**options))
    if change:
        change(job)
    admission = admit_and_claim(hand)
    assert (admission.claimed, admission.admitted) == ([], 1)
    assert stored_statuses() == ["READY"]


@pytest.mark.parametrize("serving", [{"queues": ["mail"]}, {"excluded": ["default"]}])
def test_job_of_a_queue_that_the_worker_does_not_serve_is_left_to_others(hand, serving):
    Hand("other")
    enqueue(LOCKED)
    assert admit_and_claim(hand, **serving).claimed == []
    assert stored_statuses() == ["READY"]


def test_job_of_a_paused_queue_is_neither_admitted_nor_claimed(hand):
    Queue.objects.create(name="default", paused_at=timezone.now())
    enqueue(LOCKED)
    assert admit_and_claim(hand).claimed == []
    assert stored_statuses() == ["WAITING"]


def test_admission_of_another_worker_leaves_nothing_to_claim(hand):
    jobs = enqueue_many([LOCKED.bind() for _ in range(2)])
    (first,) = admit_and_claim(hand).claimed
    with session() as other:
        other.begin()
        assert admitting.admit(other.execute).admitted == 0
        admission = admit_and_claim(hand, first)
        assert (admission.admitted, admission.claimed) == (None, [])
        assert admission.recorded == {first.lease_token}
        other.rollback()
    assert ids(admit_and_claim(hand).claimed) == [jobs[1].pk]


def test_nothing_is_overbooked_or_lost_whatever_ends_in_whatever_order(hand):
    chance = random.Random(13)
    kinds = [
        noop.using(lock="a"),
        noop.using(lock="b", lock_mode="mutex"),
        noop.using(max_running=2, limit_key="m"),
        noop.using(max_running=2, limit_key="m", lock="a"),
        noop,
    ]
    enqueue_many([chance.choice(kinds).bind() for _ in range(60)])
    held: dict[int, ClaimedJob] = {}
    claimed_ids: list[int] = []
    while Job.objects.filter(finished_at=None).exists():
        some = chance.sample(list(held.values()), chance.randint(0, len(held)))
        limit = 6 - len(held) + len(some)
        admission = admit_and_claim(hand, *some, limit=limit)
        for job in some:
            del held[job.id]
        brought = admission.claimed
        assert len(brought) <= limit
        if admission.admitted or not brought:
            brought += hand.record_and_claim(limit=limit - len(brought)).jobs
        held |= {job.id: job for job in brought}
        claimed_ids += ids(brought)
        assert len(held) <= 6
        running = Job.objects.filter(status="RUNNING")
        assert sorted(running.values_list("pk", flat=True)) == sorted(held)
        locks = [each.keys.get("lock") for each in running if each.keys]
        locks = [each for each in locks if each]
        assert len(locks) == len(set(locks))
        limits = [each for each in running if each.keys and "limit_key" in each.keys]
        assert len(limits) <= 2
    assert len(claimed_ids) == len(set(claimed_ids)) == 60
    of_a = Job.objects.filter(keys__lock="a").order_by("started_at", "pk")
    assert ids(of_a) == sorted(ids(of_a))


def test_worker_runs_a_line_beside_jobs_that_become_ready(hand):
    """A READY job gets a slot although the worker claims a line by admissions."""
    enqueue_many([LOCKED.bind() for _ in range(100)])
    ended = Job.objects.exclude(finished_at=None)
    with running_worker(slots=2, poll=60.0):
        wait_for(ended.exists, "the line moves")
        plain = enqueue(noop)
        assert plain.wait(timeout=30) is None
        wait_for(lambda: ended.count() == 101, "all have run")
