"""Where a worker looks for jobs: it overlooks none."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from random import Random

import pytest

from pgjobs import enqueue, enqueue_many
from pgjobs.models import Job, Queue
from pgjobs.queue import looks as looks_module
from pgjobs.queue.claiming import Claimed, ClaimedJob
from pgjobs.queue.looks import EVERYWHERE, Look, Range, first_look, plain_look
from pgjobs.worker import claim_cursors as module
from pgjobs.worker import rewind
from pgjobs.worker.claim_cursors import ClaimCursors, ranges_from
from pgjobs.worker.in_flight import InFlight
from pgjobs.worker.rewind import LAST_TURN, Part
from tests import tasks
from tests.actors import Hand, session
from tests.processes import (
    drain,
    running_worker,
    shared_queue,
    wait_for,
    wait_for_all,
    wait_for_status,
)

NEVER = 600.0
POLL = 60.0
INSERT = "INSERT INTO pgjobs_job (task) VALUES ('tests.noop')"
HOLD = "SELECT id FROM pgjobs_job WHERE id = ANY (%(ids)s) FOR UPDATE"
INSERT_URGENT = """
INSERT INTO pgjobs_job (task, priority) VALUES ('tests.noop', 9) RETURNING id
"""
PROMOTE = "UPDATE pgjobs_job SET status = 'READY' WHERE id = %(id)s"
INSERT_SCHEDULED = """
INSERT INTO pgjobs_job (task, run_after)
VALUES ('tests.noop', clock_timestamp() + interval '0.1 s')
"""
IS_DUE = """
SELECT id FROM pgjobs_job
WHERE status = 'SCHEDULED' AND run_after < clock_timestamp() - interval '0.1 s'
"""
AT = datetime(2026, 1, 1, tzinfo=UTC)
SLOW = 0.01


@pytest.fixture(params=[False, True], ids=["at once", "in parts"])
def slow(monkeypatch, request):
    """Let every look count as slow; the test says how often the worker rewinds."""
    if request.param:
        monkeypatch.setattr(rewind, "PART_SECONDS", -1.0)
    monkeypatch.setattr(module, "SLOW_SECONDS", -1.0)
    monkeypatch.setattr(module, "SLOW_SECONDS_PER_JOB", 0.0)
    monkeypatch.setattr(module, "LATEST_LOOKS", 1)
    monkeypatch.setattr(module, "LATE_SECONDS", 0.0)

    def every(seconds: float) -> None:
        monkeypatch.setattr(module, "REWIND_SECONDS", seconds)

    every(NEVER)
    return every


def set_cursors(loop, *priorities: int) -> None:
    """Return when looks begin behind all that there is of these priorities, or of 0."""
    last = Job.objects.values_list("turn", flat=True).get(pk=enqueue(tasks.noop).pk)
    priorities = priorities or (0,)

    def are_set():
        for priority in priorities:
            enqueue(tasks.noop.using(priority=priority))
        turns = loop.cursors.turns
        return min(turns.get(priority, 0) for priority in priorities) >= last

    wait_for(are_set, "there are cursors")


# What a worker finds


@shared_queue
@pytest.mark.usefixtures("slow")
def test_worker_at_its_cursors_runs_new_jobs_of_every_priority_and_queue():
    with running_worker(poll=NEVER) as loop:
        set_cursors(loop)
        for priority in (-100, -1, 0, 1, 100):
            enqueue(tasks.noop.using(priority=priority))
            enqueue(tasks.noop.using(priority=priority, queue_name="another"))
        wait_for_all("SUCCESSFUL")
        assert loop.cursors.are_set


@shared_queue
@pytest.mark.usefixtures("slow")
def test_worker_at_its_cursors_finds_what_it_promotes():
    with running_worker(poll=NEVER) as loop:
        job = enqueue(tasks.noop.using(run_after=timedelta(seconds=0.3)))
        set_cursors(loop)
        wait_for_status(job, "SUCCESSFUL")
        assert loop.cursors.are_set


@pytest.mark.listening
@shared_queue
@pytest.mark.usefixtures("slow")
def test_nudged_worker_looks_before_its_cursors():
    old = enqueue(tasks.noop)
    with running_worker(poll=NEVER) as loop:
        set_cursors(loop)
        wait_for_status(old, "SUCCESSFUL")
        assert old.retry()
        wait_for_status(enqueue(tasks.noop), "SUCCESSFUL")
        old.refresh_from_db()
        assert old.status == "READY"
        loop.nudge()
        wait_for_status(old, "SUCCESSFUL")


@shared_queue
def test_worker_rewinds_to_what_was_put_back_before_its_cursors(slow):
    slow(0.1)
    old = enqueue(tasks.noop)
    with running_worker(poll=NEVER) as loop:
        set_cursors(loop)
        wait_for_status(old, "SUCCESSFUL")
        assert old.retry()
        wait_for_status(old, "SUCCESSFUL")
        assert loop.cursors.are_set


@shared_queue
@pytest.mark.usefixtures("slow")
def test_worker_never_rewinds_later_than_it_polls():
    old = enqueue(tasks.noop)
    with running_worker(poll=0.5) as loop:
        set_cursors(loop)
        wait_for_status(old, "SUCCESSFUL")
        assert old.retry()
        wait_for_status(old, "SUCCESSFUL")


@shared_queue
@pytest.mark.usefixtures("slow")
def test_worker_that_has_rewound_once_runs_all_that_was_before_its_cursors():
    old = enqueue_many([tasks.noop.bind() for _ in range(30)])
    with running_worker(poll=NEVER, slots=2) as loop:
        set_cursors(loop)
        wait_for_all("SUCCESSFUL")
        assert Job.objects.filter(pk__in=[job.pk for job in old]).retry().changed == 30
        loop.nudge()
        wait_for_all("SUCCESSFUL")


@shared_queue
def test_worker_rewinds_to_what_was_committed_late(slow):
    slow(0.2)
    with session() as late, running_worker(poll=NEVER) as loop:
        late.begin()
        late.execute(INSERT)
        set_cursors(loop)
        late.commit()
        wait_for(Job.objects.exclude(status="SUCCESSFUL").exists)
        wait_for_all("SUCCESSFUL")
        assert loop.cursors.are_set


@shared_queue
def test_busy_worker_promotes_what_was_scheduled_and_committed_late(slow, monkeypatch):
    slow(0.1)
    monkeypatch.setattr(looks_module, "OVERDUE_SECONDS", 0.0)
    with session() as late, running_worker(poll=NEVER) as loop:
        late.begin()
        late.execute(INSERT_SCHEDULED)
        set_cursors(loop)
        wait_for(lambda: late.execute(IS_DUE))
        late.commit()

        def is_promoted():
            enqueue(tasks.noop)  # so the worker looks each millisecond
            return not Job.objects.scheduled().exists()

        wait_for(is_promoted, "the overdue job is promoted")
        assert loop.cursors.are_set


@shared_queue
def test_job_that_must_run_alone_is_not_starved_behind_the_cursors(slow):
    slow(0.1)
    old = enqueue(tasks.noop)
    with running_worker(poll=NEVER, slots=4) as loop:
        set_cursors(loop)
        wait_for_status(old, "SUCCESSFUL")
        Job.objects.filter(pk=old.pk).update(max_crashes=1)
        # They never end all at the same time.
        enqueue_many([tasks.sleep.bind(0.01 * (1 + n % 3)) for n in range(200)])
        assert old.retry()
        wait_for_status(old, "SUCCESSFUL")
        assert Job.objects.ready().exists(), "it did not have to wait for the others"


@shared_queue
def test_drain_ends_only_after_a_complete_look(slow):
    slow(0.1)
    enqueue_many([tasks.noop.bind() for _ in range(200)])
    assert drain(slots=4).finished == 200


@shared_queue
@pytest.mark.usefixtures("slow")
def test_drain_leaves_no_job_of_a_thousand_queues():
    names = [f"queue-{number}" for number in range(1_000)]
    enqueue_many([tasks.noop.using(queue_name=name).bind() for name in names * 2])
    assert drain(slots=10).finished == 2_000
    assert not Job.objects.ready().exists()


def cut_rewind(loop) -> None:
    """Return when complete looks are made in parts, if this test has them so."""

    def is_cut():
        enqueue(tasks.noop)
        return loop.cursors.rewind.is_cut or not in_parts()

    wait_for(is_cut, "the rewind is cut")


def in_parts() -> bool:
    return rewind.PART_SECONDS < 0


@shared_queue
def test_worker_finds_what_a_rival_has_promoted(slow):
    slow(NEVER)
    with running_worker(poll=NEVER) as loop:
        later = enqueue(tasks.noop.using(run_after=timedelta(seconds=0.5)))
        set_cursors(loop)
        cut_rewind(loop)
        promotion = loop.claimer.promotion
        promotion.do = after_a_rival(promotion.do, later)
        wait_for_status(later, "SUCCESSFUL")


def after_a_rival(do, job: Job):
    """Return a promotion that comes too late: a rival has promoted the job."""

    def promote(*args):
        with session() as rival:
            rival.execute(PROMOTE, {"id": job.pk})
        return do(*args)

    return promote


@shared_queue
def test_urgent_job_that_is_committed_late_overtakes_a_backlog(slow):
    slow(0.1)
    with session() as late, running_worker(poll=1.0, slots=2) as loop:
        late.begin()
        ((urgent,),) = late.execute(INSERT_URGENT)
        set_cursors(loop, 9, 0, -5)
        cut_rewind(loop)
        wait_for_all("SUCCESSFUL")
        # All looks are full, and end at priority 0.
        enqueue_many([tasks.sleep.bind(0.01) for _ in range(2_000)])
        wait_for(Job.objects.running().exists)
        late.commit()
        wait_for_status(Job.objects.get(pk=urgent), "SUCCESSFUL")
        assert Job.objects.ready().exists()


@shared_queue
def test_worker_whose_slots_are_never_free_finds_what_is_put_back(slow):
    """It claims ahead of its slots, but a retry may not wait in a worker."""
    slow(0.1)
    old = enqueue(tasks.noop)
    with running_worker(poll=1.0, slots=2, prefetch="auto") as loop:
        enqueue_many([tasks.sleep.bind(0.001) for _ in range(100)])
        set_cursors(loop)
        cut_rewind(loop)
        wait_for_all("SUCCESSFUL")
        enqueue_many([tasks.sleep.bind(0.001) for _ in range(10_000)])
        wait_for(Job.objects.running().exists)
        assert old.retry()
        wait_for_status(old, "SUCCESSFUL")
        assert Job.objects.ready().exists()


@shared_queue
def test_admission_passes_beside_each_part(slow, caplog):
    slow(0.1)
    with running_worker(poll=NEVER) as loop:
        set_cursors(loop)
        cut_rewind(loop)
        wait_for_all("SUCCESSFUL")
        enqueue_many([tasks.sleep.using(lock="one").bind(0.01) for _ in range(50)])
        wait_for_all("SUCCESSFUL")
    assert "admit" not in caplog.text


@shared_queue
def test_worker_that_has_given_up_a_job_ends_after_a_complete_look(slow):
    slow(0.1)
    with running_worker(poll=NEVER) as loop:
        set_cursors(loop)
        cut_rewind(loop)
        wait_for_all("SUCCESSFUL")
        loop.executor.given_up = 1
        wait_for(lambda: loop.phase == "stopped", "the worker has ended")


@shared_queue
def test_drain_ends_while_a_job_cannot_be_recorded(slow, tmp_path, monkeypatch):
    slow(0.1)
    path = tmp_path / "go"
    enqueue(tasks.hold, str(path))
    with running_worker(poll=NEVER, slots=2, drain=True) as loop:
        set_cursors(loop)
        cut_rewind(loop)
        unfinished = Job.objects.exclude(status="SUCCESSFUL")
        wait_for(lambda: unfinished.count() == 1 == len(loop.in_flight.jobs))
        monkeypatch.setattr(InFlight, "is_stuck", True)
        wait_for(lambda: loop.is_done or loop.phase == "stopped", "it ends")
        tasks.let_go(path)


@shared_queue
@pytest.mark.parametrize("slow", [True], indirect=True)
def test_looks_at_parts_are_no_polls(slow):
    slow(0.05)
    with running_worker(poll=NEVER) as loop:
        set_cursors(loop)
        cut_rewind(loop)
        wait_for_all("SUCCESSFUL")
        polls, looked = loop.claimer.poll_wakeups, []
        loop.cursors.looked = observed(loop.cursors.looked, looked)
        wait_for(lambda: len(looked) > 20)
        assert loop.claimer.poll_wakeups == polls


def observed(function, seen: list):
    """Return a function that does the same, and notes each call."""

    def observing(*args):
        seen.append(args)
        return function(*args)

    return observing


# What a look at cursors brings


@shared_queue
def test_look_at_cursors_brings_the_same_in_the_same_order():
    for priority in (0, 5, -5, 0, 5, -5):
        enqueue(tasks.noop.using(priority=priority))
    everywhere = Hand("one").record_and_claim(limit=9).jobs
    Job.objects.update(status="READY", worker=None)
    look = Look(9, ranges=list(ranges_from({0: 1, -5: 1})))
    at_cursors = Hand("two").record_and_claim(limit=9, look=look).jobs
    assert [job.id for job in at_cursors] == [job.id for job in everywhere]
    assert [job.priority for job in at_cursors] == [5, 5, 0, 0, -5, -5]


PRIORITIES = (100, 7, 6, 0, -1, -100)


@shared_queue
@pytest.mark.parametrize("seed", range(8))
def test_look_that_takes_a_part_along_brings_what_stands_there(seed):
    draw = Random(seed)
    for _ in range(60):
        enqueue(tasks.noop.using(priority=draw.choice(PRIORITIES)))
    rows = list(Job.objects.order_by("-priority", "turn"))
    turns = sorted(row.turn for row in rows)
    for _ in range(15):
        some = draw.sample((*PRIORITIES, 50), draw.randint(1, 6))
        cursors = {priority: draw.choice(turns) + 1 for priority in some}
        first = draw.choice([0, *turns])
        part = Part(first, draw.choice([LAST_TURN, first, first + 20]))
        wanted = [
            row.pk
            for row in rows
            if row.turn >= cursors.get(row.priority, 0)
            or part.first <= row.turn <= part.last
        ]
        limit, held = draw.randint(1, 60), draw.sample(wanted, len(wanted) // 9)
        look = Look(70, ranges=list(ranges_from(cursors, part)), is_part=True)
        brought = looked_beside(held, limit, look)
        free = [id for id in wanted if id not in held]
        assert [each.id for each in brought.jobs] == free[:limit]
        assert brought.met_locked == (len(free) < limit and bool(held))
        assert not brought.has_more


def looked_beside(held: list[int], limit: int, look: Look) -> Claimed:
    """Return what a look brings while a rival holds these jobs; nothing is claimed."""
    with session() as rival, session() as own:
        rival.begin()
        rival.execute(HOLD, {"ids": held})
        own.begin()
        return Hand("own", execute=own.execute).record_and_claim(limit=limit, look=look)


@shared_queue
def test_look_at_cursors_leaves_a_limited_queue_to_a_look_by_queue():
    Queue.objects.create(name="default", max_running=1)
    first = enqueue(tasks.noop.using(priority=9, queue_name="other"))
    for priority in (0, 5, -5):
        enqueue(tasks.noop.using(priority=priority))
    look = Look(9, ranges=list(ranges_from({0: 1, -5: 10**9})), is_long=True)
    claimed = Hand("one").record_and_claim(limit=9, look=look)
    assert ([job.id for job in claimed.jobs], claimed.has_more) == ([first.pk], True)
    claimed = Hand("two").record_and_claim(limit=9, look=look.further())
    assert [job.priority for job in claimed.jobs] == [5]
    assert claimed.met_locked


# When there are cursors


def job(turn: int, priority: int = 0, seconds_ago: float = 0.0) -> ClaimedJob:
    columns = dict.fromkeys(ClaimedJob._fields, 0)
    columns |= {"turn": turn, "priority": priority, "max_crashes": 3}
    columns["enqueued_at"] = AT - timedelta(seconds=seconds_ago)
    return ClaimedJob(**columns)


def brought(*jobs: ClaimedJob, seconds: float = SLOW, **what: bool) -> Claimed:
    nothing = Claimed(set(), False, None, False, False, False, False, seconds, AT, [])
    return nothing._replace(jobs=list(jobs), **what)


class Looks:
    """A worker's looks for 4 jobs, at times that the test chooses."""

    def __init__(self, poll: float = POLL, **how):
        self.cursors = ClaimCursors(poll, **how)
        self.now = 100.0

    def next(self, **how) -> Look:
        return self.cursors.next_look(4, self.now, **how)

    def bring(self, *jobs: ClaimedJob, **what) -> Look:
        """Let the next look bring this; return the look."""
        look = self.next()
        self.cursors.looked(look, brought(*jobs, **what), 4, self.now)
        return look

    def slow_ones(self) -> "Looks":
        """Let the latest looks have been slow, and return when there are cursors."""
        for turn in range(1, 21):
            self.bring(job(turn))
            self.now += 1.0
        assert self.cursors.are_set
        return self


