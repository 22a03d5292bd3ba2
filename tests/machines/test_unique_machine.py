"""Unique keys as a state machine: whatever is done in whatever order, a simple model of
who holds which key says the same as the table.
"""

from copy import deepcopy
from dataclasses import dataclass

import pytest
from django.db.models import Case, When
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)

from pgjobs import enqueue_many
from pgjobs.conf import FINISHED
from pgjobs.exceptions import AlreadyEnqueued
from pgjobs.fields import HoldsKey
from pgjobs.models import Job, Worker
from pgjobs.models.job_choices import QUEUED
from pgjobs.queue import upkeep
from tests.actors import Hand, execute, hours
from tests.tasks import echo

WAYS = {"unfinished": "unfinished", "waiting": "waiting", "period": hours(1)}
REQUESTS = st.tuples(
    st.sampled_from(["a", "b", None]),
    st.sampled_from(sorted(WAYS)),
    st.sampled_from(["return", "return", "replace", "replace", "skip", "raise"]),
)


@dataclass
class Model:
    """What a row of the job table ought to be."""

    id: int
    key: str | None
    held: str
    value: int
    status: str = "READY"
    attempts: int = 0
    has_period: bool = False
    is_in_period: bool = False

    @property
    def holds_key(self) -> bool | None:
        if self.key is None:
            return None
        if self.held == "period":
            return self.has_period and self.status not in ("FAILED", "CANCELLED")
        is_queued_anew = self.status in QUEUED and not self.attempts
        return is_queued_anew or (
            self.held == "unfinished" and self.status not in FINISHED
        )

    @property
    def takes_key(self) -> bool:
        """Whether it would hold its key if it were retried."""
        return self.key is not None and (self.held != "period" or self.is_in_period)

    def retry(self) -> None:
        self.status, self.attempts = "READY", 0
        self.has_period = self.is_in_period

    @property
    def row(self) -> tuple:
        return self.status, self.attempts, self.value, self.holds_key, self.has_period


class Conflict(Exception):
    pass


