"""Subscriptions: which tasks handle which events."""

from datetime import datetime
from typing import Any

from django.db import models, transaction
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from ..base.queue_database import QueueManager, QueueSet, declare_alone
from ..fields import LenientDecoder
from ..queue import events as event_queue
from .table import Table

DECLARED_FIELDS = (*event_queue.HANDLER_OPTIONS, "is_ordered", "keys")


class SubscriptionQuerySet(QueueSet["Subscription"]):
    def active(self):
        """Filter those that the code still declares."""
        return self.filter(inactive_at__isnull=True)


class SubscriptionManager(
    QueueManager.from_queryset(SubscriptionQuerySet)  # type: ignore[misc]
):
    def declare(
        self,
        declared: dict[tuple[str, str], dict[str, Any]],
        others_go: bool = True,
    ) -> list[tuple[str, datetime]]:
        """Store what the code declares: {(task, event): {field: value}}.

        `others_go`: whether the other subscriptions get no further events. Returns the
        tasks that were inactive and are declared again, each with the time since when
        it was inactive. Several processes may do so at the same time.
        """
        if not self.differences(declared, others_go):
            return []
        with transaction.atomic(using=self.db):
            declare_alone(self.db)
            keys = self.differences(declared, others_go)
            stored = {(each.task, each.event): each for each in self.all()}
            for task, event in sorted(keys & declared.keys()):
                values = {**declared[task, event], "inactive_at": None}
                self.update_or_create(task=task, event=event, defaults=values)
            gone = [stored[key].pk for key in keys - declared.keys()]
            self.active().filter(pk__in=gone).update(inactive_at=Now())
        return [
            (each.task, each.inactive_at)
            for key, each in stored.items()
            if key in declared and each.inactive_at is not None
        ]

    def differences(
        self, declared: dict[tuple[str, str], dict[str, Any]], others_go: bool
    ) -> set[tuple[str, str]]:
        """Return the subscriptions whose rows `declare` would change."""
        rows = self.active().values("task", "event", *DECLARED_FIELDS)
        stored = {(row.pop("task"), row.pop("event")): row for row in rows}
        changed = {key for key in declared if stored.get(key) != declared[key]}
        return changed | (stored.keys() - declared.keys() if others_go else set())


class Subscription(Table):
    """A task that handles events, and the options of the jobs that deliver them.

    The code declares them. `migrate` and workers store them, so that SQL can publish.
    """

    task = models.CharField(
        _("task"),
        max_length=200,
        db_comment="Name of the task that handles the events.",
    )
    event = models.CharField(
        _("event"),
        max_length=200,
        db_comment="Name of the events, or a pattern such as tle.* for all names that "
        "begin so.",
    )
    is_ordered = models.BooleanField(
        _("in order"),
        db_default=False,
        db_comment="Whether it handles the events of one aggregate one after the "
        "other, in order.",
    )
    queue_name = models.CharField(
        _("queue"),
        max_length=200,
        db_default="default",
        db_comment="Queue of its jobs.",
    )
    priority = models.SmallIntegerField(
        _("priority"),
        db_default=0,
        db_comment="Priority of its jobs, from -100 to 100.",
    )
    max_attempts = models.SmallIntegerField(
        _("most attempts"),
        db_default=8,
        db_comment="After so many failures a job of it ends FAILED.",
    )
    max_crashes = models.SmallIntegerField(
        _("most crashes"),
        db_default=3,
        db_comment="After so many crashes a job of it ends FAILED.",
    )
    timeout = models.FloatField(
        _("time limit of an attempt in seconds"),
        null=True,
        blank=True,
        db_comment="Time limit of an attempt in seconds. NULL leaves it to the task, "
        "or to the setting TIMEOUT.",
    )
    expires_in = models.FloatField(
        _("seconds until it expires"),
        null=True,
        blank=True,
        db_comment="Seconds after which a job that was not started is cancelled. "
        "NULL: it does not expire.",
    )
    process_units = models.BigIntegerField(
        _("process units"),
        null=True,
        blank=True,
        db_comment="How many process units a job takes while it runs. NULL counts as "
        "1.",
    )
    keys = models.JSONField(
        _("lock, limit and rate"),
        decoder=LenientDecoder,
        null=True,
        blank=True,
        db_comment="Lock, limit and rate of its jobs, as JSON. NULL: none.",
    )
    inactive_at = models.DateTimeField(
        _("inactive since"),
        null=True,
        blank=True,
        db_comment="Since when no code declares it, so that it gets no events. NULL: "
        "code declares it.",
    )
    since = models.DateTimeField(
        _("since"), db_default=Now(), db_comment="When it was first stored."
    )

    objects = SubscriptionManager()

    class Meta:
        verbose_name = _("subscription")
        verbose_name_plural = _("subscriptions")
        db_table_comment = (
            "Tasks that handle events, and the options of their jobs. Only code "
            "changes them."
        )
        default_permissions = ("view",)
        constraints = [
            models.UniqueConstraint(
                fields=["task", "event"], name="pgjobs_subscription_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.task} <- {self.event}"
