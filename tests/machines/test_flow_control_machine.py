"""Locks, limits and rates: no key is ever exceeded, and no job is forgotten.

All steps run in one transaction, and a worker admits after each of them, first
without a sweep, which would find what was forgotten. Races of several transactions
are in test_locks.py and test_limits.py.
"""

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from pgjobs import enqueue_many
from pgjobs.models import Job, Note, Queue, Rate, Worker
from pgjobs.queue import upkeep
from tests.actors import Hand, admit, execute, hours, pass_time
from tests.tasks import noop

KEYS = st.fixed_dictionaries(
    {},
    optional={
        "lock": st.sampled_from("ab"),
        "lock_mode": st.just("mutex"),
        "limit": st.sampled_from([("one", 1), ("two", 2), ("mixed", 1), ("mixed", 2)]),
        "rate": st.sampled_from(["2/day", "3/hour"]),
        "priority": st.integers(-1, 1),
        "queue_name": st.sampled_from(["a", "z"]),
    },
)
ACTS = ["cancel", "fail", "succeed", "retry", "retry", "run_now", "discard"]
VERDICTS = ["SUCCESS", "SUCCESS", "FAIL", "RETRY", "SNOOZE", "CANCEL", "RELEASE"]

# A job stands in a line if, and only if, it waits, or no admission has seen its end.
MISMATCHED = """
SELECT id, status, waiting_for, line FROM pgjobs_job
WHERE line IS NULL AND status = 'WAITING'
    OR line IN ('recorded', 'left') AND status NOT IN (
        'SCHEDULED', 'SUCCESSFUL', 'FAILED', 'CANCELLED'
    )
    OR line NOT IN ('recorded', 'left', 'unlinked') AND status <> 'WAITING'
"""
CROWDED_LOCKS = """
SELECT keys ->> 'lock' FROM pgjobs_job
WHERE status IN ('READY', 'RUNNING') AND keys ? 'lock'
GROUP BY 1 HAVING count(*) > 1
"""
CROWDED_LIMITS = """
SELECT keys ->> 'limit_key' FROM pgjobs_job
WHERE status IN ('READY', 'RUNNING') AND keys ? 'limit_key'
GROUP BY 1 HAVING count(*) > max((keys ->> 'max_running')::int)
"""
# An admission leaves only jobs of paused and unserved queues in these lines.
UNSEEN = """
SELECT id, line FROM pgjobs_job
WHERE line IN ('recorded', 'left', 'unlinked')
    OR line = 'arrived' AND pgjobs_is_served(queue_name)
"""
# A job that waits although its obstacle is gone. Two cases are no fault: a rate opens
# as time passes, and a job that allows more at a time waits behind one that allows
# fewer.
WAITS_FOR_NOTHING = """
SELECT job.id, job.waiting_for, line FROM pgjobs_job AS job
WHERE status = 'WAITING' AND pgjobs_is_served(queue_name) AND CASE waiting_for
    WHEN 'limit' THEN (keys ->> 'max_running')::int > (
            SELECT count(*) FROM pgjobs_job AS other
            WHERE other.keys ->> 'limit_key' = job.keys ->> 'limit_key'
                AND other.status IN ('READY', 'RUNNING')
        )
        AND NOT EXISTS (
            SELECT FROM pgjobs_job AS first
            WHERE first.line = job.line AND pgjobs_is_served(first.queue_name)
                AND (first.keys ->> 'max_running')::int
                    < (job.keys ->> 'max_running')::int
                AND (-first.priority, first.turn) < (-job.priority, job.turn)
        )
    WHEN 'rate' THEN NOT EXISTS (
        SELECT FROM pgjobs_rate WHERE key = keys ->> 'rate_key' AND opens_at IS NOT NULL
    )
END
"""
# A sweep alone may find what a limit allows whose jobs do not agree on their number.
FORGOTTEN = f"{WAITS_FOR_NOTHING} AND keys ->> 'limit_key' IS DISTINCT FROM 'mixed'"
# A job that waits for a lock that no job has, and before which no other job comes.
OVERTAKEN = """
SELECT later.id FROM pgjobs_job AS later
WHERE status = 'WAITING' AND waiting_for = 'lock' AND pgjobs_is_served(queue_name)
    AND NOT EXISTS (
        SELECT FROM pgjobs_job
        WHERE keys ->> 'lock' = later.keys ->> 'lock'
            AND (
                status IN ('READY', 'RUNNING')
                OR (
                    (later.keys ->> 'is_ordered')::bool
                    AND (keys ->> 'is_ordered')::bool
                    AND finished_at IS NULL AND id < later.id
                )
            )
    )
"""


