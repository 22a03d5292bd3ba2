"""When and where a worker fetches jobs: it overlooks none."""

from datetime import timedelta
from math import inf

import psycopg
import pytest

from pgjobs import enqueue, enqueue_many
from pgjobs.models import Job, Queue
from pgjobs.queue.claiming import (
    LONGEST_SCAN,
    PRIORITIES,
    Claimed,
    ClaimedJob,
    Fetch,
    Range,
    first_fetch,
)
from pgjobs.worker import fetch_rule as module
from pgjobs.worker.fetch_rule import FIRST_PAUSE, FetchRule, ranges_from
from pgjobs.worker.in_flight import InFlight
from pgjobs.worker.observer import WorkerObserver
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
NOW = 100.0
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
WHERE status = 'SCHEDULED' AND run_after < clock_timestamp() - interval '1.1 s'
"""
SLOW = 0.01


@pytest.fixture
def slow(monkeypatch):
    """Let every fetch count as slow; the test says how often there is one."""
    monkeypatch.setattr(FetchRule, "remember_ended", remember_all)
    plan_rescan = FetchRule.plan_rescan

    def every(pause: float) -> None:
        def plan_after_slow_one(rule, claimed, now):
            plan_rescan(rule, claimed._replace(seconds=SLOW), now)

        monkeypatch.setattr(module, "RESCAN_PAUSE", pause / SLOW)
        monkeypatch.setattr(FetchRule, "plan_rescan", plan_after_slow_one)

    every(NEVER)
    return every


def remember_all(rule: FetchRule, claimed: Claimed, now: float) -> None:
    """Take all transactions before a claimed job for ended."""
    rule.ended = max([rule.ended, *(job.turn for job in claimed.jobs)])


def set_cursors(loop, *priorities: int) -> None:
    """Return when fetches begin behind all jobs of these priorities, or of 0."""
    last = Job.objects.values_list("turn", flat=True).get(pk=enqueue(tasks.noop).pk)
    priorities = priorities or (0,)

    def are_set():
        for priority in priorities:
            enqueue(tasks.noop.using(priority=priority))
        turns = loop.claimer.rule.cursors
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
        assert loop.claimer.rule.cursors


@shared_queue
@pytest.mark.usefixtures("slow")
def test_worker_at_its_cursors_finds_what_it_promotes():
    with running_worker(poll=NEVER) as loop:
        job = enqueue(tasks.noop.using(run_after=timedelta(seconds=0.3)))
        set_cursors(loop)
        wait_for_status(job, "SUCCESSFUL")
        assert loop.claimer.rule.cursors


@pytest.mark.listening
@shared_queue
@pytest.mark.usefixtures("slow")
def test_nudged_worker_fetches_before_its_cursors():
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
def test_worker_goes_back_to_what_was_put_back_before_its_cursors(slow):
    slow(0.1)
    old = enqueue(tasks.noop)
    with running_worker(poll=NEVER) as loop:
        set_cursors(loop)
        wait_for_status(old, "SUCCESSFUL")
        assert old.retry()
        wait_for_status(old, "SUCCESSFUL")
        assert loop.claimer.rule.cursors


@shared_queue
@pytest.mark.usefixtures("slow")
def test_worker_never_goes_back_later_than_it_polls():
    old = enqueue(tasks.noop)
    with running_worker(poll=0.5) as loop:
        set_cursors(loop)
        wait_for_status(old, "SUCCESSFUL")
        assert old.retry()
        wait_for_status(old, "SUCCESSFUL")


@shared_queue
@pytest.mark.usefixtures("slow")
def test_worker_that_has_gone_back_once_runs_all_that_was_before_its_cursors():
    old = enqueue_many([tasks.noop.bind() for _ in range(30)])
    with running_worker(poll=NEVER, slots=2) as loop:
        set_cursors(loop)
        wait_for_all("SUCCESSFUL")
        assert Job.objects.filter(pk__in=[job.pk for job in old]).retry().changed == 30
        loop.nudge()
        wait_for_all("SUCCESSFUL")


@shared_queue
def test_worker_goes_back_to_what_was_committed_late(slow):
    slow(0.2)
    with session() as late, running_worker(poll=NEVER) as loop:
        late.begin()
        late.execute(INSERT)
        set_cursors(loop)
        late.commit()
        wait_for(Job.objects.exclude(status="SUCCESSFUL").exists)
        wait_for_all("SUCCESSFUL")
        assert loop.claimer.rule.cursors


@shared_queue
def test_busy_worker_promotes_what_was_scheduled_and_committed_late(slow):
    slow(0.1)
    with session() as late, running_worker(poll=NEVER) as loop:
        late.begin()
        late.execute(INSERT_SCHEDULED)
        set_cursors(loop)
        wait_for(lambda: late.execute(IS_DUE))
        late.commit()

        def is_promoted():
            enqueue(tasks.noop)  # so the worker fetches each millisecond
            return not Job.objects.scheduled().exists()

        wait_for(is_promoted, "the overdue job is promoted")
        assert loop.claimer.rule.cursors


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
def test_drain_ends_only_after_a_rescan(slow):
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


@shared_queue
def test_worker_finds_what_a_rival_has_promoted(slow):
    slow(NEVER)
    with running_worker(poll=NEVER) as loop:
        later = enqueue(tasks.noop.using(run_after=timedelta(seconds=0.5)))
        set_cursors(loop)
        promotion = loop.upkeep.promotion
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
        wait_for_all("SUCCESSFUL")
        # All fetches are full, and end at priority 0.
        enqueue_many([tasks.sleep.bind(0.01) for _ in range(2_000)])
        wait_for(Job.objects.running().exists)
        late.commit()
        wait_for_status(Job.objects.get(pk=urgent), "SUCCESSFUL")
        assert Job.objects.ready().exists()


@shared_queue
def test_worker_whose_slots_are_never_free_finds_what_is_put_back(slow):
    """It prefetches, but a retry may not wait in a worker."""
    slow(0.1)
    old = enqueue(tasks.noop)
    with running_worker(poll=1.0, slots=2, prefetch="auto") as loop:
        enqueue_many([tasks.sleep.bind(0.001) for _ in range(100)])
        set_cursors(loop)
        wait_for_all("SUCCESSFUL")
        enqueue_many([tasks.sleep.bind(0.001) for _ in range(10_000)])
        wait_for(Job.objects.running().exists)
        assert old.retry()
        wait_for_status(old, "SUCCESSFUL")
        assert Job.objects.ready().exists()


@shared_queue
def test_admission_passes_beside_fetches_at_cursors(slow, caplog):
    slow(0.1)
    with running_worker(poll=NEVER) as loop:
        set_cursors(loop)
        wait_for_all("SUCCESSFUL")
        enqueue_many([tasks.sleep.using(lock="one").bind(0.01) for _ in range(50)])
        wait_for_all("SUCCESSFUL")
    assert "admit" not in caplog.text


@shared_queue
def test_worker_that_has_given_up_a_job_ends_after_a_rescan(slow):
    slow(0.1)
    with running_worker(poll=NEVER) as loop:
        set_cursors(loop)
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
        unfinished = Job.objects.exclude(status="SUCCESSFUL")
        wait_for(lambda: unfinished.count() == 1 == len(loop.in_flight.jobs))
        monkeypatch.setattr(InFlight, "is_stuck", True)
        wait_for(lambda: loop.is_done or loop.phase == "stopped", "it ends")
        tasks.let_go(path)


@shared_queue
def test_fetches_at_cursors_are_no_polls(slow, monkeypatch):
    polls = []
    with running_worker(poll=NEVER) as loop:
        set_cursors(loop)
        observer = WorkerObserver()
        observer.polled = lambda: polls.append(1)  # type: ignore[method-assign]
        monkeypatch.setattr(loop.claimer.recorder, "observers", [observer])
        for _ in range(20):
            wait_for_status(enqueue(tasks.noop), "SUCCESSFUL")
        assert polls == []


# What a fetch at cursors brings


@shared_queue
def test_fetch_at_cursors_brings_the_same_in_the_same_order():
    for priority in (0, 5, -5, 0, 5, -5):
        enqueue(tasks.noop.using(priority=priority))
    everywhere = Hand("one").record_and_claim(limit=9).jobs
    Job.objects.update(status="READY", worker=None)
    fetch = Fetch(9, ranges=list(ranges_from({0: 1, -5: 1})))
    at_cursors = Hand("two").record_and_claim(limit=9, fetch=fetch).jobs
    assert [job.id for job in at_cursors] == [job.id for job in everywhere]
    assert [job.priority for job in at_cursors] == [5, 5, 0, 0, -5, -5]


@shared_queue
def test_fetch_at_cursors_leaves_a_limited_queue_to_a_fetch_by_queue():
    Queue.objects.create(name="default", max_running=1)
    first = enqueue(tasks.noop.using(priority=9, queue_name="other"))
    for priority in (0, 5, -5):
        enqueue(tasks.noop.using(priority=priority))
    fetch = Fetch(9, ranges=list(ranges_from({0: 1, -5: 10**9})))
    claimed = Hand("one").record_and_claim(limit=9, fetch=fetch)
    assert ([job.id for job in claimed.jobs], claimed.has_more) == ([first.pk], True)
    claimed = Hand("two").record_and_claim(limit=9, fetch=fetch.further())
    assert [job.priority for job in claimed.jobs] == [5]
    assert claimed.met_locked


# When there are cursors


def job(turn: int, priority: int = 0, waited: float | None = None) -> ClaimedJob:
    columns = dict.fromkeys(ClaimedJob._fields, 0)
    columns |= {"turn": turn, "priority": priority, "max_crashes": 3, "waited": waited}
    return ClaimedJob(**columns)


def brought(*jobs: ClaimedJob, seconds: float = SLOW, **what: bool) -> Claimed:
    nothing = dict.fromkeys(Claimed._fields, False)
    nothing |= {"seconds": seconds, "jobs": list(jobs), "next_due": None}
    return Claimed(**(nothing | what))


class Fetches:
    """A worker's fetches for 4 jobs, at times that the test chooses."""

    def __init__(self, poll: float = POLL, **how):
        self.rule = FetchRule(poll, **how)
        self.now = 100.0

    def next(self, **how) -> Fetch:
        return self.rule.next_fetch(4, self.now, **how)

    def bring(self, *jobs: ClaimedJob, **what) -> Fetch:
        """Let the next fetch bring this; return the fetch."""
        fetch = self.next()
        self.rule.fetched(fetch, brought(*jobs, **what), 4, self.now)
        return fetch

    def slow_ones(self) -> "Fetches":
        """Let the latest fetches have been slow, and return when there are cursors."""
        for turn in range(1, 21):
            self.bring(job(turn))
            self.now += 1.0
        assert self.rule.cursors
        return self

    def complete(self, *jobs: ClaimedJob, **what) -> "Fetches":
        """Let a complete fetch bring this."""
        self.now = max(self.now, self.rule.rescan_at)
        assert self.bring(*jobs, **what).is_complete
        return self


