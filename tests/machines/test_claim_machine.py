"""A free worker overlooks no job, whatever is slow, locked, paused or put back."""

from collections import Counter
from contextlib import ExitStack
from datetime import UTC, datetime
from math import inf

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    rule,
    run_state_machine_as_test,
)

from pgjobs import enqueue_many
from pgjobs.models import Job, Queue, Worker
from pgjobs.queue import claiming, upkeep
from pgjobs.queue.claiming import EXTRA, Claimed, ClaimedJob, Fetch, HostUnits
from pgjobs.queue.recording import Success
from pgjobs.worker.fetch_rule import FetchRule
from pgjobs.worker.upkeep.promotion import Promotion
from tests.actors import Hand, execute, hours, session
from tests.processes import shared_queue
from tests.tasks import noop

POLL = 5.0
LIMIT = 3
UNITS = HostUnits("here", 1_000)  # more than all jobs take
FEW_UNITS = HostUnits("here", 5)
QUEUES = st.sampled_from("abcdef")
QUICK = 0.0001
SECONDS = st.sampled_from([0.01, 3.0, QUICK])
PAST = datetime(2020, 1, 1, tzinfo=UTC)
KINDS = [
    {},
    {},
    {"run_after": hours(1)},
    {"max_crashes": 1},
    {"expires": PAST},
    {"process_units": 2},
    {"process_units": 3},
]
INSERT = """
INSERT INTO pgjobs_job (task, kwargs, queue_name, priority)
VALUES ('tests.noop', '{}', %(queue)s, %(priority)s)
"""
# What a free worker may claim: its row is not locked, its queue has room, and its host
# has units.
CLAIMABLE = """
SELECT pgjobs_job.id, queue_name
FROM pgjobs_job LEFT JOIN pgjobs_queue ON name = queue_name
WHERE status = 'READY' AND paused_at IS NULL
    AND coalesce(queue_name = ANY (%(queues)s::text[]), true)
    AND NOT queue_name = ANY (%(excluded)s::text[])
    AND (expires_at <= clock_timestamp() AND attempts = 0) IS NOT TRUE
    AND (max_running IS NULL OR max_running > (
        SELECT count(*) FROM pgjobs_job AS other
        WHERE other.status = 'RUNNING' AND other.queue_name = pgjobs_job.queue_name
    ))
    AND (%(total)s IS NULL OR coalesce(process_units, 1) <= %(total)s - (
        SELECT coalesce(sum(coalesce(process_units, 1)), 0) FROM pgjobs_job AS other
        WHERE other.status = 'RUNNING'
    ))
ORDER BY pgjobs_job.id FOR NO KEY UPDATE OF pgjobs_job SKIP LOCKED
"""
# Claimed against the rules: its queue is not served, or it is paused or overfull. Or
# the job has expired, or all take more units than there are.
FORBIDDEN = """
SELECT job.id FROM pgjobs_job AS job LEFT JOIN pgjobs_queue ON name = queue_name
WHERE job.id = ANY (%(ids)s) AND (
    paused_at IS NOT NULL
    OR NOT coalesce(queue_name = ANY (%(queues)s::text[]), true)
    OR queue_name = ANY (%(excluded)s::text[])
    OR (expires_at <= last_attempted_at AND attempts = 1)
    OR max_running < (
        SELECT count(*) FROM pgjobs_job AS other
        WHERE other.status = 'RUNNING' AND other.queue_name = job.queue_name
    )
    OR %(total)s < (
        SELECT sum(coalesce(process_units, 1)) FROM pgjobs_job AS other
        WHERE other.status = 'RUNNING'
    )
)
"""