def ranges(look: Look) -> Sequence[Range] | None:
    return None if look.is_complete else list(look.ranges)


def rewinds(look: Look) -> bool:
    """Whether it goes before the cursors."""
    return look.is_complete or look.is_part


def test_cursors_follow_what_was_claimed_a_while_ago():
    looks = Looks().slow_ones()
    look = looks.next()
    turn = looks.cursors.turns[0]
    assert 15 <= turn < 20
    assert ranges(look) in (None, [Range(100, 1, 0), Range(0, 0, turn), EVERY_BELOW])
    looks.bring(job(21))
    assert looks.cursors.turns[0] < 21, "a job behind it may commit late"


EVERY_BELOW = Range(-1, -100, 0)


def test_cursors_follow_at_once_what_was_enqueued_a_while_ago():
    looks = Looks().slow_ones()
    looks.bring(*(job(turn, seconds_ago=5.0) for turn in (500, 501, 502, 503)))
    assert looks.cursors.turns == {0: 503}


def test_cursor_never_passes_the_last_job_that_a_full_look_has_claimed():
    looks = Looks().slow_ones()
    looks.bring(*(job(500 + n, seconds_ago=5.0) for n in range(4)))
    assert looks.cursors.turns == {0: 503}
    looks.now = looks.cursors.rewind_at
    old = [job(n, priority=n // 3, seconds_ago=50.0) for n in (7, 3, 4, 2)]
    assert looks.bring(*old).is_complete
    # Behind turn 2 of priority 0 older jobs may stand; of priority 1 there are none.
    assert looks.cursors.turns == {0: 2, 1: 503, 2: 503}


@pytest.mark.parametrize("what", [{"met_suspect": True}, {"has_more": True}])
def test_complete_look_that_ended_early_leaves_no_cursor(what):
    looks = Looks().slow_ones()
    looks.now = looks.cursors.rewind_at
    assert looks.bring(job(30, seconds_ago=5.0), **what).is_complete
    assert not looks.cursors.are_set


def test_worker_rewinds_every_two_seconds_or_when_jobs_may_have_come_in_before():
    looks = Looks().slow_ones()
    looks.now = looks.cursors.rewind_at
    assert looks.bring().is_complete
    looks.now += 1.9
    assert not looks.next().is_complete
    looks.now += 0.2
    assert looks.bring().is_complete
    assert not looks.next().is_complete
    looks.now += 0.05
    looks.cursors.invalidate()
    assert looks.next().is_complete


def test_complete_looks_take_no_more_than_a_fifth_of_the_time_after_invalidations():
    looks = Looks().slow_ones()
    looks.now = looks.cursors.rewind_at
    looks.bring(seconds=10.0)
    looks.now += 39.9
    looks.cursors.invalidate()
    assert not rewinds(looks.next())
    looks.now += 0.2
    assert rewinds(looks.next())


def test_worker_rewinds_early_to_jobs_that_were_passed_over():
    looks = Looks().slow_ones()
    looks.now = looks.cursors.rewind_at
    looks.bring(job(30), seconds=0.1, met_locked=True)
    assert looks.cursors.are_set
    looks.now += 0.39
    assert not rewinds(looks.next())
    looks.now += 0.02
    assert rewinds(looks.next())


def test_complete_look_begins_at_most_a_poll_after_the_one_before_it():
    looks = Looks(poll=15.0).slow_ones()
    looks.now = looks.cursors.rewind_at
    looks.bring(seconds=10.0)
    looks.now += 5.1
    assert rewinds(looks.next())


def test_job_that_must_run_alone_is_looked_for_everywhere():
    looks = Looks().slow_ones()
    looks.now = looks.cursors.rewind_at
    looks.bring()
    assert looks.next(must_see_all=True).is_complete


def test_cursors_are_forgotten_once_complete_looks_are_quick_again():
    looks = Looks().slow_ones()
    number = 0
    while looks.cursors.are_set:
        assert number < 60
        looks.bring(seconds=0.0001)
        looks.now += 0.5
        number += 1
    assert number > 3
    assert not looks.cursors.is_collecting


def test_slow_looks_among_quick_ones_leave_no_cursors():
    looks = Looks()
    for number in range(300):
        looks.bring(job(number), seconds=0.0001 if number % 3 else 0.01)
        looks.now += 0.1
        assert not looks.cursors.is_collecting


def test_looks_that_bring_many_jobs_may_take_longer():
    cursors = ClaimCursors(POLL)
    many = brought(*(job(n) for n in range(200)), seconds=0.004)
    for _ in range(100):
        cursors.looked(cursors.next_look(200, 0.0), many, 200, 0.0)
    assert not cursors.is_collecting


def test_worker_that_minds_units_looks_into_each_queue_and_has_no_cursors():
    looks = Looks(minds_units=True)
    for turn in range(1, 50):
        assert looks.bring(job(turn)).by_queue
        looks.now += 1.0


def test_look_that_leaves_jobs_of_limited_queues_moves_no_cursor():
    looks = Looks().slow_ones()
    before = dict(looks.cursors.turns)
    looks.cursors.looked(plain_look(4), brought(job(100)), 4, looks.now)
    assert looks.cursors.turns == before


# When complete looks are made in parts


def looks_in_parts(poll: float = POLL) -> Looks:
    """Return looks at cursors of the priorities 0 and 1, when the first part is due."""
    looks = Looks(poll).slow_ones()
    looks.bring(*(job(500 + n, n % 2, seconds_ago=5.0) for n in range(4)))
    looks.bring(seconds=0.0005)
    looks.now = looks.cursors.rewind_at
    assert looks.bring(seconds=0.1).is_complete
    looks.now = looks.cursors.rewind_at
    assert looks.next().is_part
    return looks


def test_looks_in_parts_go_everywhere_and_the_last_one_reports_overdue_jobs():
    looks = looks_in_parts()
    reported, turns = [], set()
    while looks.next().is_part:
        look = looks.bring(seconds=0.001)
        reported.append(look.sees_overdue)
        for each in look.ranges:
            last = 1_000 if each.last_turn is None else each.last_turn
            turns |= {
                (priority, turn)
                for priority in range(each.lowest, each.highest + 1)
                for turn in range(each.first_turn, last + 1)
            }
        looks.now = min(looks.cursors.rewind_at, looks.now + 1.0)
    assert len(turns) == 201 * 1_001
    assert reported == [False] * (len(reported) - 1) + [True]
    assert len(reported) > 1


def test_worker_rests_after_each_part():
    looks = looks_in_parts()
    looks.bring(seconds=0.003)
    assert not rewinds(looks.next())
    looks.now += 0.0119
    assert not rewinds(looks.next())
    looks.now += 0.0002
    assert rewinds(looks.next())


@pytest.mark.parametrize("what", [{"met_suspect": True}, {"has_more": True}])
def test_part_comes_again_after_a_look_that_did_not_see_all_of_it(what):
    looks = looks_in_parts()
    part = looks.cursors.rewind.part
    looks.bring(job(40), seconds=0.001, **what)
    assert looks.cursors.rewind.part == part
    assert not rewinds(looks.next()), "it does not burden each look"
    looks.cursors.invalidate()
    assert not rewinds(looks.next())
    looks.now = looks.cursors.rewind_at
    assert looks.next().is_part


def test_complete_look_follows_if_no_look_sees_a_part_for_a_poll():
    looks = looks_in_parts()
    end = looks.now + POLL
    while looks.now < end:
        assert looks.bring(job(40), seconds=0.1, has_more=True).is_part
        looks.now = looks.cursors.rewind_at
    assert looks.bring().is_complete
    looks.now = looks.cursors.rewind_at
    assert looks.next().is_part


@pytest.mark.parametrize(
    "claimed, cursors",
    [
        # The look ended in the part: the next ones begin where it ended.
        ([job(turn) for turn in (40, 41, 42, 43)], {0: 43, 1: 903}),
        ([job(turn, priority=1) for turn in (40, 41, 42, 43)], {0: 903, 1: 43}),
        # It saw all of the part, or all of its higher priority.
        ([job(turn, priority=1) for turn in (900, 901, 902, 903)], {0: 903, 1: 903}),
        ([job(turn) for turn in (900, 901, 902, 903)], {0: 903, 1: 903}),
        ([job(40)], {0: 903, 1: 903}),
    ],
)
def test_full_look_moves_the_cursors_back_to_where_it_ended(claimed, cursors):
    looks = looks_in_parts()
    looks.bring(*(job(900 + n, n % 2, seconds_ago=5.0) for n in range(4)))
    looks.bring(job(903, 1, seconds_ago=5.0), job(903, seconds_ago=5.0))
    while looks.cursors.rewind.part.first:
        looks.now = looks.cursors.rewind_at
        looks.bring(seconds=0.003)
    looks.now = looks.cursors.rewind_at
    assert looks.bring(*claimed, seconds=0.003).is_part
    assert looks.cursors.turns == cursors


def test_full_complete_look_keeps_the_cursors_of_lower_priorities():
    looks = looks_in_parts()
    looks.bring(*(job(900 + n, n % 2, seconds_ago=5.0) for n in range(4)))
    looks.now = looks.cursors.stuck_at
    urgent = [job(950 + n, priority=1, seconds_ago=5.0) for n in range(4)]
    assert looks.bring(*urgent).is_complete
    assert looks.cursors.turns == {0: 503, 1: 953}


def test_look_ahead_without_cursors_does_not_wait_for_a_slot():
    looks = Looks()
    look = looks.cursors.next_look(0, looks.now, ahead=3)
    looks.cursors.looked(look, brought(), 0, looks.now)
    assert not looks.cursors.needs_slot


def test_look_ahead_that_brings_nothing_waits_for_a_slot():
    looks = looks_in_parts()
    cursors, part = looks.cursors, looks.cursors.rewind.part
    look = cursors.next_look(0, looks.now, ahead=3)
    assert look.is_part
    cursors.looked(look, brought(seconds=0.001), 0, looks.now)
    assert cursors.needs_slot
    cursors.looked(cursors.next_look(0, looks.now), brought(), 0, looks.now)
    assert cursors.needs_slot, "to record brings no slot"
    assert looks.bring(seconds=0.001).is_part
    assert not cursors.needs_slot
    assert cursors.rewind.part != part


def test_look_ahead_that_brings_jobs_passes_its_part():
    looks = looks_in_parts()
    cursors, part = looks.cursors, looks.cursors.rewind.part
    look = cursors.next_look(0, looks.now, ahead=3)
    cursors.looked(look, brought(job(900), seconds=0.001), 0, looks.now)
    assert not cursors.needs_slot
    assert cursors.rewind.part != part


def test_statement_that_only_records_changes_no_plan_of_looks():
    looks = looks_in_parts()
    looks.bring(seconds=0.001)
    rewind_at = looks.cursors.rewind_at
    looks.cursors.looked(looks.cursors.next_look(0, 10.0), brought(), 0, 10.0)
    assert looks.cursors.rewind_at == rewind_at


@pytest.mark.parametrize("seconds_of_a_job", [0.05, 1.0, 7.0])
def test_busy_worker_has_rewound_after_two_polls_and_a_job(seconds_of_a_job):
    """It makes one look for each job, so it may not wait for a look for each part."""
    looks = looks_in_parts(poll=5.0)
    rewind = looks.cursors.rewind
    while len(rewind.left) < 30 or rewind.is_under_way:
        looks.bring(seconds=0.1 if looks.next().is_part else 0.0005)
        looks.now = looks.cursors.rewind_at
    seen, begun_at = 0, looks.now
    while not seen:
        look = looks.next()
        part = looks.cursors.rewind.part if look.is_part else None
        looks.bring(*(job(2_000 + n) for n in range(4)), seconds=0.003)
        seen = look.is_complete or (part is not None and not part.first)
        looks.now += seconds_of_a_job
    assert looks.now - begun_at <= 2 * 5.0 + seconds_of_a_job


def wait_after_rewind(looks: Looks, **what) -> float:
    """Make the rest of a rewind; return when the next one is due, in seconds."""
    is_last = False
    while not is_last:
        looks.now = looks.cursors.rewind_at
        look = looks.bring(seconds=0.003, **what)
        assert look.is_part
        is_last, what = look.sees_overdue, {}
    return looks.cursors.rewind_at - looks.now


def test_rewind_follows_at_once_if_jobs_may_have_come_in_during_the_last_one():
    assert wait_after_rewind(looks_in_parts()) == module.REWIND_SECONDS
    looks = looks_in_parts()
    assert wait_after_rewind(looks, met_locked=True) < 0.1
    assert wait_after_rewind(looks) == module.REWIND_SECONDS
    looks = looks_in_parts()
    looks.bring(seconds=0.003)
    looks.cursors.invalidate()
    assert not rewinds(looks.next()), "first this one ends"
    assert wait_after_rewind(looks) < 0.1


def test_rewind_begins_at_most_a_poll_after_the_one_before_it_has_begun():
    looks = looks_in_parts(poll=1.0)
    begun_at = looks.now
    wait_after_rewind(looks)
    assert looks.cursors.rewind_at <= begun_at + 1.0


# When a look was cut short


def test_look_that_was_cut_short_is_followed_by_longer_and_longer_ones():
    looks = Looks()
    cut = {"has_more": True, "is_crowded": True}
    taken = [looks.bring(seconds=0.0001, **cut) for _ in range(5)]
    assert [look.by_queue for look in taken] == [False, False, True, True, True]
    assert [look.is_long for look in taken][:2] == [False, True]
    assert taken[4].reach == 4 * taken[3].reach == 16 * taken[2].reach
    assert looks.bring(seconds=0.0001).reach == 4 * taken[4].reach
    assert looks.next().reach == taken[0].reach


def test_looks_stay_long_for_a_while_after_one_was_cut_short():
    looks = Looks()
    for has_more in (True, False):
        looks.bring(seconds=0.0001, has_more=has_more, is_crowded=has_more)
    assert looks.next().is_long
    for has_more in (True, False):
        looks.bring(seconds=0.0001, has_more=has_more, is_crowded=has_more)
    assert looks.next().by_queue
    looks.now += module.CROWDED_SECONDS
    assert looks.next() == first_look(4)


def test_worker_whose_rivals_were_faster_goes_on_along_the_line():
    looks = Looks()
    for _ in range(3):
        assert not looks.bring(job(1), seconds=0.0001, has_more=True).by_queue
    assert looks.cursors.next_look(50, looks.now).reach > 50, "whatever it was before"
    looks.bring(seconds=0.0001, has_more=True)
    looks.bring(seconds=0.0001, has_more=True)
    assert looks.bring(job(1), seconds=0.0001).by_queue, "it sees the end of the line"
    assert not looks.next().by_queue


@shared_queue
def test_claim_beside_one_in_progress_takes_the_jobs_behind_it_in_one_look():
    jobs = enqueue_many([tasks.noop.bind() for _ in range(400)])
    cursors, hand, taken = ClaimCursors(POLL), Hand("one"), []
    with session() as rivals:
        rival = Hand("two", execute=rivals.execute)
        for _ in range(2):
            rivals.begin()
            rival.record_and_claim(limit=100, look=first_look(100))
            look = cursors.next_look(100, 0.0)
            claimed = hand.record_and_claim(limit=100, look=look)
            cursors.looked(look, claimed, 100, 0.0)
            taken += [each.id for each in claimed.jobs]
            rivals.commit()
            assert not (look.by_queue or look.is_long or claimed.has_more)
    ids = [each.pk for each in jobs]
    assert taken == ids[100:200] + ids[300:]


def test_worker_without_room_does_not_look():
    looks = Looks()
    looks.bring(has_more=True)
    assert looks.cursors.next_look(0, looks.now).reach == 0
    assert looks.next().is_long, "the one that follows is not forgotten"


@pytest.mark.parametrize(
    ("cursors", "expected"),
    [
        ({}, [(100, -100, 0)]),
        ({100: 7, -100: 8}, [(100, 100, 7), (99, -99, 0), (-100, -100, 8)]),
        (
            {0: 5, 1: 4, 7: 3},
            [(100, 8, 0), (7, 7, 3), (6, 2, 0), (1, 1, 4), (0, 0, 5), (-1, -100, 0)],
        ),
    ],
)
def test_ranges_skip_only_what_stands_before_the_cursors(cursors, expected):
    assert list(ranges_from(cursors)) == [Range(*each) for each in expected]


def test_look_takes_a_part_of_what_stands_before_each_cursor_along():
    ranges = ranges_from({0: 50, 1: 120, 7: 100}, Part(100, 149))
    assert [each for each in ranges if each.first_turn] == [
        Range(7, 7, 100),  # nothing of the part stands before this cursor
        Range(1, 1, 100, 119),
        Range(1, 1, 120),
        Range(0, 0, 50),
    ]


def test_complete_look_has_the_range_of_all_priorities():
    assert list(EVERYWHERE) == list(ranges_from({}))
