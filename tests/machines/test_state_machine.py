"""The state machine: whatever the actors do, the table is what a simple model says.

The actors are two workers (that die and come back), an operator and time. Each step is
one of the real statements; after each the whole table is compared with the model.
"""

from dataclasses import dataclass, field

import pytest
from django.utils import timezone
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
    run_state_machine_as_test,
)

from pgjobs.conf import FINISHED
from pgjobs.models import Attempt, Job, Worker
from pgjobs.models.job_choices import QUEUED
from pgjobs.queue import upkeep
from pgjobs.queue.claiming import ClaimedJob
from tests.actors import Hand, execute, hours
from tests.tasks import noop

OUTCOMES = {
    "FAIL": "FAILED",
    "RETRY": "FAILED",
    "SNOOZE": "SNOOZED",
    "CANCEL": "CANCELLED",
    "RELEASE": "RELEASED",
    "UNKNOWN": "RELEASED",
}
VERDICTS = ["SUCCESS", "RETRY", *OUTCOMES]
ACTS = ["cancel", "fail", "succeed", "retry", "retry", "run_now"]
WORKERS = st.integers(0, 1)
LIMITS = st.integers(1, 4)
KINDS = st.fixed_dictionaries(
    {
        "priority": st.integers(-1, 1),
        "max_attempts": st.integers(1, 3),
        "max_crashes": st.sampled_from([1, 2, 3, 3]),
        "later": st.sampled_from([False, False, True]),
    }
)


@dataclass
class Model:
    """What a row of the job table ought to be."""

    id: int
    priority: int
    max_attempts: int
    max_crashes: int
    status: str
    is_due: bool = True  # its run_after does not lie in the future
    life: int = 1
    attempts: int = 0
    failures: int = 0
    crashes: int = 0
    token: int = 0
    worker: int | None = None
    cancel_requested: bool = False
    has_new_token: bool = False  # that only the database knows so far
    history: list[tuple[int, int, str]] = field(default_factory=list)

    @property
    def is_last_chance(self) -> bool:
        return self.crashes + 1 >= self.max_crashes

    @property
    def row(self) -> tuple:
        return (
            self.status,
            self.life,
            self.attempts,
            self.failures,
            self.crashes,
            self.token,
            self.worker,
            self.cancel_requested,
            self.status in FINISHED,
            self.attempts > 0,
        )

    def claim(self, lease: ClaimedJob, worker: int) -> None:
        self.status = "RUNNING"
        self.attempts += 1
        self.token = lease.lease_token
        self.worker = worker

    def end_attempt(self, status: str, outcome: str | None = None) -> None:
        self.status = status
        self.worker = None
        if outcome:
            self.history.append((self.life, self.attempts, outcome))

    def set_back(self, verdict: str, delay: float) -> None:
        if verdict in ("FAIL", "RETRY"):
            self.failures += 1
        if self.cancel_requested or verdict == "CANCEL":
            status = "CANCELLED"
        elif verdict == "FAIL" or (
            verdict == "RETRY" and self.failures >= self.max_attempts
        ):
            status = "FAILED"
        else:
            status = "SCHEDULED" if delay else "READY"
            self.is_due = self.is_due if not delay else False
        self.end_attempt(status, OUTCOMES[verdict])

    def rescue(self) -> None:
        self.crashes += 1
        if self.cancel_requested:
            status = "CANCELLED"
        else:
            status = "FAILED" if self.crashes >= self.max_crashes else "READY"
        self.has_new_token = True
        self.end_attempt(status, "CRASHED")

    def act(self, verb: str) -> bool:
        """Do what the operator asks, where the status allows it."""
        allowed = {
            "cancel": (*QUEUED, *(() if self.cancel_requested else ("RUNNING",))),
            "fail": (*QUEUED, "RUNNING"),
            "succeed": (*QUEUED, "RUNNING"),
            "retry": FINISHED,
            "run_now": ("SCHEDULED",),
        }
        if self.status not in allowed[verb]:
            return False
        getattr(self, f"{verb}_by_hand")()
        return True

    def cancel_by_hand(self) -> None:
        if self.status == "RUNNING":
            self.cancel_requested = True
        else:
            self.status = "CANCELLED"

    def fail_by_hand(self) -> None:
        self.has_new_token = ran = self.status == "RUNNING"
        self.end_attempt("FAILED", "FAILED" if ran else None)

    def succeed_by_hand(self) -> None:
        self.has_new_token = self.status == "RUNNING"
        self.end_attempt("SUCCESSFUL")

    def retry_by_hand(self) -> None:
        self.status = "READY" if self.is_due else "SCHEDULED"
        self.life += 1
        self.attempts = self.failures = self.crashes = 0
        self.cancel_requested = False

    def run_now_by_hand(self) -> None:
        self.status, self.is_due = "READY", True


