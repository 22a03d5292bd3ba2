"""A worker on the caller's connection: it claims, runs and records one job at a time.

Its statements are those of `runjobs`. So the same locks, limits, predecessors and
dependencies decide what may run, and in which order.
"""

from collections.abc import Sequence
from time import sleep
from typing import Any

from django.db import DatabaseError, connections, transaction

from ...models.job import Job
from ...queue import admitting, recording, upkeep
from ...queue.acts import announce_finished
from ...queue.admitting import BEGINNING, Admission
from ...queue.claiming import ClaimedJob, claim_all
from ...queue.recording import Completed, Outcome, Recorded, Success
from ...queue.statements import DjangoClient, array
from ...queue.upkeep import Batch
from ...sql import statement
from ...tasks.registry import registry
from ...tasks.running_job import RunningJob
from ...worker.observer import AttemptEnd
from ...worker.options import WorkerOptions
from ...worker.recorder import log_end
from ...worker.session import worker_row
from ...worker.slots.execution import Execution
from ...worker.slots.surroundings import Surroundings
from ...worker.upkeep.announcer import announcements
from ..chunks.chore import end_waits
from ..chunks.gathering import calls_of, chunks_of
from ..dependencies.chore import Deciding, log_failure
from ..dependencies.queue import BATCH
from ..durable.queue import end_lives, wake
from .execution import CallerCall, CallerExecution

LEASE = 86_400.0  # seconds: longer than any test
MOST_TRIES = 100  # of an admission, while another session admits
PAUSE = 0.02


class CallerWorker(Surroundings):
    """Registered as a worker for the length of a `with` block."""

    database: str

    def __init__(self, database: str, name: str, queues: Sequence[str] | None = None):
        super().__init__()
        self.database = database
        self.name = name
        self.queues = None if queues is None else list(queues)
        self.client = DjangoClient(database)
        self.execute = self.client.execute

    def __enter__(self) -> "CallerWorker":
        options = WorkerOptions(
            database=self.database,
            name=self.name,
            queues=None if self.queues is None else tuple(self.queues),
            slots=1,
        )
        row = {**worker_row(options), "lease": LEASE, "heartbeat_interval": LEASE}
        ((self.id,),) = self.execute(statement("register_worker"), row)
        return self

    def __exit__(self, kind, error, frames) -> None:
        with connections[self.database].cursor() as cursor:
            try:
                cursor.execute(statement("leave"), {"id": self.id, "how": "caller"})
            except DatabaseError:
                if error is None:  # or that one broke the transaction
                    raise

    # As the host of a job

    def began(self, execution: Execution) -> None:
        """Do nothing: nothing else waits for that."""

    def reported(self, job: RunningJob) -> None:
        """Do nothing: the report is stored when the job has ended."""

    def still_owned(self, job: RunningJob) -> bool:
        return recording.still_owned(self.database, job.id, job.lease_token)

    # Upkeep

    def look_after(self) -> None:
        """Do what workers do for all jobs: promote, expire, wake and admit."""
        upkeep.promote(self.execute, Batch(only=self.scheduled()))
        while end_waits(self.execute, self.queues):
            pass
        while wake(self.execute).has_more:
            pass
        self.finished(upkeep.expire(self.execute))
        self.finished(end_lives(self.execute))
        position = BEGINNING
        while True:
            admission = self.admission(position)
            self.finished(admission.ended)
            position = admission.position
            if admission.met_undecided and self.decide():
                continue
            if not (admission.has_more or position.line or position.link):
                return

    def scheduled(self) -> list[int] | None:
        """Return the ids of the scheduled jobs that it serves. None stands for all."""
        if self.queues is None:
            return None
        scheduled = Job.objects.using(self.database).scheduled()
        served = scheduled.filter(queue_name__in=self.queues)
        return list(served.values_list("pk", flat=True))

    def admission(self, position: admitting.Position) -> Admission:
        for _ in range(MOST_TRIES):
            admission = admitting.admit(self.execute, position, sweeps=True)
            if admission.admitted is not None:
                return admission
            self.refuse_isolation()
            sleep(PAUSE)
        raise RuntimeError(
            "Another session admits jobs all the time and does not commit: no job with "
            "a lock, limit, rate or predecessor can be admitted here."
        )

    def refuse_isolation(self) -> None:
        ((level,),) = self.execute("SHOW transaction_isolation", {})
        if level != "read committed":
            raise RuntimeError(
                f"The transaction is {level}, but jobs are admitted only in READ "
                "COMMITTED, which shows what other transactions have committed."
            )

    def decide(self) -> bool:
        """Decide for which jobs others wait; return whether any decision was made."""
        with transaction.atomic(using=self.database):
            decided = Deciding(self.execute, BATCH).run()
        failed = [job for job in decided if job.status == "FAILED"]
        for job in failed:
            log_failure(job)
        self.finished([job.id for job in failed])
        return bool(decided)

    def finished(self, ids: Sequence[int]) -> None:
        announce_finished(Job, self.database, ids)

    # Jobs

    def claim(self) -> ClaimedJob | None:
        """Claim the job that a worker with one free slot would claim."""
        jobs = claim_all(self.client, self.id, 1, self.finished, queues=self.queues)
        return self.with_others(jobs[0]) if jobs else None

    def with_others(
        self, job: ClaimedJob, among: Sequence[int] | None = None
    ) -> ClaimedJob:
        """Return a claimed job with those that share its call, if its task has calls.

        `among`: the ids of those that may. None stands for all.
        """
        if most := chunks_of({job.task}):
            (call,) = calls_of(self.execute, self.id, [job], most, among)
            return call.members[0]
        return job

    def claim_among(self, ids: Sequence[int]) -> ClaimedJob | None:
        """Claim that one of these jobs which a worker would claim first."""
        first = self.execute(statement("first_ready"), {"ids": array(ids)})
        parameters = {"ids": array(id for (id,) in first), "worker_id": self.id}
        rows = self.execute(statement("claim_these"), parameters) if first else []
        return self.with_others(ClaimedJob._make(rows[0]), ids) if rows else None

    def release(self, job: ClaimedJob) -> None:
        reason = "Released: it was not to run any more."
        jobs = job.call.members if job.call else [job]
        released = [recording.release(each, reason, has_begun=False) for each in jobs]
        recording.record(self.execute, self.id, self.name, released)

    def execution(self, job: ClaimedJob) -> CallerExecution:
        kind = CallerCall if job.call else CallerExecution
        return kind(job, registry.find(job.task), self)

    def record(self, execution: Any, outcome: Outcome) -> list[AttemptEnd]:
        """Store the outcome, and those of other jobs of its call; return the ends.

        The status of a job that is not ours any more is None.
        """
        members = getattr(execution, "members", [execution])
        reports = [each.running.take_report() for each in members]
        if stored := [report for report in reports if report]:
            recording.report(self.execute, self.id, stored)
        ends = [
            self.end(member.job, ended)
            for member, ended in zip(members, execution.each(outcome), strict=True)
        ]
        for announce in announcements(self.database, ends):
            announce()
        return ends

    def end(self, job: ClaimedJob, outcome: Outcome) -> AttemptEnd:
        if isinstance(outcome, Success):
            record = recording.record_successes
            recorded = record(self.execute, self.id, self.name, [outcome])
        elif isinstance(outcome, Completed):  # in another process, by itself
            recorded = [Recorded(outcome.lease_token, "SUCCESSFUL")]
        else:
            recorded = recording.record(self.execute, self.id, self.name, [outcome])
        end = AttemptEnd(job, dict(recorded).get(outcome.lease_token), outcome, 0.0)
        log_end(end)
        return end
