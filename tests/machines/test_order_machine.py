"""Nothing is starved: what may start does so within two passes, in its order.

A pass is what a worker does each time it wakes: an admission, which sweeps only if a
notification asks for it, and a claim for the free slots. Whether a job may start is
decided here anew, from what the jobs say. All steps run in one transaction, in which no
time goes by but the days that the machine lets pass.
"""

from collections import Counter

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
from pgjobs.queue import admitting
from tests.actors import Hand, execute
from tests.tasks import noop

QUEUES = ["a", "b", "c", "d", "z"]
KINDS = st.fixed_dictionaries(
    {"queue_name": st.sampled_from(QUEUES)},
    optional={
        "lock": st.sampled_from("xy"),
        "limit": st.sampled_from("kl"),
        "rate": st.just("r"),
        "priority": st.integers(0, 1),
    },
)
# The first in line of each limit, if it fits all the same.
FORGOTTEN_BY_LIMIT = """
SELECT id, line FROM (
    SELECT DISTINCT ON (keys ->> 'limit_key') id, line, keys FROM pgjobs_job
    WHERE status = 'WAITING' AND waiting_for = 'limit' AND pgjobs_is_served(queue_name)
    ORDER BY keys ->> 'limit_key', priority DESC, turn
) AS first
WHERE (keys ->> 'max_running')::int > (
    SELECT count(*) FROM pgjobs_job AS other
    WHERE other.keys ->> 'limit_key' = first.keys ->> 'limit_key'
        AND other.status IN ('READY', 'RUNNING')
)
"""
FORGOTTEN_BY_LOCK = """
SELECT id, line FROM pgjobs_job AS job
WHERE status = 'WAITING' AND waiting_for = 'lock' AND pgjobs_is_served(queue_name)
    AND NOT EXISTS (
        SELECT FROM pgjobs_job AS other
        WHERE other.keys ->> 'lock' = job.keys ->> 'lock'
            AND other.status IN ('READY', 'RUNNING')
    )
"""
# The first in line of each rate, and how many may start in a day.
FIRST_OF_RATES = """
SELECT DISTINCT ON (keys ->> 'rate_key') id, line, keys ->> 'rate_key',
    pgjobs_rate_number(keys), (
        SELECT count(*) FROM pgjobs_job AS other
        WHERE other.keys ->> 'rate_key' = job.keys ->> 'rate_key'
            AND other.status = 'READY'
    )
FROM pgjobs_job AS job
WHERE status = 'WAITING' AND waiting_for = 'rate' AND pgjobs_is_served(queue_name)
ORDER BY keys ->> 'rate_key', priority DESC, turn
"""
LET_A_DAY_PASS = [
    """
    UPDATE pgjobs_rate SET full_at = full_at - interval '1 day',
        opens_at = opens_at - interval '1 day', even_at = even_at - interval '1 day',
        starts = ARRAY(SELECT start - interval '1 day' FROM unnest(starts) AS start)
    """,
    """
    UPDATE pgjobs_note SET keys = jsonb_set(
        keys, '{rate_started_at}',
        to_jsonb((keys ->> 'rate_started_at')::float8 - 24 * 60 * 60)
    ) WHERE keys ? 'rate_started_at'
    """,
]
UNSEEN = """
SELECT id, line FROM pgjobs_job
WHERE (line = 'arrived' OR line LIKE 'unserved %') AND pgjobs_is_served(queue_name)
"""
# Jobs that have one key and never ran, by their key, queue and priority.
COMPARABLE = """
SELECT id, keys ->> 'limit_key', keys ->> 'rate_key', queue_name, priority, status
FROM pgjobs_job
WHERE attempts = 0 AND (keys ? 'limit_key') <> (keys ? 'rate_key')
    AND NOT keys ? 'lock' AND status IN ('WAITING', 'READY') AND run_after IS NULL
    AND pgjobs_is_served(queue_name)
"""
KIND_OF = {"k": "limit", "l": "limit", "r": "rate"}


def keys_of_rates(jobs):
    ids = [job.id for job in jobs]
    keys = Job.objects.filter(pk__in=ids, keys__has_key="rate_key")
    return keys.values_list("keys__rate_key", flat=True)


