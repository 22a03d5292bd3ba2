"""What the model does, the SQL does: its steps are replayed, and the rows compared."""

from collections.abc import Iterator

import pytest
from django.utils import timezone

from pgjobs.features.durable import queue
from pgjobs.models import Job, Step, Worker
from pgjobs.queue import admitting, recording, upkeep
from pgjobs.queue.recording import Success, Unsuccessful
from pgjobs.queue.upkeep import Batch
from tests.actors import Hand, admit, execute, hours
from tests.model.machine import DONE, MAX_ATTEMPTS, MAX_CRASHES, Machine, Scope
from tests.model.search import Found, search
from tests.model.test_model import SUCCESS_OR_RETRY
from tests.tasks import noop

pytestmark = pytest.mark.django_db

LONG_AGO = 100.0  # seconds, of a worker that fell silent
SLEEP = 3600.0  # seconds, of a job that was snoozed
WAY = {
    "kind": "answer",
    "label": None,
    "asked": {"schema": {"type": "string"}, "title": "", "permission": None},
}
WAIT = {"name": "ask", "seconds": SLEEP, "waiting_for": "answer", "ways": [WAY]}
SCOPES = {
    "two claims": Scope(1, None, lives=1, claims=2),
    "two lives": Scope(1, None, lives=2, claims=1, verdicts=SUCCESS_OR_RETRY),
    "lock": Scope(
        2, 1, 1, claims=2, verdicts=("RETRY", "SUCCESS"), has_operators=False
    ),
    "sleep": Scope(1, None, lives=2, claims=1, verdicts=("SNOOZE",)),
    "sleep in a lock": Scope(2, 1, lives=1, claims=1, verdicts=("SNOOZE",)),
    "wait": Scope(1, None, 1, claims=2, verdicts=("WAIT",), has_operators=False),
    "wait in two lives": Scope(1, None, lives=2, claims=1, verdicts=("WAIT",)),
    "wait in a lock": Scope(2, 1, 1, claims=1, verdicts=("WAIT",), has_operators=False),
    "expiry": Scope(1, None, 2, claims=1, verdicts=("RETRY",), has_expiry=True),
    "expiry in a lock": Scope(2, 1, 1, claims=1, verdicts=("RETRY",), has_expiry=True),
}


