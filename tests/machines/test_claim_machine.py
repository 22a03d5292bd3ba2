"""A free worker overlooks no job, whatever is slow, locked, paused or put back."""

from contextlib import ExitStack

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
from pgjobs.queue import upkeep
from pgjobs.queue.claiming import ClaimedJob, HostUnits
from pgjobs.queue.recording import Success
from pgjobs.worker import claim_cursors
from pgjobs.worker.claim_cursors import ClaimCursors
from pgjobs.worker.poll_schedule import PollSchedule
from tests.actors import Hand, execute, hours, session
from tests.processes import shared_queue
from tests.tasks import noop

POLL = 5.0
LIMIT = 3
UNITS = HostUnits("here", 1_000)  # more than all jobs take
QUEUES = st.sampled_from("abcdef")
SECONDS = st.sampled_from([0.01, 3.0, 0.0001])
INSERT = """
INSERT INTO pgjobs_job (task, kwargs, queue_name, priority)
VALUES ('tests.noop', '{}', %(queue)s, %(priority)s)
"""
# What a free worker may claim: its row is not locked, its queue has room.
CLAIMABLE = """
SELECT pgjobs_job.id FROM pgjobs_job LEFT JOIN pgjobs_queue ON name = queue_name
WHERE status = 'READY' AND paused_at IS NULL
    AND coalesce(queue_name = ANY (%(queues)s::text[]), true)
    AND NOT queue_name = ANY (%(excluded)s::text[])
    AND (max_running IS NULL OR max_running > (
        SELECT count(*) FROM pgjobs_job AS other
        WHERE other.status = 'RUNNING' AND other.queue_name = pgjobs_job.queue_name
    ))
ORDER BY pgjobs_job.id FOR NO KEY UPDATE OF pgjobs_job SKIP LOCKED
"""


# Claimed against the rules: its queue is not served, or it is paused or overfull.
FORBIDDEN = """
SELECT job.id FROM pgjobs_job AS job LEFT JOIN pgjobs_queue ON name = queue_name
WHERE job.id = ANY (%(ids)s) AND (
    paused_at IS NOT NULL
    OR NOT coalesce(queue_name = ANY (%(queues)s::text[]), true)
    OR queue_name = ANY (%(excluded)s::text[])
    OR max_running < (
        SELECT count(*) FROM pgjobs_job AS other
        WHERE other.status = 'RUNNING' AND other.queue_name = job.queue_name
    )
)
"""


class FreeWorker:
    """A worker whose jobs end at once. It hears of nothing and has its own clock."""

    def __init__(self, queues: list[str] | None, excluded: list[str], units=None):
        self.served = {"queues": queues, "excluded": excluded, "units": units}
        self.hand = Hand("free")
        self.cursors = ClaimCursors(POLL, minds_units=units is not None)
        self.schedule = PollSchedule(POLL)
        self.now = 0.0
        self.server_seconds = 0.0001  # that a look takes
        self.successes: list[Success] = []

    def work(self, seconds: float) -> None:
        """Look as often as the schedule says, for so long."""
        end = self.now + seconds
        while self.now < end:
            if self.successes or self.schedule.deserves_look(True, self.now):
                self.look()
            else:
                self.now = min(max(self.schedule.next_look, self.now), end)

    def look(self) -> None:
        promoted = self.schedule.is_promotion_due(self.now)
        if promoted:
            upkeep.promote(execute)
            self.cursors.invalidate()
        must_be_complete = self.schedule.waits_for_idle
        look = self.cursors.next_look(LIMIT, self.now, must_be_complete)
        claimed = self.hand.record_and_claim(
            *self.successes, limit=LIMIT, look=look, is_idle=True, **self.served
        )
        self.check(claimed.jobs)
        claimed = claimed._replace(seconds=self.server_seconds)
        self.now += self.server_seconds
        self.successes = [
            Success(job.id, job.lease_token, None) for job in claimed.jobs
        ]
        self.cursors.looked(look, claimed, LIMIT, self.now)
        rewind_at = None if look.is_complete else self.cursors.rewind_at
        self.schedule.plan(claimed, LIMIT, promoted, self.now, rewind_at)

    def check(self, jobs: list[ClaimedJob]) -> None:
        """Check that the worker may run these jobs side by side."""
        assert len(jobs) <= 1 or not any(job.is_suspect for job in jobs)
        assert len(jobs) <= LIMIT
        ids = [job.id for job in jobs]
        assert execute(FORBIDDEN, {"ids": ids, **self.served}) == []


