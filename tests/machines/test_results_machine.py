"""Results as a state machine: no value of another life, and none that is lost.

Sources end, fail, are retried and pruned, in any order, while successors that name
their results come, are claimed, die before their value is stored, and end.
"""

import json

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from hypothesis.stateful import run_state_machine_as_test as run

from pgjobs import enqueue, group, result, results
from pgjobs.models import Batch, Job, Predecessor, Worker
from pgjobs.queue import upkeep
from pgjobs.queue.claiming import ClaimedJob
from pgjobs.sql import statement
from tests.actors import Hand, admit, execute
from tests.tasks import echo, pair

SOURCES = st.integers(0, 2)
PRUNED = {"SUCCESSFUL": 0.0, "FAILED": 0.0, "CANCELLED": 0.0}
WAYS = ("store", "die", "fail", "end")
OPTIONS = ({}, {"lock": "door"}, {"max_running": 1}, {"after_failure": "run"})


class Results(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        for model in (Job, Predecessor, Worker, Batch):
            model.objects.all().delete()
        self.hand = Hand()
        self.batch = enqueue(group([echo.bind(0), echo.bind(1)]))
        members = Job.objects.filter(batch=self.batch).order_by("pk")
        # Two are members of a group, one is alone.
        self.sources = [*members.values_list("pk", flat=True), enqueue(echo, 2).pk]
        self.values: dict[int, int] = {}  # of the present life, by source
        self.running: dict[int, ClaimedJob] = {}
        self.number = 0  # of the last result: each is another one
        self.stored: dict[int, object] = {}  # what successors have got

    # Sources

    @rule(which=SOURCES, succeeds=st.booleans())
    def end_source(self, which: int, succeeds: bool) -> None:
        self.claim()
        id = self.sources[which]
        if (job := self.running.pop(id, None)) is None:
            return
        if succeeds:
            self.number += 1
            assert self.hand.succeed(job, json.dumps(self.number))
            self.values[id] = self.number
        else:
            assert self.hand.set_back(job, "FAIL")

    @rule(which=SOURCES)
    def retry(self, which: int) -> None:
        id = self.sources[which]
        if Job.objects.filter(pk=id).retry():
            self.values.pop(id, None)

    @rule()
    def prune(self) -> None:
        upkeep.prune(execute, PRUNED)

    # Successors

    @rule(options=st.sampled_from(OPTIONS), of_all=st.booleans())
    def come(self, options: dict, of_all: bool) -> None:
        sources = Job.objects.filter(pk__in=self.sources)
        alone = sources.filter(pk=self.sources[2]).first()
        if of_all and sources.filter(batch=self.batch).count() == 2:
            pair.using(after=self.batch, **options).enqueue(results)
        elif alone is not None:
            pair.using(after=alone, **options).enqueue(result)

    @rule()
    def claim(self) -> None:
        admit()
        for job in self.hand.record_and_claim(limit=20, is_idle=True).jobs:
            self.running[job.id] = job
            if job.results is not None:
                self.check_value(job)

    def check_value(self, job: ClaimedJob) -> None:
        """A claim brings what the present lives of the jobs before have returned.

        Of a job that was retried after the first claim it may bring no success.
        """
        assert job.results is not None
        found = json.loads(job.results)["first"]
        for end in found["ends"]:
            if end["status"] == "SUCCESSFUL":
                assert end["value"] == self.values[end["id"]]
            elif job.attempt == 1:
                assert end["status"] in ("FAILED", "CANCELLED")
                assert found["needs"] == "end"

    @rule(
        number=st.integers(0, 5), way=st.sampled_from(["store", "die", "fail", "end"])
    )
    def go_on(self, number: int, way: str) -> None:
        """Let a running successor store its value, or end, or lose its worker."""
        successors = sorted(self.running.keys() - {*self.sources})
        if not successors:
            return
        job = self.running[successors[number % len(successors)]]
        if way == "store" and job.results is not None and is_fit(job):
            self.store(job)
        elif way == "die":
            self.die()
        else:
            del self.running[job.id]
            self.hand.succeed(job) if way == "end" else self.hand.set_back(job, "FAIL")

    def store(self, job: ClaimedJob) -> None:
        values = [end["value"] for end in json.loads(job.results)["first"]["ends"]]
        parameters = {
            "values": json.dumps({"first": values}),
            "marks": "{}",
            "job_id": job.id,
            "lease_token": job.lease_token,
        }
        assert execute(statement("store_results"), parameters) == [(1,)]
        self.stored[job.id] = values
        self.running[job.id] = job._replace(results=None)

    def die(self) -> None:
        self.hand.vanish()
        self.hand = Hand()
        while self.hand.rescue():
            pass
        self.running.clear()

    # What always holds

    @invariant()
    def what_is_named_is_kept(self) -> None:
        unfinished = Job.objects.filter(finished_at=None, keys__has_key="results")
        for job in unfinished:
            named = job.keys["results"]["first"]
            if "jobs" in named:
                assert Job.objects.filter(pk__in=named["jobs"]).exists()
            else:
                assert Job.objects.filter(batch=named["batch"]).count() == 2

    @invariant()
    def ready_jobs_have_their_values(self) -> None:
        """But for those that have run before a retry, and lost their worker."""
        ready = Job.objects.filter(status="READY", attempts=0)
        ready = ready.filter(keys__has_key="results")
        for job in ready:
            named = job.keys["results"]["first"]
            sources = Job.objects.filter(pk__in=named.get("jobs", []))
            if "batch" in named:
                sources = Job.objects.filter(batch=named["batch"])
            assert not sources.filter(finished_at=None).exists()

    @invariant()
    def stored_values_stay(self) -> None:
        for job in Job.objects.filter(pk__in=self.stored):
            assert job.kwargs["first"] == self.stored[job.pk]

    def teardown(self) -> None:
        """At the end each successor begins, or is told why it cannot."""
        for _ in range(6 + Job.objects.count()):  # of a limit one at a time
            for which in range(3):
                self.end_source(which, True)
            for job in [*self.running.values()]:
                del self.running[job.id]
                self.hand.succeed(job)
        left = Job.objects.filter(finished_at=None)
        assert not left.exists(), list(left.values("status", "line", "keys"))


def is_fit(job: ClaimedJob) -> bool:
    """Whether a slot would store what the claim has brought."""
    found = json.loads(job.results)["first"]
    statuses = {end["status"] for end in found["ends"]}
    if found["needs"] == "success":
        return statuses == {"SUCCESSFUL"}
    return statuses <= {"SUCCESSFUL", "FAILED", "CANCELLED"}


@pytest.mark.slow
@pytest.mark.django_db(transaction=True, available_apps=["pgjobs", "tests"])
def test_no_value_is_of_another_life_and_none_is_lost():
    run(
        Results,
        settings=settings(
            max_examples=60,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
