"""Which job waits for which, or for which batch."""

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from ..base.queue_database import QueueManager
from .table import Table


class Predecessor(Table):
    """A link from a job to another job, or a batch, for whose end it waits or waited.

    An admission makes the rows from `Job.keys` when it first looks at a job. They are
    deleted with the job. The predecessor may be gone.
    """

    class Needs(models.TextChoices):
        """What the job needs of its predecessor. Otherwise it is cancelled."""

        SUCCESS = "success", _("its success")
        END = "end", _("its end")
        FAILURE = "failure", _("its failure")
        # A success, too. Otherwise the job fails instead of being cancelled.
        DEPENDENCY = "dependency", _("its success, or the job fails")

    job_id = models.BigIntegerField(db_comment="The job that waits, or waited.")
    predecessor_id = models.BigIntegerField(
        null=True,
        db_comment="The job that must end before, whose row may be gone. NULL: it is "
        "a batch.",
    )
    batch_id = models.BigIntegerField(
        null=True, db_comment="The batch that must end before. NULL: it is a job."
    )
    needs = models.CharField(
        max_length=10,
        choices=Needs,
        db_default=Needs.SUCCESS,
        db_comment="What the job needs of it: success, end, failure or dependency (a "
        "success, or the job fails).",
    )
    is_open = models.BooleanField(
        db_default=True, db_comment="Whether no admission has seen yet how it ended."
    )
    gives_result = models.BooleanField(
        db_default=False,
        db_comment="Whether the job gets its result as an argument, and has not begun.",
    )

    objects = QueueManager()

    class Meta:
        verbose_name = _("predecessor")
        verbose_name_plural = _("predecessors")
        db_table_comment = (
            "The jobs and batches for whose end a job waits, or waited. Deleted "
            "with the job."
        )
        default_permissions = ()
        indexes = [
            models.Index(
                "predecessor_id",
                "is_open",
                "job_id",
                condition=Q(predecessor_id__isnull=False),
                name="pgjobs_predecessor_jobs",
            ),
            models.Index(
                "batch_id",
                "is_open",
                "job_id",
                condition=Q(batch_id__isnull=False),
                name="pgjobs_predecessor_batch_jobs",
            ),
            # Of the few links whose predecessors must stay, or are read.
            models.Index(
                "predecessor_id",
                condition=Q(gives_result=True, predecessor_id__isnull=False),
                name="pgjobs_predecessor_result",
            ),
            models.Index(
                "batch_id",
                condition=Q(gives_result=True, batch_id__isnull=False),
                name="pgjobs_predecessor_results",
            ),
            # Only statements that say `id > 0`, too, can use it. Where hardly any link
            # was open, the planner would take it for the links of one job.
            models.Index(
                "id",
                condition=Q(is_open=True, id__gt=0),
                name="pgjobs_predecessor_open",
            ),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["job_id", "predecessor_id"], name="pgjobs_predecessor_once"
            ),
            models.UniqueConstraint(
                fields=["job_id", "batch_id"], name="pgjobs_predecessor_batch_once"
            ),
            models.CheckConstraint(
                name="pgjobs_predecessor_one",
                condition=Q(predecessor_id__isnull=False, batch_id__isnull=True)
                | Q(predecessor_id__isnull=True, batch_id__isnull=False),
            ),
            models.CheckConstraint(
                name="pgjobs_predecessor_needs",
                condition=Q(needs__in=["success", "end", "failure", "dependency"]),
            ),
        ]

    def __str__(self) -> str:
        what = f"batch {self.batch_id}" if self.batch_id else f"#{self.predecessor_id}"
        return f"#{self.job_id} after {what}"
