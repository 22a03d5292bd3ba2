"""Jobs share calls, their workers die, and none is lost, or in two calls at a time."""

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from pgjobs import enqueue_many
from pgjobs.features.chunks.gathering import SharedCall, calls_of
from pgjobs.models import Attempt, Job
from pgjobs.queue.claiming import ClaimedJob
from tests.actors import Hand, execute
from tests.features.chunks.tasks import by_tenant
from tests.processes import shared_queue

MOST = 8
CRASHES = 3


class Calls(RuleBasedStateMachine):
    """Workers whose calls end, fail, are released, or die with them.

    The last job of some enqueues kills each process that runs it.
    """

    def __init__(self):
        super().__init__()
        execute("TRUNCATE pgjobs_job, pgjobs_worker, pgjobs_attempt CASCADE")
        self.hands: dict[int, Hand] = {}
        self.calls: list[tuple[Hand, SharedCall]] = []
        self.guilty: set[int] = set()
        self.alone: dict[int, int] = {}  # how often a job has died in a call of one
        self.saviour = Hand("saviour")

    @rule(
        number=st.integers(1, 12),
        tenant=st.integers(0, 1),
        priority=st.sampled_from([0, 0, 5]),
        kills=st.booleans(),
    )
    def enqueue(self, number, tenant, priority, kills):
        task = by_tenant.using(priority=priority, max_crashes=CRASHES)
        bound = [task.bind(path="", pk=pk, tenant=tenant) for pk in range(number)]
        jobs = enqueue_many(bound)
        if kills:
            self.guilty.add(jobs[-1].pk)

    @rule(limit=st.integers(1, 4), most=st.integers(1, MOST), is_idle=st.booleans())
    def claim(self, limit, most, is_idle):
        hand = Hand(f"hand {len(self.hands)}")
        self.hands[hand.id] = hand
        claimed = hand.claim(limit, is_idle=is_idle)
        for call in calls_of(execute, hand.id, claimed, {by_tenant.name: most}):
            assert len(call.members) <= most
            self.check(call)
            self.calls.append((hand, call))

    def check(self, call: SharedCall) -> None:
        rows = Job.objects.in_bulk([job.id for job in call.members])
        assert {row.status for row in rows.values()} == {"RUNNING"}
        assert len({row.kwargs["tenant"] for row in rows.values()}) == 1
        assert [rows[job.id].lease_token for job in call.members] == [
            job.lease_token for job in call.members
        ]
        if any(job.crashes + 1 >= job.max_crashes for job in call.members):
            assert len(call.members) == 1

    @precondition(lambda self: self.calls)
    @rule(data=st.data(), how=st.sampled_from(["end", "end", "fail", "release", "mix"]))
    def end(self, data, how):
        hand, call = self.take(data)
        if self.guilty & {job.id for job in call.members}:
            self.die(hand, call)
            return
        for place, job in enumerate(call.members):
            if how == "end" or (how == "mix" and place % 2):
                assert hand.succeed(job)
            elif how == "fail":
                assert hand.set_back(job, "RETRY", "no")
            else:
                assert hand.set_back(job, "RELEASE", "later")

    @precondition(lambda self: self.calls)
    @rule(data=st.data())
    def kill(self, data):
        self.die(*self.take(data))

    def take(self, data) -> tuple[Hand, SharedCall]:
        place = data.draw(st.integers(0, len(self.calls) - 1))
        return self.calls.pop(place)

    def die(self, hand: Hand, call: SharedCall) -> None:
        """Lose the worker, with all of its calls, and rescue their jobs."""
        lost = [call, *(other for owner, other in self.calls if owner is hand)]
        self.calls = [each for each in self.calls if each[0] is not hand]
        hand.vanish()
        self.saviour.beat()
        self.saviour.rescue()
        for each in lost:
            if len(each.members) == 1:
                (job,) = each.members
                self.alone[job.id] = self.alone.get(job.id, 0) + 1
            else:
                self.check_halves(each.members)
        for job in (job for each in lost for job in each.members):
            assert not hand.succeed(job), "its end is void"

    def check_halves(self, members: list[ClaimedJob]) -> None:
        rows = Job.objects.in_bulk([job.id for job in members])
        parts = [rows[job.id].chunk["part"] for job in members]
        middle = (len(members) + 1) // 2
        assert len(set(parts[:middle])) == len(set(parts[middle:])) == 1
        assert parts[0] != parts[-1]

    @invariant()
    def a_crash_of_several_counts_for_none_of_them(self):
        for id, crashes in Job.objects.values_list("pk", "crashes"):
            assert crashes == min(self.alone.get(id, 0), CRASHES)

    @invariant()
    def each_job_is_in_one_call_at_a_time(self):
        held = [job.id for _, call in self.calls for job in call.members]
        assert len(held) == len(set(held))
        running = Job.objects.running().values_list("pk", flat=True)
        assert sorted(held) == sorted(running)

    def teardown(self):
        """Let all end: the guilty ones alone fail, each by as many crashes."""
        for hand, call in list(self.calls):
            if (hand, call) in self.calls:
                self.calls.remove((hand, call))
                self.finish(hand, call)
        Job.objects.scheduled().run_now()
        for _ in range(200):
            hand = Hand("last")
            claimed = hand.claim(4)
            if not claimed:
                break
            for call in calls_of(execute, hand.id, claimed, {by_tenant.name: MOST}):
                self.check(call)
                self.calls.append((hand, call))
            while self.calls:
                self.finish(*self.calls.pop())
            Job.objects.scheduled().run_now()
        ended = Job.objects.in_bulk()
        assert {job.status for job in ended.values()} <= {"SUCCESSFUL", "FAILED"}
        for job in ended.values():
            if job.pk in self.guilty:
                assert job.status == "FAILED"
            elif job.crashes < CRASHES and job.failures < job.max_attempts:
                assert job.status == "SUCCESSFUL", job.reason
        assert Attempt.objects.filter(outcome="CRASHED").count() >= sum(
            self.alone.values()
        )

    def finish(self, hand: Hand, call: SharedCall) -> None:
        if self.guilty & {job.id for job in call.members}:
            self.die(hand, call)
        else:
            assert all(hand.succeed(job) for job in call.members)


@pytest.mark.slow
@shared_queue
def test_calls_lose_nothing_and_innocent_jobs_pay_for_nothing():
    run_state_machine_as_test(
        Calls,
        settings=settings(
            max_examples=10,
            stateful_step_count=20,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
