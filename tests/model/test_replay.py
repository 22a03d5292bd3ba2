"""What the model does, the SQL does: its steps are replayed, and the rows compared."""

from collections.abc import Iterator

import pytest

from pgjobs.models import Job, Worker
from pgjobs.queue import recording
from pgjobs.queue.recording import Success, Unsuccessful
from tests.actors import Hand, admit, execute
from tests.model.machine import MAX_ATTEMPTS, MAX_CRASHES, Machine, Scope
from tests.model.search import Found, search
from tests.model.test_model import SUCCESS_OR_RETRY
from tests.tasks import noop

pytestmark = pytest.mark.django_db

LONG_AGO = 100.0  # seconds, of a worker that fell silent
SCOPES = {
    "two claims": Scope(1, False, lives=1, claims=2),
    "two lives": Scope(1, False, lives=2, claims=1, verdicts=SUCCESS_OR_RETRY),
    "lock": Scope(
        2, True, 1, claims=2, verdicts=("RETRY", "SUCCESS"), has_operators=False
    ),
}


class Replay:
    """The jobs and workers of the model, as rows."""

    def __init__(self, scope: Scope):
        options = {"lock": "door"} if scope.has_lock else {}
        options |= {"max_attempts": MAX_ATTEMPTS, "max_crashes": MAX_CRASHES}
        self.jobs = [noop.using(**options).enqueue().pk for _ in range(scope.jobs)]
        self.hands = [Hand("first"), Hand("second")]
        self.rescuer = Hand("rescuer")
        self.claimed = {}  # by worker, job, life and attempt

    def step(self, name: str, *what) -> None:
        getattr(self, name.replace(" ", "_"))(*what)

    def admit(self, number) -> None:
        admit()

    def claim(self, worker, number) -> None:
        (job,) = self.hands[worker].record_and_claim(limit=1, is_idle=True).jobs
        assert job.id == self.jobs[number]
        self.claimed[worker, number, job.life, job.attempt] = job

    claim_unheard = claim

    def end(self, worker, number, life, attempt, verdict) -> None:
        """Do nothing: the worker alone knows."""

    def deliver(self, worker, number, life, attempt, verdict) -> None:
        job = self.claimed[worker, number, life, attempt]
        if verdict == "SUCCESS":
            success = Success(job.id, job.lease_token, None)
            self.hands[worker].record_and_claim(success)
        else:
            outcome = Unsuccessful(job.id, job.lease_token, verdict, "")
            self.hands[worker].record(outcome)

    deliver_unheard = deliver

    def release_orphan(self, worker, number) -> None:
        mine = self.hands[worker].id
        (orphan,) = recording.orphans(execute, mine, [])
        assert orphan.id == self.jobs[number]
        self.hands[worker].record(orphan)

    def rescue(self, number) -> None:
        self.rescuer.rescue()

    def cancel(self, number) -> None:
        Job.objects.get(pk=self.jobs[number]).cancel()

    def fail(self, number) -> None:
        Job.objects.get(pk=self.jobs[number]).fail("By hand.")

    def retry(self, number) -> None:
        Job.objects.get(pk=self.jobs[number]).retry()

    def fall_silent(self, worker) -> None:
        if Worker.objects.filter(pk=self.hands[worker].id).exists():
            self.hands[worker].fall_silent(LONG_AGO)

    die = fall_silent

    def beat(self, worker) -> None:
        self.hands[worker].beat()

    def rows(self) -> list[tuple]:
        """Return the jobs as the model has them."""
        owners = {hand.id: worker for worker, hand in enumerate(self.hands)}
        return [
            (
                job.status,
                owners.get(job.worker_id),
                job.attempts,
                job.failures,
                job.crashes,
                job.life,
                job.status == "RUNNING" and job.cancel_requested_at is not None,
            )
            for job in Job.objects.order_by("pk")
        ]


def rows_of(state) -> list[tuple]:
    return [
        (
            job.status,
            job.owner,
            job.attempts,
            job.failures,
            job.crashes,
            job.life,
            job.status == "RUNNING" and job.is_cancelled,
        )
        for job in state.jobs
    ]


def interesting(machine: Machine, found: Found) -> Iterator[list[tuple]]:
    """Yield the shortest way to each kind of step: what happens, and to what."""
    kinds = set()
    for state in found.came_from:
        for label, after in machine.steps(state):
            effects = tuple(
                (old.status, old.is_cancelled, old.crashes, old.failures, new.status)
                for old, new in zip(state.jobs, after.jobs, strict=True)
                if old != new
            )
            kind = (label[0], label[-1] if len(label) > 3 else "", effects)
            if label[0] != "end" and kind not in kinds:
                kinds.add(kind)
                yield [*found.path_to(state), label]


@pytest.mark.parametrize("scope", SCOPES.values(), ids=SCOPES)
def test_sql_does_at_each_step_what_the_model_does(scope):
    machine = Machine(scope)
    traces = list(interesting(machine, search(machine)))
    assert len(traces) > 20
    for trace in traces:
        Job.objects.all().delete()
        Worker.objects.all().delete()
        execute("DELETE FROM pgjobs_note")
        replay, state = Replay(scope), machine.beginning()
        for number, label in enumerate(trace):
            replay.step(*label)
            state = next(after for each, after in machine.steps(state) if each == label)
            assert replay.rows() == rows_of(state), trace[: number + 1]
