"""Successions of jobs that go on as others, as a state machine.

Jobs wait for any job of a succession, also for one that has gone on long ago, or whose
row is gone. None of them may run before the last has ended, and each runs then.
"""

import json

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from hypothesis.stateful import run_state_machine_as_test as run

from pgjobs.models import Job, Predecessor, Worker
from pgjobs.queue import recording
from pgjobs.queue.claiming import ClaimedJob
from pgjobs.queue.recording import Unsuccessful
from tests.actors import Hand, admit, execute
from tests.features.durable import bodies
from tests.support.declared import store_definitions

SUCCESSIONS = st.integers(0, 1)


class Successions(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        for model in (Job, Predecessor, Worker):
            model.objects.all().delete()
        self.hand = Hand()
        # The ids of each, the newest last.
        self.successions = [[bodies.numbered.enqueue().pk] for _ in range(2)]
        self.running: dict[int, ClaimedJob] = {}
        self.ends: dict[int, str] = {}  # of the newest
        self.waiting: dict[int, set[int]] = {}  # for which a job waits

    def claim(self) -> None:
        for job in self.hand.record_and_claim(limit=10, is_idle=True).jobs:
            number = next((n for n in (0, 1) if job.id in self.successions[n]), None)
            if number is not None:
                self.running[number] = job
            else:
                self.hand.succeed(job)

    @rule(number=SUCCESSIONS)
    def go_on(self, number: int) -> None:
        self.claim()
        if (job := self.running.pop(number, None)) is None:
            return
        stores = {"args": "[]", "kwargs": json.dumps({"number": 1}), "keys": {}}
        outcome = Unsuccessful(
            job.id,
            job.lease_token,
            "SUSPEND",
            "",
            statement="continue_as",
            stores=stores,
        )
        assert recording.record(execute, self.hand.id, "hand", [outcome])
        self.successions[number].append(Job.objects.get(pk=job.id).newest().pk)

    @rule(number=SUCCESSIONS, succeeds=st.booleans())
    def end(self, number: int, succeeds: bool) -> None:
        self.claim()
        if (job := self.running.pop(number, None)) is None:
            return
        if succeeds:
            self.hand.succeed(job)
        else:
            self.hand.set_back(job, "FAIL")
        self.ends[number] = "SUCCESSFUL" if succeeds else "FAILED"

    @rule(
        members=st.lists(
            st.tuples(SUCCESSIONS, st.integers(0, 3)), min_size=1, max_size=3
        )
    )
    def come(self, members: list[tuple[int, int]]) -> None:
        """Enqueue a job behind members of successions, which may be gone."""
        ids = {
            self.successions[n][min(age, len(self.successions[n]) - 1)]
            for n, age in members
        }
        # A row that is gone, and is not the first, leads nowhere.
        known = set(Job.objects.values_list("pk", flat=True))
        ids &= known | {each[0] for each in self.successions}
        if not ids:
            return
        keys = json.dumps({"after": sorted(ids), "needs": "end"})
        ((id,),) = execute(
            "INSERT INTO pgjobs_job (task, keys) VALUES ('durable.child', %(keys)s) "
            "RETURNING id",
            {"keys": keys},
        )
        self.waiting[id] = {
            n for n, each in enumerate(self.successions) if ids & {*each}
        }

    @precondition(lambda self: len(self.successions[0]) > 1)
    @rule(place=st.integers(0, 3))
    def prune(self, place: int) -> None:
        """Delete a row that has gone on, unless a job has still to look at it."""
        id = self.successions[0][min(place, len(self.successions[0]) - 2)]
        named = Job.objects.filter(keys__after__contains=id, line="unlinked")
        links = Predecessor.objects.filter(predecessor_id=id, is_open=True)
        if place == 0 or not (named.exists() or links.exists()):
            Job.objects.filter(pk=id).delete()

    @rule()
    def admit(self) -> None:
        admit(sweeps=False)

    @invariant()
    def nobody_runs_too_early(self) -> None:
        early = Job.objects.filter(pk__in=self.waiting).exclude(status="WAITING")
        for id in early.values_list("pk", flat=True):
            assert self.waiting[id] <= self.ends.keys()

    def old_ids_find_the_newest(self) -> None:
        for each in self.successions:
            for job in Job.objects.filter(pk__in=each):
                assert job.newest().pk == each[-1]

    def teardown(self) -> None:
        for number in (0, 1):
            if number not in self.ends:
                self.end(number, True)
        self.old_ids_find_the_newest()
        for _ in range(3):
            admit(sweeps=False)
            self.claim()
        left = Job.objects.filter(pk__in=self.waiting).exclude(status="SUCCESSFUL")
        assert not left.exists(), list(left.values("status", "line", "keys"))


@pytest.mark.django_db(
    transaction=True, available_apps=["pgjobs", "tests", "tests.features.durable"]
)
def test_who_waits_for_any_job_of_a_succession_waits_for_its_end():
    store_definitions()
    run(
        Successions,
        settings=settings(
            max_examples=60,
            stateful_step_count=20,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
