"""What admission keeps beside the jobs: see database/functions/admission/admit.sql."""

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from ..base.queue_database import QueueManager
from .table import Table


class Rate(Table):
    """How many tokens of a rate are left. A rate without a row has all."""

    id = None
    key = models.CharField(
        max_length=500,
        primary_key=True,
        db_comment="The key that the jobs of the rate share.",
    )
    full_at = models.DateTimeField(
        db_comment="When the rate will have all tokens again. It gets one back each "
        "interval."
    )
    opens_at = models.DateTimeField(
        null=True,
        db_comment="When the rate gets its next token. NULL while no job waits for it.",
    )

    objects = QueueManager()

    class Meta:
        verbose_name = _("rate")
        verbose_name_plural = _("rates")
        db_table_comment = (
            "How many tokens of each rate are left. A rate without a row has all."
        )
        default_permissions = ()
        indexes = [
            models.Index(
                "opens_at",
                condition=Q(opens_at__isnull=False),
                name="pgjobs_rate_opens_at",
            )
        ]

    def __str__(self) -> str:
        return self.key


class Note(Table):
    """Work for the next admission that no row of a job shows.

    It names a key that may have room, or a job whose successors must be resolved.
    """

    job_id = models.BigIntegerField(
        null=True,
        db_comment="A job whose successors an admission must look at. NULL: none.",
    )
    keys = models.JSONField(
        null=True,
        db_comment="Keys that may have room, or the batch_id of a batch that has "
        "ended, as JSON. NULL: none.",
    )

    objects = QueueManager()

    class Meta:
        verbose_name = _("note")
        verbose_name_plural = _("notes")
        db_table_comment = "Work for the next admission that no row of a job shows."
        default_permissions = ()

    def __str__(self) -> str:
        return f"#{self.job_id}" if self.job_id else str(self.keys)
