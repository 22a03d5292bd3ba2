"""Queues: paused, resumed and limited, for all workers and at once."""

import threading
from concurrent.futures import ThreadPoolExecutor
from io import StringIO

import pytest
from django.core.management import call_command
from django.db import IntegrityError, connections

from pgjobs import enqueue_many
from pgjobs.models import Job, Queue
from pgjobs.queue import upkeep
from pgjobs.queue.claiming import first_fetch
from pgjobs.queue.recording import Success
from pgjobs.reports.status import overview
from tests import tasks
from tests.actors import Hand, Session, execute, hours, running_job, session
from tests.operators import make_job
from tests.processes import (
    SOON,
    drain,
    running_worker,
    shared_queue,
    wait_for,
    wait_for_all,
    wait_for_status,
)

pytestmark = shared_queue

MAIL = tasks.noop.using(queue_name="mail")


def make_queue(name: str = "mail", **columns) -> Queue:
    return Queue.objects.create(name=name, **columns)


def paused(name: str = "mail") -> Queue:
    queue = make_queue(name)
    assert queue.pause() is True
    return queue


def printed(*arguments: str, **options) -> str:
    out = StringIO()
    call_command(*arguments, stdout=out, **options)
    return out.getvalue()


# Rows


def test_worker_makes_the_row_of_a_queue_with_its_first_job():
    known = make_queue("known", max_running=2)
    enqueue_many(
        [tasks.noop.using(queue_name=name).bind() for name in ("new", "known", "new")]
    )
    assert drain().finished == 3
    assert set(Queue.objects.values_list("name", "max_running")) == {
        ("new", None),
        (known.name, 2),
    }


@pytest.mark.parametrize("columns", [{"max_running": 0}, {"max_running": -1}])
def test_database_refuses_a_limit_that_lets_nothing_run(columns):
    with pytest.raises(IntegrityError, match="pgjobs_queue_max_running"):
        make_queue(**columns)


# Pausing


def test_no_job_of_a_paused_queue_is_claimed_and_none_changes_its_status():
    queue = paused()
    ready, other = MAIL.enqueue(), tasks.noop.enqueue()
    MAIL.using(run_after=hours(1)).enqueue()
    hand = Hand()
    brought = hand.record_and_claim(limit=5)
    assert [job.id for job in brought.jobs] == [other.pk]
    assert not brought.met_locked
    assert set(mail_statuses()) == {"READY", "SCHEDULED"}
    assert queue.resume() is True
    assert [job.id for job in hand.claim()] == [ready.pk]


def mail_statuses() -> list[str]:
    jobs = Job.objects.filter(queue_name="mail").order_by("pk")
    return list(jobs.values_list("status", flat=True))


def test_acts_say_whether_they_changed_anything():
    queue = make_queue()
    assert [queue.pause(), queue.pause()] == [True, False]
    assert queue.paused_at is not None
    assert [queue.resume(), queue.resume()] == [True, False]
    assert queue.paused_at is None


def test_pausing_lets_running_jobs_end_and_resuming_wakes_the_worker(tmp_path):
    path = str(tmp_path / "held")
    held = tasks.hold.using(queue_name="mail").enqueue(path)
    with running_worker(poll=600) as loop:
        wait_for_status(held, "RUNNING")
        queue = Queue.objects.get_or_create(name="mail")[0]
        queue.pause()
        waiting, other = MAIL.enqueue(), tasks.noop.enqueue()
        wait_for_status(other, "SUCCESSFUL")
        tasks.let_go(path)
        wait_for_status(held, "SUCCESSFUL")
        wait_for(lambda: loop.bell.alarm)
        waiting.refresh_from_db()
        assert waiting.status == "READY"
        queue.resume()
        wait_for_status(waiting, "SUCCESSFUL", timeout=SOON)


@pytest.mark.parametrize(
    ("change", "wakes"),
    [
        (lambda queue: queue.resume(), True),
        (lambda queue: Queue.objects.update(max_running=5), True),
        (lambda queue: queue.delete(), True),
        (lambda queue: Queue.objects.update(note="why"), False),
    ],
)
def test_change_that_lets_more_jobs_run_wakes_the_workers(change, wakes):
    queue = paused()
    with session() as listening:
        listening.listen("pgjobs")
        change(queue)
        assert listening.heard() == [("pgjobs", "mail")] * wakes


def test_drain_skips_paused_queues_and_says_so():
    paused("mail"), paused("news"), paused("empty")
    for name in ("mail", "mail", "news", "default"):
        tasks.noop.using(queue_name=name).enqueue()
    assert printed("runjobs", "--drain").splitlines()[-2:] == [
        "Completed 1 job",
        "Left: 3 ready in paused queues: mail, news.",
    ]


# Limits


