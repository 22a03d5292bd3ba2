"""What jobs depend on: rows that triggers write."""

from django.db import models
from django.utils.translation import gettext_lazy as _

from ...base.queue_database import QueueManager
from ...models.table import Table


class Prerequisite(Table):
    """A job that others may depend on, by the arguments that they ask for.

    A job has such rows while it is unfinished and after its success. Only triggers
    write them.
    """

    job_id = models.BigIntegerField(db_comment="The job that others may need.")
    key = models.CharField(
        max_length=500, db_comment="A task and the arguments that others ask for."
    )
    finished_at = models.DateTimeField(
        null=True, db_comment="When it succeeded. NULL: it is on its way."
    )
    needed_until = models.DateTimeField(
        null=True,
        db_comment="After this no task asks for its success, and the job may be "
        "pruned. NULL: it is on its way.",
    )

    objects = QueueManager()

    class Meta:
        verbose_name = _("prerequisite")
        verbose_name_plural = _("prerequisites")
        db_table_comment = (
            "Jobs that others may depend on, while they are unfinished and after "
            "their success. Only triggers write here."
        )
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
