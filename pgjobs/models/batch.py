"""Batches: jobs that were enqueued together, with callbacks when they have ended."""

from dataclasses import dataclass

from django.db import models
from django.db.models import Count
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from ..base.queue_database import QueueManager
from ..conf import FINISHED
from ..queue.acts import Changed
from .table import Table


@dataclass(frozen=True)
class BatchProgress:
    """How many jobs of a batch there are of each status.

    It has a number for each: `ready`, `scheduled`, `waiting`, `running`, `successful`,
    `failed` and `cancelled`.
    """

    ready: int = 0
    scheduled: int = 0
    waiting: int = 0
    running: int = 0
    successful: int = 0
    failed: int = 0
    cancelled: int = 0

    @property
    def total(self) -> int:
        """The number of all jobs."""
        return self.unfinished + self.finished

    @property
    def unfinished(self) -> int:
        """How many jobs have not ended."""
        return self.ready + self.scheduled + self.waiting + self.running

    @property
    def finished(self) -> int:
        """How many jobs have ended."""
        return self.successful + self.failed + self.cancelled

    @property
    def is_finished(self) -> bool:
        """Whether all jobs have ended."""
        return self.unfinished == 0


class Batch(Table):
    """Jobs that belong together: those of a `group`, and what they have added.

    The row counts nothing: the state of a batch follows from the rows of its jobs.
    """

    description = models.CharField(
        _("description"),
        max_length=200,
        blank=True,
        db_default="",
        db_comment="What it is, for people.",
    )
    outcome_of_deleted = models.CharField(
        max_length=20,
        blank=True,
        default="",
        db_default="",
        db_comment="How the worst of its jobs that are deleted had ended: FAILED or "
        "CANCELLED (also if it had not ended). Empty: all were successful.",
    )
    enqueued_at = models.DateTimeField(
        _("enqueued at"), db_default=Now(), db_comment="When its jobs were enqueued."
    )

    objects = QueueManager()

    class Meta:
        verbose_name = _("batch")
        verbose_name_plural = _("batches")
        db_table_comment = (
            "Jobs that belong together. Count the rows of pgjobs_job for the progress."
        )
        default_permissions = ("view",)

    def __str__(self) -> str:
        return f"{self.description or 'Batch'} #{self.pk}"

    def progress(self) -> BatchProgress:
        """Return how many jobs there are of each status, in one query.

        Jobs that were deleted or pruned are not among them.
        """
        database = self._state.db or Batch.objects.db
        this = Batch.objects.using(database).filter(pk=self.pk)
        return progress_of(this).get(self.pk, BatchProgress())

    def cancel(self, reason: str = "") -> Changed:
        """Cancel the jobs that have not ended; ask running ones to stop.

        `reason`: a text for people. Returns how many jobs it changed and skipped.
        """
        return self.jobs.exclude(status__in=FINISHED).cancel(reason)

    def retry(self) -> Changed:
        """Retry the failed jobs, and with them those cancelled because of them.

        Returns how many failed jobs it changed and skipped.
        """
        return self.jobs.failed().retry()


def progress_of(batches: "models.QuerySet[Batch]") -> dict[int, BatchProgress]:
    """Return the progress of each batch by its id, in one query."""
    rows = batches.order_by().values_list("pk", "jobs__status").annotate(Count("jobs"))
    counts: dict[int, dict[str, int]] = {}
    for id, status, number in rows:
        counts.setdefault(id, {})
        if status is not None:  # a batch without jobs
            counts[id][status.lower()] = number
    return {id: BatchProgress(**each) for id, each in counts.items()}
