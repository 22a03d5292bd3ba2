"""Batches: jobs that were enqueued together, with callbacks when they have ended."""

from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from .database import QueueManager


class Batch(models.Model):
    """Jobs that belong together: those of a `group`, and what they have added.

    What becomes of a batch is what becomes of its jobs: nothing here counts them.
    """

    description = models.CharField(
        _("description"), max_length=200, blank=True, db_default=""
    )
    enqueued_at = models.DateTimeField(_("enqueued at"), db_default=Now())

    objects = QueueManager()

    class Meta:
        verbose_name = _("batch")
        verbose_name_plural = _("batches")
        default_permissions = ("view",)

    def __str__(self) -> str:
        return f"{self.description} #{self.pk}".strip()