class OrderMachine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        for model in (Job, Worker, Note, Rate, Queue):
            model.objects.all().delete()
        self.allowed = {"k": 1, "l": 2, "r": 3}
        self.started = Counter()  # of each rate, since the last day passed
        self.claimed = []
        self.position, self.sweeps = admitting.BEGINNING, True
        self.hands = [Hand("most", excluded="z")]

    @initialize(kinds=st.lists(KINDS, min_size=2, max_size=5))
    def begin(self, kinds):
        for kind in kinds:
            self.add(kind, 2)

    def add(self, kind, number):
        options = dict(kind)
        if "lock" in options:
            options["lock_mode"] = "mutex"
        if key := options.pop("limit", None):
            options |= {"limit_key": key, "max_running": self.allowed[key]}
        if key := options.pop("rate", None):
            options |= {"rate_key": key, "rate": f"{self.allowed[key]}/day"}
        enqueue_many([noop.using(**options).bind() for _ in range(number)])

    # What happens

    @rule(kind=KINDS, number=st.integers(1, 3))
    def enqueue(self, kind, number):
        self.add(kind, number)

    @rule(key=st.sampled_from("klr"), number=st.integers(1, 4))
    def deploy(self, key, number):
        """Later jobs of the key carry another limit or rate."""
        self.allowed[key] = number

    # What differs within a line: most often, because it matters most.
    @rule(
        key=st.sampled_from("klr"),
        numbers=st.lists(st.integers(1, 5), min_size=2, max_size=5),
        queue=st.sampled_from(QUEUES),
        passes=st.integers(0, 1),
    )
    def deploy_and_enqueue(self, key, numbers, queue, passes):
        for number in numbers:
            self.deploy(key, number)
            self.add({KIND_OF[key]: key, "queue_name": queue}, 1)
            self.run_passes(passes)

    @rule(data=st.data(), verdict=st.sampled_from(["SUCCESS", "SUCCESS", "RETRY"]))
    def record(self, data, verdict):
        if self.claimed:
            index = data.draw(st.integers(0, len(self.claimed) - 1))
            hand, job = self.claimed.pop(index)
            if verdict == "SUCCESS":
                hand.succeed(job)
            else:
                hand.set_back(job, verdict, delay=0)

    @rule(data=st.data(), act=st.sampled_from(["cancel", "retry", "discard"]))
    def operate(self, data, act):
        if ids := list(Job.objects.order_by("pk").values_list("pk", flat=True)):
            some = data.draw(st.lists(st.sampled_from(ids), min_size=1, max_size=3))
            getattr(Job.objects.filter(pk__in=some), act)()

    @rule(names=st.lists(st.sampled_from(QUEUES), min_size=1, max_size=4))
    def pause(self, names):
        for name in names:
            Queue.objects.get_or_create(name=name)
        Queue.objects.filter(name__in=names).pause()
        self.hear_of_a_queue()

    @rule(
        queues=st.permutations(QUEUES[:-1]),
        key=st.sampled_from("klr"),
        paused=st.integers(1, 3),
    )
    def pause_the_first_in_line_and_end_what_runs(self, queues, key, paused):
        for queue in queues:
            self.add({KIND_OF[key]: key, "queue_name": queue}, 2)
        self.run_passes(1)
        self.pause(queues[:paused])
        for hand, job in self.claimed:
            hand.succeed(job)
        self.claimed = []

    @rule(names=st.lists(st.sampled_from(QUEUES), min_size=1, max_size=5))
    def resume(self, names):
        Queue.objects.filter(name__in=names).resume()
        self.hear_of_a_queue()

    @rule()
    def let_another_worker_come_or_go(self):
        if len(self.hands) == 1:
            self.hands.append(Hand("of z", queues="z"))
        else:
            gone = self.hands.pop()
            for hand, job in self.claimed:
                if hand is gone:
                    hand.set_back(job, "RELEASE", delay=0)
            self.claimed = [each for each in self.claimed if each[0] is not gone]
            gone.vanish()
        self.hear_of_a_queue()  # the first admission of a worker sweeps

    @rule()
    def let_a_day_pass(self):
        for statement in LET_A_DAY_PASS:
            execute(statement)
        self.started.clear()

    def hear_of_a_queue(self):
        """Take the notification that a queue may be served again, or no more."""
        self.position, self.sweeps = admitting.BEGINNING, True

    # What workers do

    def run_passes(self, number):
        for _ in range(number):
            for hand in self.hands:
                self.run_pass(hand)

    def run_pass(self, hand):
        before = execute(COMPARABLE)
        admission = admitting.admit(execute, self.position, self.sweeps)
        self.position, self.sweeps = admission.position, False
        self.nobody_was_overtaken(before)
        held = sum(each is hand for each, _ in self.claimed)
        serving = {
            "queues": hand.row.queues.split(",") if hand.row.queues else None,
            "excluded": hand.row.excluded.split(",") if hand.row.excluded else (),
        }
        jobs = hand.record_and_claim(limit=hand.row.slots - held, **serving).jobs
        self.claimed += [(hand, job) for job in jobs]
        self.started.update(keys_of_rates(jobs))

    def nobody_was_overtaken(self, before):
        now = {row[0]: row[-1] for row in execute(COMPARABLE)}
        waited = [row for row in before if row[-1] == "WAITING"]
        for id, *alike, _ in waited:
            if now.get(id) == "WAITING":
                later = [
                    row[0]
                    for row in waited
                    if row[0] > id and row[1:-1] == tuple(alike)
                ]
                overtaking = [each for each in later if now.get(each) == "READY"]
                assert overtaking == [], (id, overtaking)

    @invariant()
    def what_may_start_has_started_after_two_passes(self):
        self.run_passes(2)
        for forgotten in (UNSEEN, FORGOTTEN_BY_LIMIT, FORGOTTEN_BY_LOCK):
            assert execute(forgotten) == []
        for id, line, key, number, ready in execute(FIRST_OF_RATES):
            assert self.started[key] + ready >= number, (id, line)
        for hand in self.hands:
            held = sum(each is hand for each, _ in self.claimed)
            names = [
                name
                for (name,) in execute(
                    "SELECT queue_name FROM pgjobs_job WHERE status = 'READY'"
                    " AND pgjobs_is_served(queue_name)"
                )
                if hand.row.serves(name)
            ]
            assert held >= hand.row.slots or names == []


@pytest.mark.slow
@pytest.mark.django_db
def test_what_may_start_does_so_within_two_passes_in_its_order():
    run_state_machine_as_test(
        OrderMachine,
        settings=settings(
            max_examples=80,
            stateful_step_count=15,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate],
        ),
    )
