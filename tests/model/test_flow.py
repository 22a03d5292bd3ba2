"""A job gets the result of another one in its present life, and it is not lost."""

import json

import pytest

from pgjobs import chain, enqueue, result
from pgjobs.models import Job, Worker
from pgjobs.queue import upkeep
from pgjobs.queue.recording import Success, Unsuccessful
from pgjobs.sql import statement
from tests.actors import Hand, admit, execute
from tests.model.flow import NOT_YET, SOURCE, TAKER, UNFIT, Flow
from tests.model.machine import MAX_ATTEMPTS, MAX_CRASHES
from tests.model.search import search
from tests.model.test_replay import SLEEP, Replay, interesting, rows_of
from tests.tasks import echo

LEAST_STATES = 1_000
PRUNED = {"SUCCESSFUL": 0.0, "FAILED": 0.0, "CANCELLED": 0.0}


@pytest.mark.slow
def test_every_step_from_every_state_keeps_the_guarantees():
    found = search(Flow())
    assert len(found.came_from) > LEAST_STATES
    for name, (state, label) in found.broken.items():
        pytest.fail(f"{name}: {[*found.path_to(state), label]}")
    assert {tuple(found.path_to(state)) for state in found.stuck} == set()


# Bugs


class ReadAtFirst(Flow):
    """Give what the source had returned when it ended first."""

    def read(self, state):
        return 1


class ReadWhateverIsThere(Flow):
    """Ask for no success: a job before that failed, or runs again, gives nothing."""

    def read(self, state):
        return state.jobs[SOURCE].life


class StoreWithoutGuard(Flow):
    """Let a worker store what it has read although another one has the job."""

    def may_store(self, state, body):
        return True


class PruneOfWhatIsNamed(Flow):
    """Ask only whether the job after it waits."""

    def may_prune(self, state):
        return True


class BeginWithoutStoring(Flow):
    """Let a body begin with what its claim has read."""

    def informed(self, state, body):
        return super().informed(state, body)._replace(has_begun=True)


BUGS = [
    (ReadAtFirst, "a_claim_reads_the_result_of_the_present_life"),
    (ReadWhateverIsThere, "a_claim_reads_the_result_of_the_present_life"),
    (StoreWithoutGuard, "what_is_stored_stays"),
    (PruneOfWhatIsNamed, "what_is_named_is_kept"),
    (BeginWithoutStoring, "a_body_begins_with_what_is_stored"),
]


@pytest.mark.parametrize(("bug", "guarantee"), BUGS)
def test_bug_in_the_model_breaks_a_guarantee(bug, guarantee):
    assert guarantee in search(bug(), guarantee).broken


# The SQL


class FlowReplay(Replay):
    """A chain of two jobs, each in a queue of its own, so that a claim takes that."""

    def __init__(self):
        options = {"max_attempts": MAX_ATTEMPTS, "max_crashes": MAX_CRASHES}
        source = echo.using(queue_name="source", **options).bind(1)
        taker = echo.using(queue_name="taker", **options).bind(result)
        self.jobs = [job.pk for job in enqueue(chain(source, taker))]
        self.hands = [Hand("first"), Hand("second")]
        self.rescuer = Hand("rescuer")
        self.claimed = {}

    def claim(self, worker, number) -> None:
        queues = [("source", "taker")[number]]
        fetch = {"limit": 1, "is_idle": True, "queues": queues}
        (job,) = self.hands[worker].record_and_claim(**fetch).jobs
        assert job.id == self.jobs[number]
        self.claimed[worker, number, job.life, job.attempt] = job

    claim_unheard = claim

    def given(self, job) -> int:
        """Return what the model says of what a claim has read."""
        ((end,),) = [each["ends"] for each in json.loads(job.results).values()]
        if end["status"] == "SUCCESSFUL":
            return end["value"]
        return UNFIT if end["status"] in PRUNED else NOT_YET

    def deliver(self, worker, number, life, attempt, verdict) -> None:
        job = self.claimed[worker, number, life, attempt]
        if verdict == "SUCCESS":
            success = Success(job.id, job.lease_token, str(life))
            self.hands[worker].record_and_claim(success)
        else:
            delay = SLEEP if verdict == "SNOOZE" else 0.0
            outcome = Unsuccessful(job.id, job.lease_token, verdict, "", delay=delay)
            self.hands[worker].record(outcome)

    deliver_unheard = deliver

    def store(self, worker, number, life, attempt) -> None:
        job = self.claimed[worker, number, life, attempt]
        parameters = {
            "values": json.dumps({"value": self.given(job)}),
            "marks": "{}",
            "job_id": job.id,
            "lease_token": job.lease_token,
        }
        execute(statement("store_results"), parameters)

    def prune(self, number) -> None:
        admit()
        upkeep.prune(execute, PRUNED)

    def rows(self) -> list:
        rows = iter(super().rows())
        there = set(Job.objects.values_list("pk", flat=True))
        return [next(rows) if pk in there else None for pk in self.jobs]

    def stored(self) -> int:
        return Job.objects.get(pk=self.jobs[TAKER]).kwargs.get("value", 0)


@pytest.mark.slow
@pytest.mark.django_db
def test_sql_does_at_each_step_what_the_model_does():
    machine = Flow()
    traces = list(interesting(machine, search(machine)))
    assert len(traces) > 20
    for trace in traces:
        Job.objects.all().delete()
        Worker.objects.all().delete()
        execute("DELETE FROM pgjobs_note")
        replay, state = FlowReplay(), machine.beginning()
        for number, label in enumerate(trace):
            replay.step(*label)
            state = next(after for each, after in machine.steps(state) if each == label)
            expected = rows_of(state)
            if state.is_gone:
                expected[SOURCE] = None
            assert replay.rows() == expected, trace[: number + 1]
            assert replay.stored() == state.stored, trace[: number + 1]
            check_claim(replay, state, label)


def check_claim(replay: FlowReplay, state, label) -> None:
    if label[0] != "claim" or label[2] != TAKER or state.stored:
        return
    (body,) = [
        body
        for body in state.bodies
        if body.job == TAKER
        and not body.has_begun
        and body.worker == label[1]
        and body.token == state.jobs[TAKER].token
    ]
    job = replay.claimed[body.worker, TAKER, body.life, body.attempt]
    assert replay.given(job) == body.given
