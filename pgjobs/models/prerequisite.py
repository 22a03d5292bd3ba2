"""What jobs depend on: rows that triggers write."""

from django.db import models
from django.utils.translation import gettext_lazy as _

from ..base.queue_database import QueueManager


class Prerequisite(models.Model):
    """A job that others may depend on, by the arguments that they ask for.

    It has such rows while it is unfinished, and once it has succeeded; they are written
    by triggers only.
    """

    job_id = models.BigIntegerField()
    key = models.CharField(max_length=500)
    # When it succeeded; None: it is on its way.
    finished_at = models.DateTimeField(null=True)
    # No task asks for a success that is longer ago. The job is not pruned before.
    needed_until = models.DateTimeField(null=True)

    objects = QueueManager()

    class Meta:
        verbose_name = _("prerequisite")
        verbose_name_plural = _("prerequisites")
        default_permissions = ()
        indexes = [
            models.Index("key", "finished_at", name="pgjobs_prerequisite_key"),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["job_id", "key"], name="pgjobs_prerequisite_once"
            )
        ]

    def __str__(self) -> str:
        return f"#{self.job_id}: {self.key}"
