"""The job: one request to run a task, and what may be done to it."""

import contextlib
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING, Any

from django.db import models
from django.db.models import F, Q
from django.db.models.base import ModelState
from django.db.models.fields.json import KeyTextTransform, KeyTransform
from django.db.models.functions import Coalesce
from django.utils.translation import gettext_lazy as _

from ..base.addresses import status_url
from ..base.queue_database import database_of_acts
from ..conf import FINISHED
from ..features import entries
from ..fields import ChunkKey
from ..queue import waiting
from .job_columns import JobColumns
from .job_set import HOLDS_KEY, JobManager
from .returning import Returning, Value

if TYPE_CHECKING:
    from ..signatures import JobMethods
else:
    JobMethods = type("JobMethods", tuple(entries("job", "METHODS")), {})

LOWEST_PRIORITY, HIGHEST_PRIORITY = -100, 100


class Job(JobMethods, JobColumns, Returning[Value]):
    """One request to run a task.

    `enqueue` and SQL insert rows. The acts below, and workers, change them. `save()` of
    a stored job takes `update_fields`.
    """

    objects = JobManager()

    # Whether this instance is what `enqueue` has inserted: not a job that held the
    # unique key before, and not one that was read.
    is_new = False

    class Meta:
        verbose_name = _("job")
        verbose_name_plural = _("jobs")
        db_table_comment = (
            "Requests to run a task. enqueue and SQL insert them; functions, acts "
            "and workers change them."
        )
        permissions = [
            ("retry_job", _("Can retry jobs")),
            ("cancel_job", _("Can cancel jobs")),
            ("fail_job", _("Can fail jobs and mark them as successful")),
            ("run_job_now", _("Can run scheduled jobs now")),
            ("view_job_arguments", _("Can see the arguments and results of jobs")),
        ]
        indexes = [
            # In exactly the order of a claim, which reads nothing else, for each number
            # of process units: the jobs that take more than a host has left stand apart
            # from those for which it has room.
            models.Index(
                "queue_name",
                Coalesce("process_units", 0),
                F("priority").desc(),
                "turn",
                condition=Q(status="READY"),
                name="pgjobs_job_in_queue",
            ),
            # The same for all queues together: with many queues, a look into each would
            # cost too much. The condition is a LIKE, so that only statements with the
            # same LIKE use it. Otherwise the planner might take it for a claim by queue
            # while the table is small, and walk over the jobs of all queues.
            models.Index(
                F("priority").desc(),
                "turn",
                condition=Q(status__startswith="READY"),
                name="pgjobs_job_in_line",
            ),
            models.Index(
                "run_after",
                "id",
                condition=Q(status="SCHEDULED"),
                name="pgjobs_job_scheduled",
            ),
            # All that an admission has to look at: see functions/admission/admit.sql.
            models.Index(
                "line",
                "queue_name",
                F("priority").desc(),
                "turn",
                condition=Q(line__isnull=False),
                name="pgjobs_job_line",
            ),
            # The lines of keys in their order, whatever queues their jobs are in. (The
            # name of such a line has a space.) See functions/admission/heads.sql.
            models.Index(
                "line",
                F("priority").desc(),
                "turn",
                condition=Q(line__contains=" "),
                name="pgjobs_job_turn",
            ),
            models.Index(
                "batch",
                "status",
                condition=Q(batch__isnull=False),
                name="pgjobs_job_batch",
            ),
            models.Index(
                "expires_at",
                condition=Q(
                    expires_at__isnull=False, attempts=0, finished_at__isnull=True
                ),
                name="pgjobs_job_expiring",
            ),
            models.Index(
                "worker_id", condition=Q(status="RUNNING"), name="pgjobs_job_running"
            ),
            # The jobs that have taken a place of their rate, and have not started.
            models.Index(
                KeyTextTransform("rate_key", "keys"),
                condition=Q(keys__has_key="rate_key", status="READY"),
                name="pgjobs_job_rate",
            ),
            # Only jobs pay for it as which others go on: see functions/jobs/newest.sql.
            models.Index(
                KeyTransform("first_id", "keys"),
                "id",
                condition=Q(keys__has_key="first_id"),
                name="pgjobs_job_first",
            ),
            # Only jobs of tasks with `chunk` pay for it: see chunks/gather.sql.
            models.Index(
                "task",
                "queue_name",
                ChunkKey(),
                F("priority").desc(),
                "turn",
                condition=Q(
                    keys__has_key="chunk_by", status__in=("READY", "SCHEDULED")
                ),
                name="pgjobs_job_chunk",
            ),
            models.Index(
                "status",
                "finished_at",
                condition=Q(finished_at__isnull=False),
                name="pgjobs_job_finished",
            ),
            # Only successes pay for it that were to be deleted, and were needed.
            models.Index(
                "finished_at",
                condition=Q(
                    status="SUCCESSFUL", keep="failed", finished_at__isnull=False
                ),
                name="pgjobs_job_success",
            ),
            # Only failed jobs pay for it.
            models.Index(
                "error_group",
                "finished_at",
                condition=Q(error_group__isnull=False, status="FAILED"),
                name="pgjobs_job_error",
            ),
        ]
        # database/constraints/is_job.sql and database/functions/jobs/check_job.sql say
        # what else a row must be like.
        constraints = [
            models.UniqueConstraint(
                fields=["unique_key", "unique_for"],
                condition=HOLDS_KEY,
                name="pgjobs_job_unique",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.task} #{self.pk}"

    @classmethod
    def columns_of_new_row(cls) -> dict[str, Any]:
        """Return the columns of a row whose INSERT has named none of them."""
        return defaults_of_columns().copy()

    @classmethod
    def of_columns(cls, database: str, columns: dict[str, Any]) -> "Job":
        """Return the instance of a stored row; columns that are not given are deferred.

        The dict becomes that of the instance. `__init__` would take longer than the
        INSERT of the row, so the instance is made as by unpickling.
        """
        job = cls.__new__(cls)
        job.__dict__ = columns
        job._state = ModelState()
        job._state.db, job._state.adding = database, False
        return job

    def save(self, *, force_insert=False, update_fields=None, **options: Any) -> None:
        """Insert the job, or store the columns that `update_fields` names.

        `force_insert` and `options` are those of Django's `save()`.

        Raises ValueError for a stored job without `update_fields`: it would write all
        columns as the instance knows them, and so undo what has happened since.
        """
        is_insert = self._state.adding or self.pk is None or force_insert
        if not is_insert and update_fields is None:
            raise ValueError(
                f"save() would undo what has happened to job {self.pk} since it was "
                "read. Use retry(), cancel(), fail(), succeed() or run_now(), or name "
                'the columns: save(update_fields=["priority"]).'
            )
        super().save(force_insert=force_insert, update_fields=update_fields, **options)

    @property
    def is_finished(self) -> bool:
        return self.status in FINISHED

    def retry(self, *, keep_steps: bool = False, until: str | None = None) -> bool:
        """Put the job back in the queue, in a new life; return whether it changed.

        `keep_steps`, `until`: as `JobQuerySet.retry` has them.
        """
        return self._act("retry", keep_steps=keep_steps, until=until)

    def cancel(self, reason: str = "") -> bool:
        """Cancel the job, or ask it to stop, for a reason; return if it changed.

        A job that goes on as another one (`continue_as`) leads to the newest.
        """
        return self._act("cancel", reason)

    def fail(self, reason: str = "") -> bool:
        """Fail the unfinished job for a reason; return whether it changed."""
        return self._act("fail", reason)

    def succeed(self, return_value: Any = None) -> bool:
        """Finish the job as successful, as `JobQuerySet.succeed`; return if it did."""
        return self._act("succeed", return_value)

    def run_now(self) -> bool:
        """Make the scheduled job due at once; return whether this changed it."""
        return self._act("run_now")

    def _act(self, verb: str, *arguments, **options) -> bool:
        """Return whether the act changed the job; the instance is fresh afterwards."""
        database = database_of_acts(self)
        this = Job.objects.using(database).filter(pk=self.pk)
        changed = getattr(this, verb)(*arguments, **options).changed == 1
        with contextlib.suppress(Job.DoesNotExist):
            self.refresh_from_db(using=database)
        return changed

    def get_status_url(self) -> str:
        """Return the path at which people may follow the job.

        Everyone with the path may see the job, unless PGJOBS["STATUS_PERMISSION"]
        refuses it. Raises NoReverseMatch if URLs do not include `pgjobs.urls`, and
        ValueError if the job was not saved.
        """
        if self.pk is None:
            raise ValueError("A job that was not saved has no address.")
        return status_url(self.pk)

    def wait(self, timeout: float | timedelta | None = None) -> Value:
        """Wait for the end of the job and return its result.

        `timeout`: seconds or a timedelta. None waits for ever. Raises JobFailed,
        JobCancelled or TimeoutError, and ResultGone if the job has ended and its row
        is deleted (`keep="failed"`). Inside a transaction only a job that has ended has
        a result: for any other one RuntimeError is raised.
        """
        return waiting.wait(self, timeout)

    async def await_result(self, timeout: float | timedelta | None = None) -> Value:
        """Wait for the end of the job in async code; see `wait`."""
        return await waiting.await_result(self, timeout)


@cache
def defaults_of_columns() -> dict[str, Any]:
    """Return what a new row has; `is_new` is an attribute without a column."""
    defaults = {field.attname: field.db_default for field in Job._meta.concrete_fields}
    unset = {name: None for name in defaults if defaults[name] is models.NOT_PROVIDED}
    return {**defaults, **unset, "is_new": True}