class Keys(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        Job.objects.all().delete()
        Worker.objects.all().delete()
        self.models: dict[int, Model] = {}
        self.hand = Hand()
        self.leases = {}
        self.values = 0

    def holder(self, key, held, besides=None) -> Model | None:
        """Return who holds the key; there is never a second one."""
        holders = [
            model
            for model in self.models.values()
            if model.holds_key
            and (model.key, model.held) == (key, held)
            and model.id != besides
        ]
        assert len(holders) <= 1
        return holders[0] if holders else None

    # Enqueueing

    @rule(requests=st.lists(REQUESTS, min_size=1, max_size=4))
    def enqueue(self, requests):
        self.values += 10
        bound = [
            echo.using(
                max_attempts=1_000,
                unique_key=lambda value, key=key: key,
                unique_for=WAYS[held],
                on_conflict=on_conflict,
            ).bind(self.values + number)
            for number, (key, held, on_conflict) in enumerate(requests)
        ]
        before = deepcopy(self.models)
        try:
            expected = [
                self.enqueued(request, self.values + number, -1 - number)
                for number, request in enumerate(requests)
            ]
        except Conflict:
            # One alone may have made another give its key up: that stays.
            self.models = self.models if len(requests) == 1 else before
            with pytest.raises(AlreadyEnqueued):
                enqueue_many(bound)
            return
        jobs = enqueue_many(bound)
        ids = {}
        for model, job in zip(expected, jobs, strict=True):
            assert (model is None) is (job is None)
            if model is not None and model.id < 0:
                ids.setdefault(model.id, job.pk)
                model.id = job.pk
                self.models[job.pk] = model
        for id in ids:
            del self.models[id]
        for model, job in zip(expected, jobs, strict=True):
            if model is not None:
                assert (job.pk, job.kwargs["value"]) == (model.id, model.value)
                assert job.status == model.status

    def enqueued(self, request, value, id) -> Model | None:
        key, held, on_conflict = request
        holder = self.holder(key, held)
        if holder and held == "period" and not holder.is_in_period:
            holder.has_period = False
            holder = None
        if holder is None:
            is_period = key is not None and held == "period"
            model = Model(id, key, held, value, has_period=is_period)
            model.is_in_period = is_period
            self.models[id] = model
            return model
        if on_conflict == "raise":
            raise Conflict
        if on_conflict == "replace" and holder.status in QUEUED and not holder.attempts:
            holder.value = value
        return None if on_conflict == "skip" else holder

    # What becomes of jobs

    @rule(limit=st.integers(1, 3))
    def claim(self, limit):
        ready = sorted(m.id for m in self.models.values() if m.status == "READY")
        claimed = self.hand.claim(limit)
        assert [lease.id for lease in claimed] == ready[:limit]
        for lease in claimed:
            self.leases[lease.id] = lease
            self.models[lease.id].status = "RUNNING"
            self.models[lease.id].attempts += 1

    @rule(verdict=st.sampled_from(["SUCCESS", "FAIL", "RETRY", "RELEASE", "CANCEL"]))
    def record(self, verdict):
        for id, lease in self.leases.items():
            if verdict == "SUCCESS":
                assert self.hand.succeed(lease)
                self.models[id].status = "SUCCESSFUL"
            else:
                self.models[id].status = self.hand.set_back(lease, verdict)
        self.leases = {}

    @rule(dies=st.just(True))
    def rescue(self, dies):
        self.hand.vanish()
        self.hand = Hand("reborn")
        for id in self.leases:
            Job.objects.filter(pk=id).update(crashes=0)
            self.models[id].status = "READY"
        assert len(self.hand.rescue()) == len(self.leases)
        self.leases = {}

    @rule(data=st.data(), verb=st.sampled_from(["cancel", "fail", "retry", "retry"]))
    def act(self, data, verb):
        candidates = [m for m in self.models.values() if m.status != "RUNNING"]
        if not candidates:
            return
        model = data.draw(st.sampled_from(candidates))
        if verb == "retry":
            taken = model.takes_key and self.holder(model.key, model.held, model.id)
            expected = model.status in FINISHED and not taken
            if expected:
                model.retry()
        else:
            expected = model.status in QUEUED
            if expected:
                model.status = {"cancel": "CANCELLED", "fail": "FAILED"}[verb]
        assert getattr(Job.objects.get(pk=model.id), verb)() is expected

    @rule()
    def retry_all(self):
        finished = [m for m in self.models.values() if m.status in FINISHED]
        newest = {
            (m.key, m.held): m.id
            for m in sorted(finished, key=lambda m: m.id)
            if m.takes_key
        }
        retried = [
            model
            for model in finished
            if not model.takes_key
            or (
                newest[model.key, model.held] == model.id
                and not self.holder(model.key, model.held, model.id)
            )
        ]
        for model in retried:
            model.retry()
        total = len(self.models)
        assert Job.objects.all().retry() == (len(retried), total - len(retried))

    @rule(prune=st.booleans())
    def let_periods_pass(self, prune):
        over = "2020-01-01T00:00Z"
        Job.objects.filter(unique_until__isnull=False).update(unique_until=over)
        for model in self.models.values():
            model.is_in_period = False
        if prune:
            old = [m.id for m in self.models.values() if m.status in FINISHED]
            assert upkeep.prune(execute, dict.fromkeys(FINISHED, 0.0)) == len(old)
            for id in old:
                del self.models[id]

    # What must hold

    @invariant()
    def table_is_what_the_model_says(self):
        rows = Job.objects.annotate(
            holds_key=Case(When(unique_key__isnull=False, then=HoldsKey()))
        ).values_list(
            "pk", "status", "attempts", "kwargs__value", "holds_key", "unique_until"
        )
        table = {id: (*row, until is not None) for id, *row, until in rows}
        assert table == {id: model.row for id, model in self.models.items()}


@pytest.mark.django_db
def test_keys_are_held_as_the_model_says_whatever_happens():
    run_state_machine_as_test(
        Keys,
        settings=settings(
            max_examples=8,
            stateful_step_count=20,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
