"""How many jobs ended, how, and how long they took: sums, never a row for each job."""

from django.db import models
from django.utils.translation import gettext_lazy as _

from ..base.queue_database import QueueManager
from ..fields import Histogram
from .table import Table


class Figure(Table):
    """The jobs of one queue and task whose attempts ended within a time.

    Workers count in memory and add up here now and then: see worker/figures.py.
    """

    class Span(models.IntegerChoices):
        """The length of the time, in minutes."""

        MINUTE = 1, _("minute")
        HOUR = 60, _("hour")

    start = models.DateTimeField(
        _("start"), db_comment="Beginning of the minute or hour, by UTC."
    )
    seconds = models.FloatField(
        _("run time in seconds"),
        db_default=0,
        db_comment="Sum of the run times in seconds.",
    )
    successful = models.IntegerField(
        _("successful"), db_default=0, db_comment="How many attempts ended SUCCESSFUL."
    )
    failed = models.IntegerField(
        _("failed"),
        db_default=0,
        db_comment="How many attempts ended their job as FAILED.",
    )
    cancelled = models.IntegerField(
        _("cancelled"),
        db_default=0,
        db_comment="How many attempts ended their job as CANCELLED.",
    )
    retried = models.IntegerField(
        _("retried"),
        db_default=0,
        db_comment="How many attempts failed and were to be tried again.",
    )
    span = models.SmallIntegerField(
        _("span"), choices=Span, db_comment="Length of the time in minutes: 1 or 60."
    )
    queue_name = models.CharField(
        _("queue"),
        max_length=200,
        db_comment="The queue. Empty: those that a worker met beyond a thousand queues "
        "and tasks.",
    )
    task = models.CharField(
        _("task"),
        max_length=200,
        db_comment="Name of the task. Empty: see queue_name.",
    )
    run_times = Histogram(
        _("run times"),
        db_comment="Attempts by run time: under 1 ms, under 2 ms, under 4 ms and so "
        "on; the last number has all others.",
    )
    wait_times = Histogram(
        _("waiting times"),
        db_comment="Claimed jobs by the time since they could run, like run_times.",
    )

    objects = QueueManager()

    class Meta:
        verbose_name = _("figure")
        verbose_name_plural = _("figures")
        db_table_comment = (
            "How many attempts ended in a minute or hour, how, and how long they "
            "took. Workers add to it."
        )
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(
                fields=["span", "start", "queue_name", "task"],
                name="pgjobs_figure_once",
            )
        ]

    def __str__(self) -> str:
        return f"{self.task} {self.start}"
