"""What jobs depend on: rows that triggers write."""

from django.db import models
from django.utils.translation import gettext_lazy as _

from ..base.queue_database import QueueManager


class Prerequisite(models.Model):
    """A job that others may depend on, by the arguments that they ask for.

    A job has such rows while it is unfinished and after its success. Only triggers
    write them.
    """

    job_id = models.BigIntegerField()
    key = models.CharField(max_length=500)
    # When it succeeded. None means that it is on its way.
    finished_at = models.DateTimeField(null=True)
    # After this no task asks for its success, and the job may be pruned.
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
