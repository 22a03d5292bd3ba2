"""The job: one request to run a task, and what may be done to it."""

import contextlib
from datetime import timedelta
from functools import cache
from typing import Any

from django.db import models
from django.db.models import F, Q
from django.db.models.base import ModelState
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from ..base.addresses import status_url
from ..conf import FINISHED
from ..fields import LenientDecoder
from ..queue import waiting
from .job_choices import Status, UniqueFor, WaitingFor
from .job_set import HOLDS_KEY, JobManager
from .returning import Returning, Value

LOWEST_PRIORITY, HIGHEST_PRIORITY = -100, 100
EMPTY_ARRAY = models.Value([], models.JSONField())
EMPTY_OBJECT = models.Value({}, models.JSONField())
TAKES_UNITS = models.ExpressionWrapper(
    Q(process_units__isnull=False), output_field=models.BooleanField()
)


class Job(Returning[Value]):
    """One request to run a task.

    `enqueue` and SQL insert rows. The acts below, and workers, change them. `save()`
    must not be used to change a status.
    """

    # The fields stand in the order of the table's columns: the fixed ones before those
    # of any length, and last those that are NULL for most jobs. PostgreSQL aligns each
    # column, and finds the first ones without walking over others.

    # Rises with the ids (database/tables/jobs.sql makes it an identity), and again when
    # a limit admits the job, so that limit keys take turns.
    turn = models.BigIntegerField(_("turn"), db_default=0)
    # New at each claim and never reset: a worker with an older one changes nothing.
    lease_token = models.BigIntegerField(_("lease token"), db_default=0)
    enqueued_at = models.DateTimeField(_("enqueued at"), db_default=Now())
    attempts = models.IntegerField(_("attempts"), db_default=0)
    failures = models.IntegerField(_("failures"), db_default=0)
    life = models.IntegerField(_("life"), db_default=1)
    priority = models.SmallIntegerField(_("priority"), db_default=0)
    max_attempts = models.SmallIntegerField(_("most attempts"), db_default=3)
    crashes = models.SmallIntegerField(_("crashes"), db_default=0)
    max_crashes = models.SmallIntegerField(_("most crashes"), db_default=3)
    # A process waits for the end and wants to be notified.
    awaited = models.BooleanField(_("awaited"), db_default=False)

    task = models.CharField(_("task"), max_length=200)
    queue_name = models.CharField(_("queue"), max_length=200, db_default="default")
    status = models.CharField(
        _("status"), max_length=10, choices=Status, db_default=Status.READY
    )
    args = models.JSONField(
        _("unnamed arguments"), decoder=LenientDecoder, db_default=EMPTY_ARRAY
    )
    kwargs = models.JSONField(
        _("arguments"), decoder=LenientDecoder, db_default=EMPTY_OBJECT
    )
    reason = models.TextField(_("reason"), db_default="")

    started_at = models.DateTimeField(_("started at"), null=True)
    last_attempted_at = models.DateTimeField(_("last attempted at"), null=True)
    finished_at = models.DateTimeField(_("finished at"), null=True)
    run_after = models.DateTimeField(_("run after"), null=True, blank=True)
    # A job that no attempt has begun by then is cancelled.
    expires_at = models.DateTimeField(_("expires at"), null=True, blank=True)
    cancel_requested_at = models.DateTimeField(_("cancel requested at"), null=True)
    # NULL leaves it to the task or PGJOBS["TIMEOUT"].
    timeout = models.FloatField(
        _("time limit of an attempt in seconds"), null=True, blank=True
    )
    # Process units in use while it runs. NULL counts as 1 and keeps the row out of the
    # index of units.
    process_units = models.BigIntegerField(_("process units"), null=True, blank=True)
    return_value = models.JSONField(_("result"), decoder=LenientDecoder, null=True)
    # What it shares with other jobs: its lock, limit and rate (tasks/flow_control.py),
    # its predecessors and its batch (tasks/predecessors.py).
    keys = models.JSONField(
        _("ties to other jobs"), decoder=LenientDecoder, null=True, blank=True
    )
    # NULL rather than an empty text: it takes no space, and most jobs never wait.
    waiting_for = models.CharField(  # noqa: DJ001
        _("waits for"), max_length=11, choices=WaitingFor, null=True, blank=True
    )
    # The job that was in the way when this one began to wait; reports/obstacles.py
    # finds the present one. Of a CANCELLED job: the predecessor that was the cause.
    blocked_by_id = models.BigIntegerField(_("blocked by"), null=True, blank=True)
    # What must have succeeded before, and what others may need of this job. NULL in
    # most jobs. See tasks/dependencies.py.
    dependencies = models.JSONField(
        _("dependencies"), decoder=LenientDecoder, null=True, blank=True
    )
    # NULL rather than an empty text: it takes no space, and most jobs have no key.
    unique_key = models.CharField(  # noqa: DJ001
        _("unique key"), max_length=500, null=True, blank=True
    )
    unique_for = models.CharField(  # noqa: DJ001
        _("unique"), max_length=10, choices=UniqueFor, null=True, blank=True
    )
    # End of the period; NULL also once the key is free again.
    unique_until = models.DateTimeField(_("unique until"), null=True, blank=True)
    # The line in which a WAITING job stands, or a job that has ended until an admission
    # sees it (database/functions/admission/admit.sql). NULL in most jobs.
    line = models.TextField(_("line"), null=True, blank=True)  # noqa: DJ001
    # What it took along from where it was enqueued (queue/meta.py). NULL in most jobs.
    meta = models.JSONField(_("meta"), decoder=LenientDecoder, null=True, blank=True)
    # How it failed: the id of an ErrorGroup. NULL in all that never failed.
    error_group = models.BigIntegerField(_("group of errors"), null=True, blank=True)
    # The worker of the attempt that succeeded; `Attempt` has those of the others.
    worker_name = models.TextField(  # noqa: DJ001
        _("worker that succeeded"), null=True, blank=True
    )
    # A trigger copies it from `keys`.
    batch = models.ForeignKey(
        "pgjobs.Batch",
        models.DO_NOTHING,
        null=True,
        blank=True,
        related_name="jobs",
        db_constraint=False,
        db_index=False,
        verbose_name=_("batch"),
    )
    # No constraint: a worker that is gone must not hinder the rescue of its jobs.
    worker = models.ForeignKey(
        "pgjobs.Worker",
        models.DO_NOTHING,
        null=True,
        blank=True,
        related_name="jobs",
        db_constraint=False,
        db_index=False,
        verbose_name=_("worker"),
    )

    objects = JobManager()

    # Whether this instance is what `enqueue` has inserted: not a job that held the
    # unique key before, and not one that was read.
    is_new = False

    class Meta:
        verbose_name = _("job")
        verbose_name_plural = _("jobs")
        permissions = [
            ("retry_job", _("Can retry jobs")),
            ("cancel_job", _("Can cancel jobs")),
            ("fail_job", _("Can fail jobs and mark them as successful")),
            ("run_job_now", _("Can run scheduled jobs now")),
            ("view_job_arguments", _("Can see the arguments and results of jobs")),
        ]
        indexes = [
            # In exactly the order of a claim, which reads nothing else.
            # Jobs that take process units come last, so that no walk along the others
            # meets them.
            models.Index(
                "queue_name",
                TAKES_UNITS,
                F("priority").desc(),
                "turn",
                condition=Q(status="READY"),
                name="pgjobs_job_ready",
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
            # In claim order for each number of units: the jobs that take more than a
            # host has left stand apart from those for which it has room.
            models.Index(
                "queue_name",
                "process_units",
                F("priority").desc(),
                "turn",
                condition=Q(status="READY", process_units__isnull=False),
                name="pgjobs_job_units",
            ),
            models.Index(
                "status",
                "finished_at",
                condition=Q(finished_at__isnull=False),
                name="pgjobs_job_finished",
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

    @property
    def is_finished(self) -> bool:
        return self.status in FINISHED

    def retry(self) -> bool:
        """Put the job back in the queue, in a new life; return whether it changed."""
        return self._act("retry")

    def cancel(self, reason: str = "") -> bool:
        """Cancel the job, or ask it to stop, for a reason; return if it changed."""
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

    def _act(self, verb: str, *arguments) -> bool:
        """Return whether the act changed the job; the instance is fresh afterwards."""
        database = self._state.db or Job.objects.db
        this = Job.objects.using(database).filter(pk=self.pk)
        changed = getattr(this, verb)(*arguments).changed == 1
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
        JobCancelled or TimeoutError, and RuntimeError inside a transaction.
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
