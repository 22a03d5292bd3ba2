"""`run_jobs`: what a worker would do with the queue, inside of a test's transaction."""

import logging
from collections.abc import Sequence
from datetime import datetime, timedelta
from math import inf

from ...conf import FINISHED, settings
from ...models.job import Job
from ...models.job_choices import QUEUED
from ...queue.claiming import ClaimedJob
from .caller import CallerWorker
from .clock import QueueClock, seconds_until, warn_of_clock
from .execution import CallerExecution, CommitHooks, refuse_event_loop
from .isolated import CalledExecution, Children, children
from .replaying import replay_job

# Python prints warnings that nobody handles. A test gets the errors raised, or has
# asked for none.
logging.getLogger("pgjobs.job").addHandler(logging.NullHandler())

ENDED = (*FINISHED, "CONTINUED")
MOST_RUNS = 1_000  # unless the caller gives a limit
MOST_WAITS = 1_000  # one after the other, without a job between them


def run_jobs(
    *,
    queues: str | Sequence[str] | None = None,
    scheduled: bool = False,
    until: datetime | timedelta | None = None,
    with_retries: bool = False,
    raise_errors: bool = True,
    limit: int | None = None,
    database: str | None = None,
    replay: bool = False,
    isolated: bool = False,
) -> list[Job]:
    """Run the jobs that are ready, on this thread and connection; return them.

    They run as in a worker with one slot: in its order, and with the jobs that jobs
    enqueue. Locks, limits, rates, predecessors and dependencies decide as they always
    do. The list has a job for each attempt, as it is at the end.

    - `queues`: names; by default all.
    - `until`: let time pass, without sleeping, until this moment. A timedelta counts
      from now. `scheduled=True`: until nothing is scheduled any more.
    - `with_retries`: an attempt that failed is followed by the next one at once.
    - `raise_errors`: raise what a task raises, after it is recorded; with retries, only
      the last attempt's. Not raised are `Retry`, `Snooze`, `Cancel` and `Fail`.
    - `limit`: stop after this number of attempts. Without it, too many are an error.
    - `database`: the alias of another database whose jobs shall run.
    - `replay`: run each job that has waited once more when it has ended, with all its
      steps done. It may change nothing: what the server refuses, and each mail, raises
      AssertionError, which names the statement.
    - `isolated`: isolated tasks run in processes, which see what is committed.

    Raises RuntimeError if the jobs do not come to an end, or if a transaction hides
    them from processes; ValueError for an `until` that is no moment, or too far away.
    """
    __tracebackhide__ = True  # pytest goes from the test's line to the task's
    refuse_event_loop("run_jobs")
    database = database or settings.DATABASE
    seconds = inf if scheduled else seconds_until(until, database)
    if isinstance(queues, str):
        queues = [queues]
    warn_of_clock(database)
    with (
        settings.using_database_here(database),
        CallerWorker(database, "run_jobs", queues) as worker,
        QueueClock(worker, seconds) as clock,
        children(isolated, database) as processes,
    ):
        run = Run(worker, clock, with_retries, raise_errors, replay, processes)
        run.run(limit)
        return run.jobs


class Run:
    def __init__(
        self,
        worker: CallerWorker,
        clock: QueueClock,
        with_retries: bool,
        raise_errors: bool,
        replay: bool,
        processes: Children | None,
    ):
        self.worker = worker
        self.clock = clock
        self.with_retries = with_retries
        self.raise_errors = raise_errors
        self.replay = replay
        self.processes = processes
        self.ids: list[int] = []

    def run(self, limit: int | None) -> None:
        __tracebackhide__ = True
        most = MOST_RUNS if limit is None else limit
        while len(self.ids) < most and (job := self.next()):
            self.attempt(job)
        if limit is None and len(self.ids) == most and (job := self.next()):
            self.worker.release(job)
            raise RuntimeError(
                f"run_jobs() has run {most} jobs and there are more, such as "
                f"{job.task} #{job.id}. Does a task enqueue itself again and again? "
                "Say how many to run: limit=..."
            )

    def next(self) -> ClaimedJob | None:
        """Claim the next job; let time pass if none is ready."""
        for _ in range(MOST_WAITS):
            self.worker.look_after()
            job = self.worker.claim()
            if job or not self.clock.advance():
                return job
        return None

    def attempt(self, job: ClaimedJob) -> None:
        __tracebackhide__ = True
        hooks = CommitHooks()
        execution = self.execution(job)
        outcome = execution.run()
        ends = self.worker.record(execution, outcome)
        self.ids += [end.job.id for end in ends]
        hooks.run()
        again = [end for end in ends if end.status in QUEUED and self.with_retries]
        retried = [
            end.job.id
            for end in again
            if getattr(end.outcome, "verdict", "") == "RETRY"
        ]
        if retried:
            Job.objects.filter(pk__in=retried).run_now()
        error = execution.unexpected(outcome)
        if error is not None and self.raise_errors and not again:
            raise error
        may_replay = self.replay and error is None and ends[0].status in ENDED
        if may_replay and isinstance(execution, CallerExecution):
            replay_job(self.worker, execution)

    def execution(self, job: ClaimedJob) -> CallerExecution | CalledExecution:
        isolated = self.processes and self.processes.execution(job)
        return isolated or self.worker.execution(job)

    @property
    def jobs(self) -> list[Job]:
        """The jobs that ran, as they are now; without those that are deleted."""
        found = Job.objects.in_bulk(self.ids)
        return [found[id] for id in self.ids if id in found]
