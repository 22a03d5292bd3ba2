"""Ticks: the moments at which schedules have fired."""

from django.db import models
from django.utils.translation import gettext_lazy as _

from ..base.queue_database import QueueManager
from .job import Job
from .schedule import Schedule


class Tick(models.Model):
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
    )
    time = models.DateTimeField(_("time"))
    job = models.OneToOneField(
        Job,
        models.DO_NOTHING,
        related_name="tick",
        null=True,
        db_constraint=False,
        verbose_name=_("job"),
    )

    objects = QueueManager()

    class Meta:
        verbose_name = _("tick")
        verbose_name_plural = _("ticks")
        default_permissions = ("view",)
        constraints = [
            models.UniqueConstraint(
                fields=["schedule", "time"], name="pgjobs_tick_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.schedule_id} {self.time}"
