"""What admission keeps beside the jobs: see database/functions/admission/admit.sql."""

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from ..base.queue_database import QueueManager


class Rate(models.Model):
    """How many tokens of a rate are left. A rate without a row has all."""

    key = models.CharField(max_length=500, primary_key=True)
    # When the rate will have all tokens again. It gets one back each interval.
    full_at = models.DateTimeField()
    # When the rate gets its next token. Set only while jobs wait for it.
    opens_at = models.DateTimeField(null=True)

    objects = QueueManager()

    class Meta:
        verbose_name = _("rate")
        verbose_name_plural = _("rates")
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


class Note(models.Model):
    """Work for the next admission that no row of a job shows.

    It names a key that may have room, or a job whose successors must be resolved.
    """

    job_id = models.BigIntegerField(null=True)
    keys = models.JSONField(null=True)

    objects = QueueManager()

    class Meta:
        verbose_name = _("note")
        verbose_name_plural = _("notes")
        default_permissions = ()

    def __str__(self) -> str:
        return f"#{self.job_id}" if self.job_id else str(self.keys)
