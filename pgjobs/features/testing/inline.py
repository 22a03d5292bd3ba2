"""The mode "inline": each job runs before the call that enqueues it returns."""

import contextlib
from collections.abc import Sequence
from contextvars import ContextVar

from ...conf import settings
from ...models.job import Job
from ..durable.queue import newest
from .caller import CallerWorker


def run_inserted(jobs: Sequence[Job]) -> None:
    """Run jobs that were just inserted; the instances are fresh afterwards.

    Raises what a task raises, after it is recorded. What has to wait stays in the
    queue. If the jobs were enqueued by a job that runs inline, what had to wait for
    that one runs as soon as it has ended.
    """
    ids = {job.pk for job in jobs}
    try:
        if run := running.get(None):
            run.waiting |= ids
            run.run(ids)
        else:
            database = jobs[0]._state.db or settings.DATABASE
            with CallerWorker(database, "inline") as worker:
                run = InlineRun(worker, ids)
                run.run(run.waiting)
    finally:
        refresh(jobs)


class InlineRun:
    """One call that enqueues, and all that its jobs enqueue."""

    def __init__(self, worker: CallerWorker, ids: set[int]):
        self.worker = worker
        self.waiting = ids  # jobs that have not begun

    def run(self, ids: set[int]) -> None:
        """Run those of the jobs that may run, in the worker's order."""
        self.worker.look_after()
        while job := self.worker.claim_among(sorted(ids & self.waiting)):
            self.waiting -= {
                each.id for each in (job.call.members if job.call else [job])
            }
            execution = self.worker.execution(job)
            execution.context.run(running.set, self)
            outcome = execution.run()
            if self.worker.record(execution, outcome)[0].status == "CONTINUED":
                successor = newest(self.worker.database, job.id)
                ids = ids | {successor}
                self.waiting.add(successor)
            if error := execution.unexpected(outcome):
                raise error
            self.worker.look_after()


def refresh(jobs: Sequence[Job]) -> None:
    for job in jobs:
        with contextlib.suppress(Job.DoesNotExist):
            job.refresh_from_db()


running: ContextVar[InlineRun] = ContextVar("pgjobs_inline_run")