def test_claims_fill_a_limited_queue_and_no_more():
    make_queue(max_running=3)
    enqueue_many([MAIL.bind() for _ in range(10)])
    other = tasks.noop.using(priority=-5).enqueue()
    one, two = Hand("one"), Hand("two")
    assert len(one.claim(2)) == 2
    brought = two.record_and_claim(limit=5)
    assert [job.queue_name for job in brought.jobs] == ["mail", "default"]
    assert brought.jobs[1].id == other.pk
    assert brought.met_locked, "so that it fetches again"
    assert one.claim(5) == []


def test_room_of_what_is_recorded_is_used_in_the_same_pass():
    make_queue(max_running=1)
    enqueue_many([MAIL.bind() for _ in range(3)])
    hand = Hand()
    claimed = hand.claim_one()
    for _ in range(2):
        success = Success(claimed.id, claimed.lease_token, None)
        brought = hand.record_and_claim(success, limit=1)
        assert brought.recorded == {claimed.lease_token}
        (claimed,) = brought.jobs


def test_limit_that_was_lowered_lets_running_jobs_end_first():
    queue = make_queue(max_running=3)
    enqueue_many([MAIL.bind() for _ in range(6)])
    hand = Hand()
    running = hand.claim(3)
    Queue.objects.filter(pk=queue.pk).update(max_running=1)
    for job in running:
        assert hand.claim() == []
        assert hand.succeed(job)
    assert len(hand.claim(5)) == 1


def test_two_claims_at_once_never_count_on_the_same_room():
    make_queue(max_running=3)
    enqueue_many([MAIL.bind() for _ in range(8)])
    with session() as other:
        hand = Hand("other", execute=other.execute)
        other.begin()
        assert len(hand.claim(2)) == 2
        brought = Hand("second").record_and_claim(limit=5)
        assert brought.jobs == []
        assert brought.met_locked, "so that it fetches again"
        other.commit()
        assert len(Hand("third").claim(5)) == 1


def lock_first(other: Session, number: int, name: str = "mail") -> None:
    other.begin()
    other.execute(
        "SELECT FROM pgjobs_job WHERE queue_name = %(name)s "
        "ORDER BY priority DESC, turn LIMIT %(number)s FOR UPDATE",
        {"name": name, "number": number},
    )


@pytest.mark.parametrize(("room", "limit", "taken"), [(1, 5, 1), (3, 5, 3), (3, 2, 2)])
def test_job_that_another_transaction_has_locked_takes_no_room(room, limit, taken):
    make_queue(max_running=room)
    jobs = enqueue_many([MAIL.bind() for _ in range(12)])
    with session() as other:
        lock_first(other, 3)
        brought = Hand().record_and_claim(limit=limit)
    ids = [job.pk for job in jobs]
    assert [job.id for job in brought.jobs] == ids[3 : 3 + taken]


def test_claim_of_a_limited_queue_locks_no_more_rows_than_it_takes():
    make_queue(max_running=2)
    enqueue_many([MAIL.bind() for _ in range(12)])
    with session() as other, session() as claiming:
        lock_first(other, 3)
        claiming.begin()
        hand = Hand("other", execute=claiming.execute)
        assert len(hand.record_and_claim(limit=5).jobs) == 2
        other.rollback()
        other.begin()
        left = other.execute("SELECT id FROM pgjobs_job FOR UPDATE SKIP LOCKED")
    assert len(left) == 10


def test_limited_queue_behind_a_locked_job_keeps_its_place_between_others():
    """Others have READY jobs without end, and of less priority."""
    make_queue(max_running=1)
    _, second = enqueue_many([MAIL.using(priority=5).bind() for _ in range(2)])
    enqueue_many([tasks.noop.bind() for _ in range(50)])
    with session() as other:
        lock_first(other, 1)
        brought = Hand().record_and_claim(limit=3)
    first, *others = brought.jobs
    assert first.id == second.pk
    assert [job.queue_name for job in others] == ["default"] * 2


def test_jobs_for_which_a_queue_has_no_room_displace_no_other_job():
    make_queue(max_running=1)
    enqueue_many([MAIL.using(priority=5).bind() for _ in range(50)])
    enqueue_many([tasks.noop.bind() for _ in range(9)])
    brought = Hand().record_and_claim(limit=4)
    names = [job.queue_name for job in brought.jobs]
    assert names == ["mail", "default", "default", "default"]


@pytest.mark.parametrize("number", [0, 1, 30])
def test_locked_job_of_one_limited_queue_is_passed_over_behind_a_long_other_one(number):
    """All jobs in the list of extra ones are of the other queue."""
    make_queue("crowd", max_running=1)
    make_queue(max_running=1)
    crowd = tasks.noop.using(queue_name="crowd", priority=5)
    enqueue_many([crowd.bind() for _ in range(40)])
    _, second = enqueue_many([MAIL.bind() for _ in range(2)])
    hand, fetch, jobs = Hand(), first_fetch(3, by_queue=True), []
    with session() as one, session() as two:
        lock_first(one, 1)
        lock_first(two, number, "crowd")
        has_more = True
        while has_more:
            brought = hand.record_and_claim(limit=3, fetch=fetch)
            jobs, has_more = jobs + brought.jobs, brought.has_more
            fetch = fetch if brought.jobs else fetch.further()
    assert sorted(job.queue_name for job in jobs) == ["crowd", "mail"]
    assert second.pk in [job.id for job in jobs]