class FreeWorker:
    """A worker whose jobs end at once. It hears of nothing and has its own clock."""

    def __init__(self, queues: list[str] | None, excluded: list[str], units=None):
        self.served = {"queues": queues, "excluded": excluded}
        self.units = units
        self.hand = Hand("free")
        self.rule = FetchRule(POLL, minds_units=units is not None)
        self.promotion = Promotion()
        self.now = 0.0
        self.server_seconds = 0.0001  # that a fetch takes
        self.successes: list[Success] = []

    def work(self, seconds: float) -> None:
        """Fetch as often as the schedule says, for so long."""
        end = self.now + seconds
        while self.now < end:
            if self.now >= self.promotion.due:
                self.promote()
            if self.successes or self.now >= self.rule.due_for(is_idle=True):
                self.fetch()
            else:
                due = min(self.rule.due, self.promotion.due)
                self.now = min(max(due, self.now), end)

    def promote(self) -> None:
        self.promotion.due = inf
        effects, _ = self.promotion.do(execute, upkeep.ALL_DUE)
        if effects.old_ready:
            self.rule.rescan_soon(self.now)

    def fetch(self) -> None:
        fetch = self.rule.next_fetch(LIMIT, self.now)
        claimed = self.hand.record_and_claim(
            *self.successes,
            limit=LIMIT,
            fetch=fetch,
            is_idle=True,
            units=self.units,
            **self.served,
        )
        self.check(claimed.jobs)
        if claimed.met_expired:
            upkeep.expire(execute)
        claimed = claimed._replace(seconds=self.seconds_of(fetch))
        self.now += claimed.seconds
        self.successes = [
            Success(job.id, job.lease_token, None) for job in claimed.jobs
        ]
        self.rule.fetched(fetch, claimed, LIMIT, self.now)
        self.promotion.expect_in(claimed.next_due, self.now)

    def seconds_of(self, fetch: Fetch) -> float:
        """Return how long a fetch takes: less if it begins at the cursors."""
        return self.server_seconds if fetch.is_complete else QUICK

    def check(self, jobs: list[ClaimedJob]) -> None:
        """Check that the worker may run these jobs side by side."""
        assert len(jobs) <= 1 or not any(job.is_last_chance for job in jobs)
        assert len(jobs) <= LIMIT
        ids = [job.id for job in jobs]
        assert execute(FORBIDDEN, {"ids": ids, **self.parameters}) == []

    @property
    def parameters(self) -> dict:
        return {**self.served, "total": self.units and self.units.total}