class FlowControlMachine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        for model in (Job, Worker, Note, Rate, Queue):
            model.objects.all().delete()
        self.hands = [Hand("one"), Hand("two")]
        self.claimed = []

    @initialize(kinds=st.lists(KEYS, min_size=2, max_size=4))
    def begin(self, kinds):
        enqueue_many([self.task(kind).bind() for kind in kinds for _ in range(3)])

    def task(self, kind):
        options = dict(kind)
        if limit := options.pop("limit", None):
            options["limit_key"], options["max_running"] = limit
        if rate := options.get("rate"):
            options["rate_key"] = rate
        return noop.using(**options)

    @rule(kind=KEYS, later=st.booleans(), number=st.integers(1, 3))
    def enqueue(self, kind, later, number):
        task = self.task(kind).using(run_after=hours(1) if later else None)
        enqueue_many([task.bind() for _ in range(number)])

    @rule(which=st.integers(0, 1), limit=st.integers(1, 4))
    def claim(self, which, limit):
        hand = self.hands[which]
        self.claimed += [(hand, job) for job in hand.claim(limit)]

    @rule(data=st.data(), verdict=st.sampled_from(VERDICTS))
    def record(self, data, verdict):
        if self.claimed:
            index = data.draw(st.integers(0, len(self.claimed) - 1))
            self.end(*self.claimed.pop(index), verdict)

    def end(self, hand, job, verdict):
        if verdict == "SUCCESS":
            hand.succeed(job)
        else:
            delay = 60 if verdict == "SNOOZE" else 0
            hand.set_back(job, verdict, delay=delay)

    # Hypothesis leaves out some rules of each run, and seldom claims and then records.
    @rule(
        which=st.integers(0, 1),
        verdicts=st.lists(st.sampled_from(VERDICTS), min_size=1, max_size=4),
    )
    def work(self, which, verdicts):
        hand = self.hands[which]
        jobs = hand.claim(len(verdicts))
        for job, verdict in zip(jobs, verdicts, strict=False):
            self.end(hand, job, verdict)

    @rule(data=st.data(), act=st.sampled_from(ACTS))
    def operate(self, data, act):
        ids = list(Job.objects.order_by("pk").values_list("pk", flat=True))
        if ids:
            some = data.draw(st.lists(st.sampled_from(ids), min_size=1, max_size=4))
            getattr(Job.objects.filter(pk__in=some), act)()

    @rule(which=st.integers(0, 1))
    def die_and_rescue(self, which):
        self.hands[which].vanish()
        self.hands[which] = Hand("reborn")
        self.hands[1 - which].rescue()

    @rule(name=st.sampled_from(["default", "a", "z"]))
    def pause(self, name):
        Queue.objects.get_or_create(name=name)
        Queue.objects.filter(name=name).pause()

    @rule()
    def resume(self):
        Queue.objects.resume()
        admit(sweeps=True)  # the notification of this act asks for it

    @rule()
    def let_time_pass(self):
        execute(
            "UPDATE pgjobs_job SET run_after = now() - interval '1 hour'"
            " WHERE status = 'SCHEDULED'"
        )
        pass_time(3_600)
        upkeep.promote(execute)

    @invariant()
    def nobody_is_crowded_and_nobody_forgotten(self):
        admit(sweeps=False)
        assert execute(FORGOTTEN) == []
        assert execute(OVERTAKEN) == []
        admit(sweeps=True)
        assert execute(MISMATCHED) == []
        assert execute(UNSEEN) == []
        assert execute(CROWDED_LOCKS) == []
        assert execute(CROWDED_LIMITS) == []
        assert execute(WAITS_FOR_NOTHING) == []
        assert execute(OVERTAKEN) == []


@pytest.mark.slow
@pytest.mark.django_db
def test_no_key_is_exceeded_and_no_job_is_forgotten():
    run_state_machine_as_test(
        FlowControlMachine,
        settings=settings(
            max_examples=25,
            stateful_step_count=20,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate],
        ),
    )
