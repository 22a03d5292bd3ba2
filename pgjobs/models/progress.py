from django.db import models
from django.utils.translation import gettext_lazy as _

from ..base.queue_database import QueueManager
from .job import Job
from .table import Table


class Progress(Table):
    """What a running job reports. A row of its own spares the job's row the updates."""

    id = None
    job = models.OneToOneField(
        Job,
        models.DO_NOTHING,
        primary_key=True,
        related_name="progress",
        db_constraint=False,
        db_comment="The job.",
    )
    done = models.FloatField(
        _("done"),
        null=True,
        db_comment="How much is done, in units of the task. NULL: it has not said.",
    )
    total = models.FloatField(
        _("total"), null=True, db_comment="How much there is to do. NULL: unknown."
    )
    message = models.TextField(
        _("message"), db_default="", db_comment="Text of the last report, for people."
    )
    log = models.TextField(
        _("log"),
        db_default="",
        db_comment="The latest lines of the job's log, each with its time.",
    )
    updated_at = models.DateTimeField(
        _("updated at"), db_comment="When the last report was stored."
    )

    objects = QueueManager()

    class Meta:
        verbose_name = _("progress")
        verbose_name_plural = _("progress")
        db_table_comment = (
            "What running jobs report. Kept until the job is retried or deleted."
        )
        default_permissions = ()

    def __str__(self) -> str:
        if self.done is None:
            return self.message
        done = f"{self.done:g}"
        return done if self.total is None else f"{done}/{self.total:g}"
