"""What operators have changed at run time. No start of a worker writes it."""

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from ...base.queue_database import QueueManager
from ...exceptions import LONGEST_DELAY
from ...models.table import Table


class Kind(models.TextChoices):
    """What an override is of: all jobs of a task, or all with a key."""

    TASK = "task", _("task")
    LOCK = "lock", _("lock")
    LIMIT = "limit", _("limit")
    RATE = "rate", _("rate")


class OverrideQuerySet(models.QuerySet["Override"]):
    def in_force(self):
        """Return those whose time is not over."""
        return self.filter(Q(until=None) | Q(until__gt=Now()))


class Override(Table):
    """What operators say of a task or of a key, stronger than its code."""

    is_held = models.BooleanField(
        db_default=False,
        db_comment="Whether all jobs that it pauses are known to wait. False: workers "
        "still look for READY ones.",
    )
    max_running = models.IntegerField(
        _("most running jobs"),
        null=True,
        blank=True,
        db_comment="How many jobs of each limit key run at a time. NULL: as the code "
        "says.",
    )
    rate_number = models.IntegerField(
        null=True,
        blank=True,
        db_comment="How many jobs of each rate key start in its period. NULL: as the "
        "code says.",
    )
    changed_in = models.BigIntegerField(
        db_default=0,
        db_comment="The transaction in which a worker first saw it; 0: none yet. Older "
        "ones may still have inserted READY jobs.",
    )
    rate_seconds = models.FloatField(
        null=True,
        blank=True,
        db_comment="The period of rate_number in seconds. NULL: there is none.",
    )
    paused_at = models.DateTimeField(
        _("paused at"),
        null=True,
        blank=True,
        db_comment="Since when its jobs do not start. NULL: it is not paused.",
    )
    changed_at = models.DateTimeField(
        _("changed at"), db_default=Now(), db_comment="When it was changed last."
    )
    until = models.DateTimeField(
        _("until"),
        null=True,
        blank=True,
        db_comment="When it ends by itself. NULL: when it is lifted.",
    )
    kind = models.CharField(
        _("kind"),
        max_length=10,
        choices=Kind,
        db_comment="task, lock, limit or rate.",
    )
    key = models.TextField(
        _("key"), db_comment="Name of the task, or key of the lock, limit or rate."
    )
    note = models.TextField(
        _("note"), db_default="", blank=True, db_comment="Text of operators."
    )

    objects = QueueManager.from_queryset(OverrideQuerySet)()

    class Meta:
        verbose_name = _("override")
        verbose_name_plural = _("overrides")
        db_table_comment = (
            "What operators have changed of tasks and keys at run time, stronger than "
            "the code until it is lifted or for a time."
        )
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(
                fields=["kind", "key"], name="pgjobs_override_once"
            ),
            models.CheckConstraint(
                name="pgjobs_override_numbers",
                condition=(Q(max_running=None) | Q(max_running__gte=1))
                & (
                    Q(rate_number=None, rate_seconds=None)
                    # NULL > 0 is unknown, and a CHECK lets pass what is unknown.
                    | Q(
                        rate_number__isnull=False,
                        rate_number__gte=1,
                        rate_seconds__isnull=False,
                        rate_seconds__gt=0,
                        rate_seconds__lte=LONGEST_DELAY,  # NaN is above
                    )
                ),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.key}"

    @property
    def rate(self) -> str | None:
        """The rate as a task would declare it, such as 100/minute."""
        if self.rate_number is None or self.rate_seconds is None:
            return None
        return f"{self.rate_number}/{NAMES.get(self.rate_seconds, self.rate_seconds)}"


NAMES = {1: "second", 60: "minute", 3_600: "hour", 86_400: "day"}
