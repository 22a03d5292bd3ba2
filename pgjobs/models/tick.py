"""Ticks: the moments at which schedules have fired."""

from django.db import models
from django.utils.translation import gettext_lazy as _

from ..base.queue_database import QueueManager
from .job import Job
from .schedule import Schedule
from .table import Table


class Tick(Table):
    """A moment at which a schedule fired. The database has each moment only once."""

    # The constraint of the schedule stands in database/tables/schedules.sql, and with
    # the job a trigger deletes them. So ticks go with either, also by SQL.
    schedule = models.ForeignKey(
        Schedule,
        models.DO_NOTHING,
        related_name="ticks",
        db_constraint=False,
        db_index=False,
        verbose_name=_("schedule"),
        db_comment="The schedule.",
    )
    time = models.DateTimeField(
        _("time"), db_comment="When the run was due, or asked for by a person."
    )
    job = models.OneToOneField(
        Job,
        models.DO_NOTHING,
        related_name="tick",
        null=True,
        db_constraint=False,
        verbose_name=_("job"),
        db_comment="Its job. NULL until the transaction that fires has inserted it.",
    )

    objects = QueueManager()

    class Meta:
        verbose_name = _("tick")
        verbose_name_plural = _("ticks")
        db_table_comment = "The times at which schedules fired, each only once."
        default_permissions = ("view",)
        constraints = [
            models.UniqueConstraint(
                fields=["schedule", "time"], name="pgjobs_tick_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.schedule_id} {self.time}"