def test_full_list_of_extra_jobs_alone_does_not_ask_for_another_fetch():
    make_queue(max_running=1)
    enqueue_many([MAIL.bind() for _ in range(50)])
    tasks.noop.enqueue()
    brought = Hand().record_and_claim(limit=4)
    assert len(brought.jobs) == 2
    assert not brought.has_more
    assert brought.met_locked, "so that it fetches again"


def test_limit_is_exact_whatever_many_connections_do():
    make_queue(max_running=3)
    enqueue_many([MAIL.bind() for _ in range(60)])
    barrier = threading.Barrier(4, timeout=60)

    def work_off(number: int) -> int:
        most = 0
        try:
            hand = Hand(str(number))
            barrier.wait()
            while Job.objects.ready().exists():
                claimed = hand.claim(2)
                most = max(most, Job.objects.running().count())
                for job in claimed:
                    assert hand.succeed(job)
        finally:
            connections.close_all()
        return most

    with ThreadPoolExecutor(4) as pool:
        most = max(pool.map(work_off, range(4)))
    assert 1 <= most <= 3
    assert Job.objects.filter(status="SUCCESSFUL").count() == 60


def test_room_of_a_killed_worker_comes_back_with_the_rescue(start_worker, tmp_path):
    make_queue(max_running=2)
    path = str(tmp_path / "held")
    hold = tasks.hold.using(queue_name="mail", max_crashes=5)
    first = enqueue_many([hold.bind(path) for _ in range(5)])[:2]
    impatient = {"HEARTBEAT_INTERVAL": 0.3, "LEASE_DURATION": 1.5}
    victim = start_worker("--poll", "600", settings=impatient)
    wait_for(lambda: len(tasks.lines(path)) == 2, "two run")
    start_worker("--poll", "600", settings=impatient)
    victim.kill()
    wait_for(lambda: len(tasks.lines(path)) == 4, "they run again elsewhere")
    assert {job.pk for job in Job.objects.running()} == {job.pk for job in first}
    tasks.let_go(path)
    wait_for_all("SUCCESSFUL")
    assert len(tasks.lines(path)) == 7


def test_queue_that_others_fill_is_looked_at_again(tmp_path):
    """The other worker may end without notifying this one of free room."""
    make_queue(max_running=1)
    hand = Hand()
    held = running_job(MAIL, hand=hand)
    waiting = MAIL.enqueue()
    with running_worker(poll=600, listen=False) as loop:
        wait_for(
            lambda: loop.claimer.rule.passed_over.since is not None,
            "it met the full queue",
        )
        job = Job.objects.get(pk=held.pk)
        Job.objects.filter(pk=held.pk).succeed()
        assert job.status == "RUNNING"
        wait_for_status(waiting, "SUCCESSFUL")


# Rows of queues that have no worker


def test_worker_makes_the_rows_of_queues_that_it_does_not_serve():
    MAIL.enqueue()
    locked = MAIL.using(queue_name="locked", lock="door")
    locked.enqueue()
    with running_worker(queues=["default"], poll=600) as loop:
        look_for_queues(loop)
        wait_for(lambda: Queue.objects.count() == 2, "the queues have rows")
        assert set(Queue.objects.values_list("name", flat=True)) == {"mail", "locked"}


def look_for_queues(loop) -> None:
    loop.upkeep["make_waiting_queues"].due = 0.0
    loop.bell.ring()


def test_names_of_many_queues_are_found_slice_by_slice(monkeypatch):
    monkeypatch.setattr(upkeep, "BATCH", 2)
    for number in range(5):
        tasks.noop.using(queue_name=f"ready {number}").enqueue()
        tasks.noop.using(queue_name=f"arrived {number}", lock="door").enqueue()
        job = tasks.noop.using(queue_name=f"unserved {number}", lock="door").enqueue()
        line = f"unserved unserved {number}"
        Job.objects.filter(pk=job.pk).update(line=line)
    parts, names = 0, upkeep.Names()
    while parts == 0 or any(names):
        parts, names = parts + 1, upkeep.make_waiting_queues(execute, names)
    assert Queue.objects.count() == 15
    assert parts == 5
    assert upkeep.make_waiting_queues(execute, upkeep.Names())
    assert Queue.objects.count() == 15


def test_status_shows_what_is_held_back():
    paused("idle")
    queue = make_queue(max_running=2, note="moving\nto Kiel")
    make_queue("plain")
    queue.pause()
    make_job("READY", queue_name="mail", enqueued_at="2020-01-01T00:00Z")
    state = overview("default")
    assert [each.name for each in state.queues] == ["idle", "mail"]
    assert state.queues[1].max_running == 2
    assert state.queues[1].note == "moving\nto Kiel"
    assert state.queues[1].paused_seconds is not None
