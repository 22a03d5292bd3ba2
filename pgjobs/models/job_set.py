"""Sets of jobs: those of a status, and what may be done to many at once."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from django.db.models import Case, Q, When

from ..base.queue_database import QueueManager, QueueSet
from ..conf import FINISHED
from ..fields import HoldsKey
from ..queue import acts, claiming, inserting
from ..queue.acts import Changed
from ..queue.new_job import NewJob
from .job_choices import Status

if TYPE_CHECKING:
    from .job import Job

# The cheap part first: most jobs have no key.
HOLDS_KEY = Q(unique_key__isnull=False) & Q(HoldsKey())
# Nearly all jobs in a line wait. PostgreSQL does not know that: from an equality it
# would expect only a few, and read them all where a LIMIT asks for some.
IS_WAITING = Q(Case(When(status=Status.WAITING, then=True), default=False))


class JobQuerySet(QueueSet["Job"]):
    """Jobs to look at, and to act on as one.

    The acts change the jobs whose status allows it, skip the others, and return how
    many of each: `(changed, skipped)`. A `reason` is a text for people.
    """

    def ready(self):
        return self.filter(status=Status.READY)

    def scheduled(self):
        return self.filter(status=Status.SCHEDULED)

    def waiting(self):
        return self.with_status(Status.WAITING)

    def running(self):
        return self.filter(status=Status.RUNNING)

    def failed(self):
        return self.with_status(Status.FAILED)

    def finished(self):
        return self.filter(status__in=FINISHED, finished_at__isnull=False)

    def with_status(self, status):
        """Filter by a status, with the condition of its partial index."""
        if status in FINISHED:
            return self.filter(status=status, finished_at__isnull=False)
        if status == Status.WAITING:
            return self.filter(IS_WAITING, line__isnull=False)
        return self.filter(status=status)

    def some(self, most: int):
        """Filter `most` of the jobs: an aggregate then reads no more of them."""
        return self.model.objects.using(self.db).filter(pk__in=self.values("pk")[:most])

    def holding_keys(self):
        """Filter the jobs whose unique key no other job can have now."""
        return self.filter(HOLDS_KEY)

    def retry(self, *, keep_steps: bool = False, until: str | None = None) -> Changed:
        """Put finished jobs back in the queue, in a new life; return how many.

        - `keep_steps`: the new life goes on behind the steps that are finished, and has
          the same `key`.
        - `until`: keep the steps before this one. A job that has not finished it keeps
          all.
        """
        if keep_steps or until is not None:
            return acts.act("retry_keeping", self, until=until)
        return acts.act("retry", self)

    def cancel(self, reason: str = "") -> Changed:
        """Cancel jobs, ask running ones to stop, for a reason; return how many.

        Those that go on as other ones (`continue_as`) lead to the newest.
        """
        return acts.act("cancel", self, reason=reason or "Cancelled.")

    def fail(self, reason: str = "") -> Changed:
        """Fail unfinished jobs for a reason; return how many. Workers lose them."""
        return acts.act("fail", self, reason=reason or "Failed by hand.")

    def succeed(self, return_value: Any = None) -> Changed:
        """Finish unfinished jobs as successful; return how many. Workers lose them.

        Raises ValueError if `return_value` is not JSON.
        """
        return acts.act("succeed", self, return_value=return_value)

    def run_now(self) -> Changed:
        """Make scheduled jobs due at once; return how many."""
        return acts.act("run_now", self)

    def discard(self) -> Changed:
        """Delete jobs, but not the running ones; return how many.

        Django's `delete()` also deletes running jobs. Their workers find them gone.
        """
        return acts.act("discard", self)


class JobManager(QueueManager.from_queryset(JobQuerySet)):  # type: ignore[misc]
    def enqueue(self, task, /, *args, **kwargs) -> Any:
        """Insert a job of this task in the caller's transaction; return it, saved."""
        new_job = task.bind(*args, **kwargs).new_job
        jobs = self if self._db else self.db_manager(task.options.own_database)
        return jobs.insert([new_job])[0]

    def insert(self, new_jobs: Sequence[NewJob]) -> list[Any]:
        """Insert jobs, all or none; return them in the same order.

        Where another job holds the unique key, the list has what `on_conflict` returns.
        Raises AlreadyEnqueued.
        """
        return inserting.insert(self.model, self.db_to_write, new_jobs)

    def claim(
        self, worker, limit: int = 1, queues: Iterable[str] | None = None
    ) -> "list[Job]":
        """Claim up to `limit` READY jobs for a worker, atomically.

        `queues`: names of queues; None means all. The jobs come in their order of
        execution.
        """
        return claiming.claim(self.model, self.db, worker, limit, queues)