class Claims(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        for model in (Job, Worker, Queue):
            model.objects.all().delete()
        self.stack = ExitStack()
        sessions = [self.stack.enter_context(session()) for _ in range(3)]
        self.locking, self.late, self.pinning = sessions
        for each in (self.locking, self.late):
            each.begin()
        self.other = Hand("other")
        self.held = []

    def teardown(self):
        self.stack.close()

    @initialize(
        queues=st.none() | st.lists(QUEUES, unique=True, min_size=3),
        excluded=st.just([]) | st.lists(QUEUES, unique=True, max_size=2),
        seconds=SECONDS,
    )
    def begin(self, queues, excluded, seconds):
        self.worker = FreeWorker(queues, excluded)
        self.worker.server_seconds = seconds

    @rule(
        queue=QUEUES,
        priority=st.sampled_from([0, 0, 5, -100, 100]),
        number=st.sampled_from([1, 3, 30, 60]),
        columns=st.sampled_from([{}, {}, {"run_after": hours(1)}, {"max_crashes": 1}]),
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

    @rule(number=st.integers(1, 50), more=st.sampled_from([0, 30, 60]))
    def lock_the_first(self, number, more):
        enqueue_many([noop.using(queue_name="a").bind() for _ in range(more)])
        self.locking.execute(
            "SELECT FROM pgjobs_job WHERE status = 'READY' "
            "ORDER BY priority DESC, turn LIMIT %(number)s FOR UPDATE SKIP LOCKED",
            {"number": number},
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
        self.held += self.other.claim(limit)

    @rule()
    def let_another_worker_end(self):
        for job in self.held:
            self.other.succeed(job)
        self.held = []

    @rule(queue=QUEUES, is_paused=st.booleans(), most=st.none() | st.integers(1, 2))
    def change_queue(self, queue, is_paused, most):
        row, _ = Queue.objects.update_or_create(
            name=queue, defaults={"max_running": most}
        )
        (row.pause if is_paused else row.resume)()

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
        # A look that began just before may end in between.
        self.worker.server_seconds = min(self.worker.server_seconds, 0.01)
        self.worker.work(2 * POLL)
        while self.worker.successes:
            self.worker.look()
        assert execute(CLAIMABLE, self.worker.served) == []


@pytest.fixture
def claims():
    claims = Claims()
    claims.begin(queues=None, excluded=[], seconds=0.0001)
    yield claims
    claims.teardown()


@pytest.fixture
def quick_cursors(monkeypatch):
    """One slow look sets cursors, and they pass all that was claimed."""
    monkeypatch.setattr(claim_cursors, "LATEST_LOOKS", 1)
    monkeypatch.setattr(claim_cursors, "LATE_SECONDS", 0.0)


@shared_queue
@pytest.mark.usefixtures("quick_cursors")
@pytest.mark.parametrize("come_in", [Claims.commit, Claims.put_back_some])
def test_free_worker_finds_what_comes_in_before_its_cursors(claims, come_in):
    claims.become_slow_or_quick(0.01)
    claims.insert_what_is_committed_late("b", 0)
    claims.enqueue("a", 0, 3, {})
    claims.find_what_comes_in_before_the_cursors(come_in)
    assert claims.worker.cursors.are_set


@shared_queue
def test_free_worker_looks_behind_more_locked_jobs_than_its_lists_have(claims):
    claims.lock_the_first(60, more=90)
    claims.work_for_two_polls()
    assert Job.objects.finished().count() == 30


def fill_queues(claims: Claims, names: str) -> None:
    """Let all that these queues may run at a time run elsewhere."""
    for name in names:
        claims.enqueue(name, 100, 2, {})
        claims.held += claims.other.claim(1, queues=[name])
        Queue.objects.create(name=name, max_running=1)


@shared_queue
@pytest.mark.parametrize("units", [None, UNITS])
def test_free_worker_finds_the_queue_behind_all_full_ones(claims, units):
    claims.worker = FreeWorker(None, [], units)
    fill_queues(claims, "abcde")
    claims.enqueue("f", 0, 3, {})
    claims.work_for_two_polls()


@shared_queue
@pytest.mark.parametrize("units", [None, UNITS])
def test_free_worker_looks_behind_a_locked_job_that_must_run_alone(claims, units):
    claims.worker = FreeWorker(None, [], units)
    claims.enqueue("a", 0, 3, {"max_crashes": 1})
    claims.lock_the_first(1, more=60)
    claims.work_for_two_polls()


@shared_queue
@pytest.mark.xfail(strict=True, reason="the room of a queue counts locked jobs, too")
def test_locked_job_takes_no_room_of_a_limited_queue(claims):
    claims.change_queue("a", is_paused=False, most=1)
    claims.lock_the_first(2, more=30)
    claims.work_for_two_polls()


@shared_queue
@pytest.mark.parametrize("most", [None, 1])
def test_free_worker_claims_nothing_of_paused_queues_whatever_comes_first(claims, most):
    claims.enqueue("a", 5, 30, {})
    claims.enqueue("b", 0, 3, {})
    claims.change_queue("a", is_paused=True, most=most)
    claims.work_for_two_polls()
    assert set(Job.objects.finished().values_list("queue_name", flat=True)) == {"b"}


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