EVERY_BELOW = Range(-1, -100, 0)


def test_cursors_follow_what_was_claimed_a_while_ago():
    fetches = Fetches().slow_ones()
    turn = fetches.rule.cursors[0]
    assert 15 <= turn <= 20
    fetches.complete()
    turn = fetches.rule.cursors[0]
    assert turn in (19, 20)
    here = Range(0, 0, turn)
    assert list(fetches.next().ranges) == [Range(100, 1, 0), here, EVERY_BELOW]
    fetches.bring(job(21))
    assert fetches.rule.cursors[0] < 21, "a job behind it may commit late"


def test_cursors_follow_at_once_what_was_enqueued_a_while_ago():
    fetches = (
        Fetches().slow_ones().complete(*(job(500 + n, waited=5.0) for n in range(4)))
    )
    assert fetches.rule.cursors == {0: 503}
    fetches.bring(*(job(600 + n, waited=5.0) for n in range(4)))
    assert fetches.rule.cursors == {0: 603}


def test_cursor_never_passes_the_last_job_that_a_full_fetch_has_claimed():
    fetches = (
        Fetches().slow_ones().complete(*(job(500 + n, waited=5.0) for n in range(4)))
    )
    old = [job(n, priority=n // 3, waited=50.0) for n in (7, 3, 4, 2)]
    fetches.complete(*old)
    # Behind turn 2 of priority 0 older jobs may stand; of priority 1 there are none.
    assert fetches.rule.cursors == {0: 2, 1: 503, 2: 503}


def test_full_fetch_keeps_the_cursors_of_lower_priorities():
    fetches = (
        Fetches().slow_ones().complete(*(job(500 + n, waited=5.0) for n in range(4)))
    )
    urgent = [job(950 + n, priority=1, waited=5.0) for n in range(4)]
    fetches.complete(*urgent)
    assert fetches.rule.cursors == {0: 503, 1: 953}


@pytest.mark.parametrize("what", [{"met_last_chance": True}, {"has_more": True}])
def test_rescan_that_ended_early_leaves_no_cursor(what):
    fetches = Fetches().slow_ones().complete(job(30, waited=5.0), **what)
    assert not fetches.rule.cursors


def test_fetch_that_only_prefetches_and_brings_nothing_moves_no_cursor():
    """The first READY job may need a slot at once."""
    fetches = Fetches().slow_ones()
    before = dict(fetches.rule.cursors)
    fetch = fetches.rule.next_fetch(3, fetches.now)
    fetches.rule.fetched(fetch, brought(), 0, fetches.now)
    assert fetches.rule.cursors == before


def test_fetch_past_the_jobs_of_limited_queues_moves_no_cursor():
    fetches = Fetches().slow_ones()
    before = dict(fetches.rule.cursors)
    past = Fetch(LONGEST_SCAN, skips_special=True)
    fetches.rule.fetched(past, brought(job(100, waited=5.0)), 4, fetches.now)
    assert fetches.rule.cursors == before


def test_fetch_that_may_have_stopped_at_an_isolated_job_moves_no_cursor():
    fetches = Fetches().slow_ones()
    before = dict(fetches.rule.cursors)
    fetch, old = fetches.next(), brought(job(100, waited=5.0))
    fetches.rule.fetched(fetch, old, 4, fetches.now, processes=0)
    assert fetches.rule.cursors == before
    fetches.rule.fetched(fetch, old, 4, fetches.now, processes=1)
    assert fetches.rule.cursors != before


def test_worker_pauses_forty_times_as_long_as_a_rescan_took():
    fetches = Fetches().slow_ones().complete(seconds=0.01).complete(seconds=0.01)
    fetches.now += 0.39
    assert not fetches.next().is_complete
    fetches.now += 0.02
    assert fetches.next().is_complete


def test_worker_rests_only_as_long_as_a_fetch_took_if_jobs_may_have_come_in():
    fetches = Fetches().slow_ones().complete(seconds=0.01).complete(seconds=0.01)
    fetches.rule.rescan_soon(fetches.now)
    fetches.now += 0.009
    assert not fetches.next().is_complete
    fetches.now += 0.002
    assert fetches.next().is_complete


def test_rescan_begins_at_most_a_poll_after_the_one_before_it():
    fetches = (
        Fetches(poll=15.0).slow_ones().complete(seconds=10.0).complete(seconds=10.0)
    )
    fetches.now += 5.1
    assert fetches.next().is_complete


def test_job_that_must_run_alone_is_sought_everywhere():
    fetches = Fetches().slow_ones()
    assert fetches.next(must_see_all=True).is_complete


def test_cursors_are_forgotten_once_a_rescan_is_quick_again():
    fetches = Fetches().slow_ones().complete(seconds=0.0001)
    assert not fetches.rule.cursors


def test_slow_fetches_among_quick_ones_leave_no_cursors():
    fetches = Fetches()
    for number in range(300):
        seconds = 0.0001 if number % 2 else 0.01
        assert fetches.bring(job(number), seconds=seconds).is_complete
        fetches.now += 0.1


def test_fetches_that_bring_many_jobs_may_take_longer():
    fetches = Fetches()
    for _ in range(100):
        many = [job(n) for n in range(200)]
        assert fetches.bring(*many, seconds=0.005).is_complete


def test_worker_that_minds_units_fetches_into_each_queue_and_has_no_cursors():
    fetches = Fetches(minds_units=True)
    for turn in range(1, 50):
        assert fetches.bring(job(turn)).by_queue
        fetches.now += 1.0
    assert not fetches.rule.cursors


def test_statement_that_only_records_changes_no_plan_of_fetches():
    fetches = Fetches().slow_ones().complete()
    rescan_at = fetches.rule.rescan_at
    fetches.rule.fetched(fetches.rule.next_fetch(0, 10.0), brought(), 0, 10.0)
    assert fetches.rule.rescan_at == rescan_at


# When a fetch was cut short

CUT = {"has_more": True, "is_starved": True, "seconds": 0.0001}


def test_fetches_by_queue_follow_one_that_was_cut_short_for_a_while():
    fetches = Fetches()
    assert not fetches.bring(**CUT).by_queue
    assert fetches.bring(job(1), seconds=0.0001).by_queue
    assert fetches.next().by_queue
    fetches.now += module.MOMENT
    assert fetches.next() == first_fetch(4)


def test_fetch_that_was_cut_short_at_the_cursors_forgets_them():
    fetches = Fetches().slow_ones()
    fetches.complete()
    assert not fetches.bring(**CUT).is_complete
    assert fetches.next().by_queue
    assert not fetches.rule.cursors


def test_worker_whose_rivals_were_faster_goes_on_in_claim_order():
    fetches = Fetches()
    for _ in range(3):
        assert not fetches.bring(job(1), seconds=0.0001, has_more=True).by_queue
    fetches.bring(seconds=0.0001, has_more=True)
    assert fetches.next().by_queue, "it sees all READY jobs"


@shared_queue
def test_claim_beside_one_in_progress_takes_the_jobs_behind_it_in_one_fetch():
    jobs = enqueue_many([tasks.noop.bind() for _ in range(400)])
    rule, hand, taken = FetchRule(POLL), Hand("one"), []
    with session() as rivals:
        rival = Hand("two", execute=rivals.execute)
        for _ in range(2):
            rivals.begin()
            rival.record_and_claim(limit=100, fetch=first_fetch(100))
            fetch = rule.next_fetch(100, 0.0)
            claimed = hand.record_and_claim(limit=100, fetch=fetch)
            rule.fetched(fetch, claimed, 100, 0.0)
            taken += [job.id for job in claimed.jobs]
            rivals.commit()
            assert not (fetch.by_queue or claimed.has_more)
    ids = [job.pk for job in jobs]
    assert taken == ids[100:200] + ids[300:]


# When a worker fetches again


def after(*jobs: ClaimedJob, limit: int = 2, rule: FetchRule | None = None, **what):
    """Return the rule after a quick fetch for two jobs that brought this."""
    rule = rule or FetchRule(POLL)
    fetch = first_fetch(limit)
    rule.fetched(fetch, brought(*jobs, seconds=0.0, **what), limit, NOW)
    return rule


def last_chance() -> ClaimedJob:
    return job(1)._replace(crashes=2)


def test_new_rule_wants_a_fetch_at_once():
    rule = FetchRule(POLL)
    assert rule.due_for(is_idle=False) <= 0.0
    assert not rule.is_empty


def test_empty_fetch_is_followed_by_a_poll():
    rule = after()
    assert rule.is_empty
    assert rule.due_for(is_idle=True) > NOW + 0.8 * POLL - 1
    assert rule.due_for(is_idle=True) <= NOW + POLL
    assert rule.poll_at <= NOW + POLL


@pytest.mark.parametrize(
    "rule",
    [
        pytest.param(after(job(1), job(2)), id="as many jobs as were asked for"),
        pytest.param(after(job(1), job(2), job(3)), id="some prefetched, too"),
        pytest.param(after(has_more=True), id="the fetch was cut short"),
    ],
)
def test_fetch_that_did_not_show_all_is_followed_by_another_one_at_once(rule):
    assert rule.due_for(is_idle=False) <= NOW
    assert not rule.is_empty


@pytest.mark.parametrize("isolated", [1, 0])
def test_fetch_that_may_have_stopped_at_an_isolated_job_is_followed_by_one(isolated):
    rule = FetchRule(POLL)
    fetch = first_fetch(2)._replace(isolated=isolated)
    rule.fetched(fetch, brought(job(1), seconds=0.0), 2, NOW, processes=0)
    assert rule.may_hold_more == (isolated > 0)


def test_fetch_that_brought_fewer_jobs_than_asked_for_has_shown_all():
    assert after(job(1)).is_empty


def test_last_chance_is_claimed_once_the_worker_is_idle():
    rule = after(job(1), met_last_chance=True)
    assert rule.due_for(is_idle=False) > NOW
    assert rule.due_for(is_idle=True) <= NOW
    assert not rule.is_empty
    assert not after(last_chance(), met_last_chance=True).waits_for_idle, (
        "it came along"
    )


@pytest.mark.parametrize("why", ["met_locked", "met_expired"])
def test_fetches_that_passed_over_a_job_become_rarer_until_one_brings_a_job(why):
    fetches, waits = Fetches(), []
    for _ in range(12):
        fetches.bring(seconds=0.0, **{why: True})
        assert not fetches.rule.is_empty
        waits.append(fetches.rule.due - fetches.now)
        fetches.now = fetches.rule.due
    assert waits[::4] == sorted(waits[::4])
    assert waits[0] == pytest.approx(FIRST_PAUSE, rel=0.2)
    assert waits[-1] == pytest.approx(module.MOMENT, rel=0.2)
    fetches.bring(job(1), seconds=0.0, **{why: True})
    assert fetches.rule.due - fetches.now == pytest.approx(FIRST_PAUSE, rel=0.2)
    fetches.bring(seconds=0.0)
    assert fetches.rule.is_empty


def test_partial_fetch_is_not_taken_for_the_end_of_the_queue():
    fetches = Fetches().slow_ones().complete(seconds=0.01).complete(seconds=0.01)
    assert fetches.rule.is_empty
    fetches.bring(seconds=0.0)
    assert not fetches.rule.is_empty
    assert fetches.rule.due == fetches.rule.rescan_at
    fetches.complete()
    assert fetches.rule.is_empty


def test_fetch_that_only_prefetches_says_nothing_about_the_next():
    assert after(limit=0).due == -inf


def test_survey_that_saw_no_job_postpones_the_poll():
    rule = after()
    rule.saw_none(now=NOW + 30)
    assert NOW + 30 + 0.8 * POLL <= rule.due <= NOW + 30 + POLL
    rule.saw_none(now=NOW + 31, least=1.2 * POLL)
    assert rule.due == NOW + 31 + 1.2 * POLL, "it is known again by then"
    rule.saw_none(now=NOW + 32, least=2 * POLL)
    assert rule.due <= NOW + 32 + POLL, "a worker that is to poll often does"


@pytest.mark.parametrize("why", ["is_partial", "waits_for_idle", "passed_over"])
def test_survey_does_not_postpone_a_fetch_that_has_to_see_more(why):
    """A drain ends only after such a fetch, however often others see no job."""
    rule = after()
    if why == "passed_over":
        rule.passed_over.failed(NOW)
    else:
        setattr(rule, why, True)
    rule.due = NOW + 0.02
    rule.saw_none(now=NOW)
    assert rule.due == NOW + 0.02


def test_events_make_a_fetch_due():
    rule = after()
    rule.wake()
    assert rule.due_for(is_idle=False) <= NOW
    rule = after()
    rule.rescan_soon(NOW)
    assert rule.due_for(is_idle=False) <= NOW


# When fetches by queue fail


def failed(fetches: Fetches) -> bool:
    """Let the next fetch raise an error; return whether another kind may pass."""
    error = psycopg.errors.SyntaxError("no")
    return fetches.rule.can_do_without(fetches.next(), error, fetches.now)


def test_worker_whose_fetches_by_queue_fail_fetches_past_the_jobs_of_limited_queues():
    fetches = Fetches()
    fetches.bring(**CUT)
    assert failed(fetches)
    assert fetches.bring(job(1)).skips_special
    fetches.now = fetches.rule.without_queues.retry_at
    fetches.bring(**CUT)
    assert fetches.bring(job(1)).by_queue, "it is tried again"
    assert fetches.rule.without_queues.since is None


def test_worker_cannot_do_without_fetches_in_claim_order_or_without_units():
    assert not failed(Fetches())
    assert not failed(Fetches(minds_units=True))


def test_worker_without_room_does_not_fetch():
    fetches = Fetches()
    fetches.bring(**CUT)
    assert fetches.rule.next_fetch(0, fetches.now).scan_limit == 0
    assert fetches.next().by_queue, "the one that follows is not forgotten"


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
    assert list(ranges_from(cursors)) == [Range(*values) for values in expected]


def test_rescan_has_the_range_of_all_priorities():
    assert [Range(*PRIORITIES, 0)] == list(ranges_from({}))