class Replay:
    """The jobs and workers of the model, as rows."""

    def __init__(self, scope: Scope):
        options = {"lock": "door"} if scope.most else {}
        options |= {"expires": hours(1)} if scope.has_expiry else {}
        options |= {"max_attempts": MAX_ATTEMPTS, "max_crashes": MAX_CRASHES}
        self.jobs = [noop.using(**options).enqueue().pk for _ in range(scope.jobs)]
        self.hands = [Hand("first"), Hand("second")]
        self.rescuer = Hand("rescuer")
        self.claimed = {}  # by worker, job, life and attempt

    def step(self, name: str, *what) -> None:
        getattr(self, name.replace(" ", "_"))(*what)

    def admit(self, number) -> None:
        admit()

    def promote(self, number) -> None:
        self.let_pass(number, "run_after")
        assert upkeep.promote(execute, self.only(number)).number == 1

    def pass_time(self, number) -> None:
        """Let the job expire; from now on no worker may claim it."""
        self.let_pass(number, "expires_at")
        self.hands[0].record_and_claim(limit=1, is_idle=True)

    def let_pass(self, number, column: str) -> None:
        past = timezone.now() - hours(1)
        Job.objects.filter(pk=self.jobs[number]).update(**{column: past})

    def expire(self, number) -> None:
        assert upkeep.expire(execute, self.only(number)) == [self.jobs[number]]

    def only(self, number) -> Batch:
        return Batch(only=[self.jobs[number]])

    def claim(self, worker, number) -> None:
        (job,) = self.hands[worker].record_and_claim(limit=1, is_idle=True).jobs
        assert job.id == self.jobs[number]
        self.claimed[worker, number, job.life, job.attempt] = job

    claim_unheard = claim

    def admit_and_claim(self, worker, number) -> None:
        hand = self.hands[worker]
        (job,) = admitting.record_and_admit(
            execute, hand.id, admitting.BEGINNING, True, claims=True, limit=1
        ).claimed
        assert job.id == self.jobs[number]
        self.claimed[worker, number, job.life, job.attempt] = job

    admit_and_claim_unheard = admit_and_claim

    def end(self, worker, number, life, attempt, verdict) -> None:
        """Do nothing: the worker alone knows."""

    def deliver(self, worker, number, life, attempt, verdict) -> None:
        job = self.claimed[worker, number, life, attempt]
        if verdict == "SUCCESS":
            success = Success(job.id, job.lease_token, None)
            self.hands[worker].record_and_claim(success)
        elif verdict == "WAIT":
            how = {"statement": "suspend", "stores": WAIT}
            outcome = Unsuccessful(job.id, job.lease_token, "SUSPEND", "", **how)
            self.hands[worker].record(outcome)
        else:
            sleep = SLEEP if verdict == "SNOOZE" else 0.0
            outcome = Unsuccessful(job.id, job.lease_token, verdict, "", delay=sleep)
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

    def run_now(self, number) -> None:
        Job.objects.get(pk=self.jobs[number]).run_now()

    def fail(self, number) -> None:
        Job.objects.get(pk=self.jobs[number]).fail("By hand.")

    def retry(self, number) -> None:
        Job.objects.get(pk=self.jobs[number]).retry()

    def retry_keeping(self, number) -> None:
        Job.objects.get(pk=self.jobs[number]).retry(keep_steps=True)

    def answer(self, number) -> None:
        assert Job.objects.get(pk=self.jobs[number]).answer("ask", "yes")

    def wake(self, number) -> None:
        """Look at all that a note tells, however late its look is due."""
        execute("UPDATE pgjobs_waitnote SET due_at = now()")
        assert queue.wake(execute).number == 1

    def time_out(self, number) -> None:
        execute(
            "UPDATE pgjobs_wait SET deadline = now() WHERE job_id = %(id)s",
            {"id": self.jobs[number]},
        )
        self.wake(number)

    def take(self, worker, number, life, attempt) -> None:
        job = self.claimed[worker, number, life, attempt]
        how = ("default", job.id, job.lease_token, "ask", [WAY])
        taken = queue.take_wait(*how)
        if taken.state == "offered":
            taken = queue.take_wait(*how, taken.answer["id"])
        assert taken.state in ("taken", "over")

    def fall_silent(self, worker) -> None:
        if Worker.objects.filter(pk=self.hands[worker].id).exists():
            self.hands[worker].fall_silent(LONG_AGO)

    die = fall_silent

    def beat(self, worker) -> None:
        self.hands[worker].beat()

    def rows(self) -> list[tuple]:
        """Return the jobs as the model has them."""
        owners = {hand.id: worker for worker, hand in enumerate(self.hands)}
        done = set(Step.objects.values_list("job_id", "life"))
        return [
            (
                job.status,
                owners.get(job.worker_id),
                job.attempts,
                job.failures,
                job.crashes,
                job.life,
                job.status == "RUNNING" and job.cancel_requested_at is not None,
                (job.pk, job.life) in done,
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
            job.wait in DONE,
        )
        for job in state.jobs
    ]


def causes(job) -> tuple:
    """Return what decides beside the status."""
    waits = job.wait, job.answers, job.is_late
    return job.is_cancelled, job.crashes, job.failures, job.expires, job.sleeps, *waits


def interesting(machine: Machine, found: Found) -> Iterator[list[tuple]]:
    """Yield the shortest way to each kind of step: what happens, and to what."""
    kinds = set()
    for state in found.came_from:
        for label, after in machine.steps(state):
            effects = tuple(
                (old.status, *causes(old), new.status)
                for old, new in zip(state.jobs, after.jobs, strict=True)
                if old != new
            )
            kind = (label[0], label[-1] if len(label) > 3 else "", effects)
            if label[0] != "end" and kind not in kinds:
                kinds.add(kind)
                yield [*found.path_to(state), label]


@pytest.mark.slow
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
