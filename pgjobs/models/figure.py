"""How many jobs ended, how, and how long they took: sums, never a row for each job."""

from django.db import models
from django.utils.translation import gettext_lazy as _

from ..base.queue_database import QueueManager
from ..fields import Histogram


class Figure(models.Model):
    """The jobs of one queue and task whose attempts ended within a time.

    Workers count in memory and add up here now and then: see worker/figures.py.
    """

    class Span(models.IntegerChoices):
        """The length of the time, in minutes."""

        MINUTE = 1, _("minute")
        HOUR = 60, _("hour")

    start = models.DateTimeField(_("start"))
    seconds = models.FloatField(_("run time in seconds"), db_default=0)
    successful = models.IntegerField(_("successful"), db_default=0)
    failed = models.IntegerField(_("failed"), db_default=0)
    cancelled = models.IntegerField(_("cancelled"), db_default=0)
    # Attempts that failed and were to be tried again.
    retried = models.IntegerField(_("retried"), db_default=0)
    span = models.SmallIntegerField(_("span"), choices=Span)
    queue_name = models.CharField(_("queue"), max_length=200)
    task = models.CharField(_("task"), max_length=200)
    run_times = Histogram(_("run times"))
    wait_times = Histogram(_("waiting times"))

    objects = QueueManager()

    class Meta:
        verbose_name = _("figure")
        verbose_name_plural = _("figures")
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(
                fields=["span", "start", "queue_name", "task"],
                name="pgjobs_figure_once",
            )
        ]

    def __str__(self) -> str:
        return f"{self.task} {self.start}"