class Claims(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        for model in (Job, Worker, Queue):
            model.objects.all().delete()
        self.stack = ExitStack()
        sessions = [self.stack.enter_context(session()) for _ in range(4)]
        self.locking, self.late, self.pinning, self.claiming = sessions
        for opened in (self.locking, self.late, self.claiming):
            opened.begin()
        self.other = Hand("other")
        self.frozen = Hand("frozen", execute=self.claiming.execute)
        self.held = []

    def teardown(self):
        self.stack.close()

    @initialize(
        queues=st.none() | st.lists(QUEUES, unique=True, min_size=3),
        excluded=st.just([]) | st.lists(QUEUES, unique=True, max_size=2),
        seconds=SECONDS,
        units=st.sampled_from([None, None, UNITS, FEW_UNITS]),
    )
    def begin(self, queues, excluded, seconds, units=None):
        self.worker = FreeWorker(queues, excluded, units)
        self.worker.server_seconds = seconds

    @rule(
        queue=QUEUES,
        priority=st.sampled_from([0, 0, 5, -100, 100]),
        number=st.sampled_from([1, 1, 3, 3, 50]),
        columns=st.sampled_from(KINDS),
    )
    def enqueue(self, queue, priority, number, columns):
        task = noop.using(queue_name=queue, priority=priority, **columns)
        enqueue_many([task.bind() for _ in range(number)])

    @rule(queue=QUEUES, priority=st.integers(-100, 100))
    def insert_what_is_committed_late(self, queue, priority):
        self.late.execute(INSERT, {"queue": queue, "priority": priority})

    @rule()
    def commit(self):
        self.late.commit()
        self.late.begin()

    @rule(number=st.integers(1, 50), more=st.sampled_from([0, 0, 50]))
    def lock_the_first(self, number, more):
        enqueue_many([noop.using(queue_name="a").bind() for _ in range(more)])
        self.locking.execute(
            "SELECT FROM pgjobs_job WHERE status = 'READY' "
            "ORDER BY priority DESC, turn LIMIT %(number)s FOR UPDATE SKIP LOCKED",
            {"number": number},
        )

    @rule(queue=QUEUES, room=st.integers(1, 2))
    def lock_as_many_as_a_queue_may_run(self, queue, room):
        self.enqueue(queue, 100, 3, {})
        Queue.objects.update_or_create(name=queue, defaults={"max_running": room})
        self.locking.execute(
            "SELECT FROM pgjobs_job WHERE status = 'READY' AND queue_name = %(queue)s "
            "ORDER BY priority DESC, turn LIMIT %(room)s FOR UPDATE SKIP LOCKED",
            {"queue": queue, "room": room},
        )

    @rule()
    def unlock(self):
        self.locking.rollback()
        self.locking.begin()

    @rule()
    def pin_a_snapshot(self):
        """Keep the index entries of jobs that are gone, as a long report does."""
        self.unpin()
        self.pinning.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        self.pinning.execute("SELECT count(*) FROM pgjobs_job")

    @rule()
    def unpin(self):
        self.pinning.rollback()

    @rule(number=st.integers(1, 20))
    def put_back(self, number):
        self.put_back_some(number)

    def put_back_some(self, number=5):
        old = Job.objects.finished().order_by("turn")[:number]
        Job.objects.filter(pk__in=[job.pk for job in old]).retry()

    @rule()
    def let_time_come(self):
        Job.objects.scheduled().run_now()

    @rule(limit=st.integers(1, 3))
    def let_another_worker_claim(self, limit):
        """It has units enough, but another host's would not count here."""
        self.held += self.other.claim(limit, units=self.worker.units)

    @rule()
    def let_another_worker_end(self):
        for job in self.held:
            self.other.succeed(job)
        self.held = []

    @rule(
        verdict=st.sampled_from(["RETRY", "RELEASE", "SNOOZE"]),
        delay=st.sampled_from([0.0, 3_600.0]),
    )
    def let_another_worker_put_back(self, verdict, delay):
        for job in self.held:
            self.other.set_back(job, verdict, delay=delay)
        self.held = []

    @rule(limit=st.integers(1, 3))
    def let_a_worker_freeze_in_its_claim(self, limit):
        """It holds the jobs, and the room of their queues, until it thaws."""
        self.frozen.record_and_claim(limit=limit, units=self.worker.units)

    @rule()
    def thaw(self):
        """Its host is gone, so that nothing is committed."""
        self.claiming.rollback()
        self.claiming.begin()

    @rule(queue=QUEUES, is_paused=st.booleans(), most=st.none() | st.integers(1, 2))
    def change_queue(self, queue, is_paused, most):
        row, _ = Queue.objects.update_or_create(
            name=queue, defaults={"max_running": most}
        )
        (row.pause if is_paused else row.resume)()

    @rule(queues=st.sets(QUEUES, min_size=5))
    def fill_queues(self, queues):
        """Let all that these queues may run at a time run elsewhere."""
        for queue in sorted(queues):
            self.enqueue(queue, 100, 2, {})
            self.held += self.other.claim(1, queues=[queue], units=self.worker.units)
            Queue.objects.update_or_create(name=queue, defaults={"max_running": 1})

    @rule(seconds=SECONDS)
    def become_slow_or_quick(self, seconds):
        self.worker.server_seconds = seconds

    @rule(seconds=st.sampled_from([0.1, 1.0, 3.0]))
    def work_for_a_while(self, seconds):
        self.worker.work(seconds)

    @rule(
        come_in=st.sampled_from(
            [put_back_some, commit, unlock, let_time_come, let_another_worker_end]
        )
    )
    def find_what_comes_in_before_the_cursors(self, come_in):
        self.worker.work(POLL)
        come_in(self)
        self.work_for_two_polls()

    @rule()
    def work_for_two_polls(self):
        self.thaw()
        # A fetch that began just before may end in between.
        self.worker.server_seconds = min(self.worker.server_seconds, 0.01)
        assert self.left_after_two_polls() == {}

    def left_after_two_polls(self) -> Counter[str]:
        """Return how many jobs the worker could still claim, by queue."""
        self.worker.work(2 * POLL)
        while self.worker.successes:
            self.worker.fetch()
        return Counter(name for _, name in execute(CLAIMABLE, self.worker.parameters))


@pytest.fixture
def claims():
    claims = Claims()
    claims.begin(queues=None, excluded=[], seconds=0.0001)
    yield claims
    claims.teardown()


@pytest.fixture(autouse=True)
def short_walks(monkeypatch):
    """Let few jobs cut a fetch short."""
    monkeypatch.setattr(claiming, "EXTRA_WALK", EXTRA)


@pytest.fixture
def quick_cursors(monkeypatch):
    """Cursors pass all that was claimed."""
    monkeypatch.setattr(FetchRule, "remember_ended", remember_all)


def remember_all(rule: FetchRule, claimed: Claimed, now: float) -> None:
    rule.ended = max([rule.ended, *(job.turn for job in claimed.jobs)])


@shared_queue
@pytest.mark.usefixtures("quick_cursors")
@pytest.mark.parametrize("come_in", [Claims.commit, Claims.put_back_some])
def test_free_worker_finds_what_comes_in_before_its_cursors(claims, come_in):
    claims.become_slow_or_quick(0.01)
    claims.insert_what_is_committed_late("b", 0)
    claims.enqueue("a", 0, 3, {})
    claims.find_what_comes_in_before_the_cursors(come_in)
    assert claims.worker.rule.cursors


@shared_queue
def test_free_worker_fetches_behind_more_locked_jobs_than_its_lists_have(claims):
    claims.lock_the_first(60, more=90)
    claims.work_for_two_polls()
    assert Job.objects.finished().count() == 30


@shared_queue
@pytest.mark.parametrize("units", [None, UNITS])
def test_free_worker_finds_the_queue_behind_all_full_ones(claims, units):
    claims.begin(queues=None, excluded=[], seconds=0.0001, units=units)
    claims.fill_queues("abcde")
    claims.enqueue("f", 0, 3, {})
    claims.work_for_two_polls()


@shared_queue
@pytest.mark.parametrize("units", [None, UNITS])
def test_free_worker_fetches_behind_a_locked_job_that_must_run_alone(claims, units):
    claims.begin(queues=None, excluded=[], seconds=0.0001, units=units)
    claims.enqueue("a", 0, 3, {"max_crashes": 1})
    claims.lock_the_first(1, more=60)
    claims.work_for_two_polls()


@shared_queue
def test_locked_job_takes_no_room_of_a_limited_queue(claims):
    claims.change_queue("a", is_paused=False, most=1)
    claims.lock_the_first(2, more=30)
    claims.work_for_two_polls()


@shared_queue
def test_locked_job_hides_none_that_takes_more_units(claims):
    claims.begin(queues=None, excluded=[], seconds=0.0001, units=UNITS)
    claims.enqueue("a", 0, 1, {"process_units": 2})
    claims.lock_the_first(1, more=0)
    claims.enqueue("a", 0, 3, {"process_units": 3})
    claims.work_for_two_polls()
    assert Job.objects.finished().count() == 3


@shared_queue
def test_extra_jobs_of_one_queue_hide_none_of_another(claims):
    claims.change_queue("a", is_paused=False, most=1)
    claims.enqueue("a", 100, 2 * EXTRA, {})
    claims.lock_the_first(2 * EXTRA, more=0)
    claims.lock_as_many_as_a_queue_may_run("b", 1)
    claims.work_for_two_polls()
    assert Job.objects.finished().count() == 2


@shared_queue
@pytest.mark.usefixtures("quick_cursors")
def test_limited_queue_is_not_left_behind_the_cursors_of_slow_fetches(claims):
    claims.become_slow_or_quick(0.01)
    claims.change_queue("a", is_paused=False, most=1)
    claims.enqueue("a", 0, 30, {})
    claims.enqueue("b", 0, 3, {})
    claims.worker.work(2 * POLL)
    assert not Job.objects.ready().exists()


@shared_queue
@pytest.mark.parametrize("most", [None, 1])
def test_free_worker_claims_nothing_of_paused_queues_whatever_comes_first(claims, most):
    claims.enqueue("a", 5, 30, {})
    claims.enqueue("b", 0, 3, {})
    claims.change_queue("a", is_paused=True, most=most)
    claims.work_for_two_polls()
    assert set(Job.objects.finished().values_list("queue_name", flat=True)) == {"b"}


@pytest.mark.slow
@shared_queue
@pytest.mark.usefixtures("quick_cursors")
def test_free_worker_claims_whatever_is_ready_within_two_polls():
    run_state_machine_as_test(
        Claims,
        settings=settings(
            max_examples=25,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