class Queue(RuleBasedStateMachine):
    leases = Bundle("leases")  # every lease that ever was: (hand, claimed job)

    def __init__(self):
        super().__init__()
        Job.objects.all().delete()
        Worker.objects.all().delete()
        self.models: dict[int, Model] = {}
        self.hands = [Hand("one"), Hand("two")]
        self.highest_token = -1

    # What happens. Few rules that do much: of each run Hypothesis leaves some out.

    @initialize(target=leases, kinds=st.lists(KINDS, min_size=3, max_size=6))
    def begin(self, kinds):
        for kind in kinds:
            self.enqueue(**kind)
        return self.claim_and_compare(0, limit=2, is_idle=True)

    @rule(
        target=leases, kind=KINDS, worker=WORKERS, limit=LIMITS, is_idle=st.booleans()
    )
    def enqueue_and_claim(self, kind, worker, limit, is_idle):
        self.enqueue(**kind)
        return self.claim_and_compare(worker, limit, is_idle)

    @rule(target=leases, worker=WORKERS, limit=LIMITS, is_idle=st.booleans())
    def claim(self, worker, limit, is_idle):
        return self.claim_and_compare(worker, limit, is_idle)

    @rule(
        held=leases, verdict=st.sampled_from(VERDICTS), delay=st.sampled_from([0, 60])
    )
    def record(self, held, verdict, delay):
        """Record an outcome, of whatever lease there ever was."""
        hand, lease = held
        model = self.owned(hand, lease)
        if verdict == "SUCCESS":
            assert hand.succeed(lease, "1") is (model is not None)
            if model:
                model.end_attempt("SUCCESSFUL")
            return
        if model:
            model.set_back(verdict, delay)
        expected = model and model.status
        assert hand.set_back(lease, verdict, "why", delay=delay) == expected

    @rule(dead=WORKERS, rescuer=WORKERS, how=st.sampled_from(["no", "row", "silence"]))
    def die_and_rescue(self, dead, rescuer, how):
        """A worker dies; what its zombie may still do, its leases will show."""
        if how == "row":
            self.hands[dead].vanish()
        elif how == "silence":
            self.hands[dead].fall_silent(3600)
        if how != "no":
            self.hands[dead] = Hand("reborn")
            return
        alive = {hand.id for hand in self.hands}
        lost = [
            model
            for model in self.models.values()
            if model.status == "RUNNING" and model.worker not in alive
        ]
        for model in lost:
            model.rescue()
        rescued = {(each.id, each.status) for each in self.hands[rescuer].rescue()}
        assert rescued == {(model.id, model.status) for model in lost}

    @precondition(lambda self: self.models)
    @rule(data=st.data(), verb=st.sampled_from(ACTS), on_all=st.sampled_from([0, 0, 1]))
    def operate(self, data, verb, on_all):
        if on_all:
            changed = sum(model.act(verb) for model in self.models.values())
            result = getattr(Job.objects.all(), verb)()
            assert result == (changed, len(self.models) - changed)
        else:
            model = self.models[data.draw(st.sampled_from(sorted(self.models)))]
            expected = model.act(verb)
            assert getattr(Job.objects.get(pk=model.id), verb)() is expected

    @rule(passes=st.booleans(), prune=st.sampled_from([0, 0, 0, 1]))
    def maintain(self, passes, prune):
        """Promote what is due, after all that waits became due or before."""
        if passes:
            past = timezone.now() - hours(1)
            Job.objects.filter(run_after__isnull=False).update(run_after=past)
            for model in self.models.values():
                model.is_due = True
        due = [
            model
            for model in self.models.values()
            if model.status == "SCHEDULED" and model.is_due
        ]
        for model in due:
            model.status = "READY"
        assert upkeep.promote(execute) == (len(due), False)
        if prune:
            old = [id for id, model in self.models.items() if model.status in FINISHED]
            assert upkeep.prune(execute, dict.fromkeys(FINISHED, 0.0)) == len(old)
            for id in old:
                del self.models[id]

    def enqueue(self, later: bool, **options) -> None:
        job = noop.using(run_after=hours(1) if later else None, **options).enqueue()
        status = "SCHEDULED" if later else "READY"
        self.models[job.pk] = Model(
            id=job.pk, status=status, is_due=not later, **options
        )

    def claim_and_compare(self, worker: int, limit: int, is_idle: bool):
        hand = self.hands[worker]
        ready = [model for model in self.models.values() if model.status == "READY"]
        ready.sort(key=lambda model: (-model.priority, model.id))
        expected: list[Model] = []
        for model in ready[:limit]:
            if model.is_last_chance:
                expected += [model] if is_idle and not expected else []
                break
            expected.append(model)
        claimed = hand.claim(limit, is_idle=is_idle)
        assert [lease.id for lease in claimed] == [model.id for model in expected]
        for model, lease in zip(expected, claimed, strict=True):
            assert lease.lease_token > self.highest_token
            model.claim(lease, hand.id)
        tokens = [lease.lease_token for lease in claimed]
        self.highest_token = max([self.highest_token, *tokens])
        return multiple(*((hand, lease) for lease in claimed))

    def owned(self, hand: Hand, lease: ClaimedJob) -> Model | None:
        """Return the model of a job whose lease this still is."""
        model = self.models.get(lease.id)
        if model and (model.token, model.worker) == (lease.lease_token, hand.id):
            return model
        return None

    # What must hold

    @invariant()
    def table_is_what_the_model_says(self):
        rows = Job.objects.order_by("pk").values_list(
            "pk",
            "status",
            "life",
            "attempts",
            "failures",
            "crashes",
            "lease_token",
            "worker_id",
            "cancel_requested_at",
            "finished_at",
            "started_at",
        )
        table = {id: [*row] for id, *row in rows}
        assert table.keys() == self.models.keys()
        for id, row in table.items():
            model = self.models[id]
            if model.has_new_token:
                assert row[5] > self.highest_token
                model.token, model.has_new_token = row[5], False
            times = [time is not None for time in row[7:]]
            assert (*row[:7], *times) == model.row
        self.highest_token = max(
            [self.highest_token, *(row[5] for row in table.values())]
        )

    @invariant()
    def every_unsuccessful_attempt_is_stored_once(self):
        noted: dict[int, list] = {id: [] for id in self.models}
        attempts = Attempt.objects.order_by("job_id", "life", "number")
        for id, *attempt in attempts.values_list("job_id", "life", "number", "outcome"):
            noted[id].append(tuple(attempt))
        assert noted == {id: model.history for id, model in self.models.items()}

    @invariant()
    def counters_are_in_their_bounds(self):
        for model in self.models.values():
            assert model.failures + model.crashes <= model.attempts
            assert model.failures <= model.max_attempts
            assert model.crashes <= model.max_crashes
            assert not (model.cancel_requested and model.status in QUEUED)


@pytest.mark.slow
@pytest.mark.django_db
def test_table_follows_the_model_whatever_happens():
    run_state_machine_as_test(
        Queue,
        settings=settings(
            max_examples=50,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
