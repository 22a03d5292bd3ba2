"""Decides for which jobs others have to wait, and enqueues those that are missing.

The database makes a job wait whose dependency has no recent success. Only Python knows
what its task depends on, and how to make such a job. So a worker decides: any worker,
but one at a time.
"""

import logging
from math import inf
from time import monotonic

import psycopg

from ...base.database_errors import is_of_row
from ...base.texts import in_a_log, storable
from ...exceptions import InvalidArguments, UnknownTask
from ...models.job import HIGHEST_PRIORITY
from ...queue.new_job import NewJob
from ...queue.statements import Execute
from ...tasks.arguments import Stored
from ...tasks.registry import registry
from ...tasks.sensitive import hiding_arguments
from ...worker.connections.connection import OwnConnection
from ...worker.job_log import described
from ...worker.slots.outcomes import LONGEST_REASON, describe
from ...worker.upkeep.chore import NOTHING, Chore, Effects
from . import queue
from .declare import Need, needs_of
from .queue import BATCH, Decided, Decision, Undecided, insert_or_find

logger = logging.getLogger("pgjobs.worker")

SOON = 0.05  # seconds until the next look while another transaction holds rows


class Depending(Chore):
    """Knows when jobs may wait for a decision, and decides."""

    name = "dependencies"
    woken_by = "undecided"
    makes_jobs = True

    def __init__(self) -> None:
        super().__init__()
        self.limit = BATCH

    def is_expecting(self, now: float) -> bool:
        return self.due < inf and not self.backoff.is_waiting(now)

    def run(self, connection: OwnConnection) -> Effects:
        """Decide about a batch of jobs."""
        deciding = Deciding(connection.execute, self.limit)
        try:
            with connection.transaction():
                decided = deciding.run()
        except psycopg.errors.LockNotAvailable:
            self.due = monotonic() + SOON
            return NOTHING
        except psycopg.Error as error:
            if not is_of_row(error):
                raise
            decided = self.blame(connection, deciding.jobs, error)
        else:
            self.limit = BATCH
        self.due = 0.0 if decided or self.limit == 1 else inf
        failed = [job for job in decided if job.status == "FAILED"]
        for job in failed:
            log_failure(job)
        # The jobs that were missing are READY, or wait for an admission.
        made = bool(decided)
        return Effects(ready=made, waiting=made, finished=[job.id for job in failed])

    def blame(
        self, connection: OwnConnection, jobs: list[Undecided], error: psycopg.Error
    ) -> list[Decided]:
        """Try job by job; fail the one whose decision cannot be stored."""
        if not jobs:
            raise error
        if len(jobs) > 1:
            self.limit = 1
            return []
        self.limit = BATCH
        failed = failure(jobs[0], describe(error))
        logger.error(
            "Job id=%s cannot wait for its dependencies: %s",
            jobs[0].id,
            in_a_log(str(failed.reason)),
        )
        return queue.carry_out(connection.execute, [failed])


CHORES = (Depending,)


def log_failure(job: Decided) -> None:
    logger.error(
        "Job id=%s task=%s FAILED: %s",
        job.id,
        in_a_log(job.task),
        in_a_log(job.reason),
        extra=described(job),
    )


class Deciding:
    """One transaction that decides about a batch."""

    def __init__(self, execute: Execute, limit: int):
        self.execute = execute
        self.limit = limit
        self.jobs: list[Undecided] = []
        self.attached: dict[int, dict] = {}  # what each job needs and provides
        self.needs: dict[int, list[Need]] = {}
        self.failures: dict[int, Decision] = {}
        self.coming: dict[str, int] = {}  # ids of jobs by the key of the need

    def run(self) -> list[Decided]:
        self.jobs = queue.undecided(self.execute, registry.names(), self.limit)
        if not self.jobs:
            return []
        for job in self.jobs:
            self.read(job)
        self.look_up()
        self.enqueue_missing()
        decisions = [self.decision(job) for job in self.jobs]
        return queue.carry_out(self.execute, decisions)

    def read(self, job: Undecided) -> None:
        """Remember what the job needs, by the present declaration of its task."""
        try:
            task = registry.get(job.task)
            stored = task.normalized(Stored(job.args, job.kwargs))
            self.attached[job.id] = task.options.dependencies_of(task, stored)
            self.needs[job.id] = needs_of(task, stored)
        except Exception as error:  # noqa: BLE001  (project code makes the values)
            self.fail(job, reason_of(error))

    def look_up(self) -> None:
        """Drop the needs that are met already."""
        wanted = {
            (need.key, need.seconds) for needs in self.needs.values() for need in needs
        }
        found = queue.look_up(self.execute, wanted) if wanted else {}
        for id, needs in self.needs.items():
            self.needs[id] = [
                need for need in needs if not found[need.key, need.seconds].is_met
            ]
        for (key, _), each in found.items():
            if each.coming is not None:
                self.coming[key] = each.coming

    def enqueue_missing(self) -> None:
        """Enqueue a job for each need that no job on its way meets."""
        new: dict[str, NewJob] = {}
        # Of several jobs with the same need, the most urgent one gives the priority.
        for job in sorted(self.jobs, key=lambda job: -job.priority):
            for need in self.needs.get(job.id, ()):
                if need.key in self.coming or need.key in new:
                    continue
                try:
                    new[need.key] = bind(need, job.priority)
                except Exception as error:  # noqa: BLE001  (keys, too)
                    self.fail(job, f"{cannot_enqueue(need)}: {reason_of(error)}")
                    break
        if new:
            ids = insert_or_find(self.execute, list(new.values()))
            self.coming |= {
                key: id for key, id in zip(new, ids, strict=True) if id is not None
            }

    def decision(self, job: Undecided) -> Decision:
        if job.id in self.failures:
            return self.failures[job.id]
        needs = self.needs[job.id]
        for need in needs:
            if need.key not in self.coming:
                taken = "another job holds its unique key, and has ended"
                return failure(job, f"{cannot_enqueue(need)}: {taken}")
        ids = [self.coming[need.key] for need in needs]
        return Decision(job.id, self.attached[job.id], list(dict.fromkeys(ids)))

    def fail(self, job: Undecided, reason: str) -> None:
        self.needs.pop(job.id, None)
        self.failures[job.id] = failure(job, reason)


def bind(need: Need, priority: int) -> NewJob:
    """Return the new job that will meet a need."""
    first = need.task.using(priority=min(priority + 1, HIGHEST_PRIORITY))
    return first.bind(**need.arguments).new_job


def cannot_enqueue(need: Need) -> str:
    return f"Cannot enqueue {need.task.name}, on which the job depends"


def reason_of(error: Exception) -> str:
    """Return what was wrong; for arguments, which of them have no value."""
    if not isinstance(error, InvalidArguments):
        reason = str(error) if isinstance(error, UnknownTask) else describe(error)
        return reason.rstrip(".")
    missing = [name for name, fault in error.faults.items() if fault == "is missing"]
    if len(missing) < len(error.faults):
        return str(error).rstrip(".")
    return f"no value for {', '.join(map(repr, missing))}"


def failure(job: Undecided, reason: str) -> Decision:
    hide = hiding_arguments(job.task, job.args, job.kwargs)
    return Decision(job.id, None, reason=storable(hide(f"{reason}."), LONGEST_REASON))
