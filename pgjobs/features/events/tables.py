"""Events: what was published, which tasks subscribe, and which jobs deliver it.

Rows of events and deliveries are made by functions of the database, so that Python
and SQL publish alike: see features/events/functions/.
"""

import json
from contextlib import nullcontext
from datetime import datetime
from typing import Any, NamedTuple

from django.db import DatabaseError, models, transaction
from django.db.models import Case, Count, Exists, OuterRef, Q, Subquery, Value, When
from django.db.models.functions import Coalesce, Now
from django.db.models.lookups import GreaterThan, LessThan
from django.utils.translation import gettext_lazy as _

from ...base.queue_database import (
    QueueManager,
    QueueSet,
    database_of_acts,
    declare_alone,
)
from ...conf import FINISHED
from ...fields import LenientDecoder
from ...models.job import Job
from ...models.job_columns import EMPTY_OBJECT
from ...models.table import Table
from ...queue.acts import Changed
from ...queue.inserting import (
    announce_enqueued,
    explain_missing_tables,
    is_heard_of,
    omits_notify,
    without_notify,
)
from ...queue.meta import collected
from ...queue.statements import execute_on
from . import queue

DECLARED_FIELDS = (*queue.HANDLER_OPTIONS, "is_ordered", "keys")
BATCH = 1_000  # events that one transaction delivers again
# Conditions on deliveries by their jobs, in words for which there are indexes.
FAILED = Q(job__status="FAILED", job__finished_at__isnull=False)
CANCELLED = Q(job__status="CANCELLED", job__finished_at__isnull=False)
UNFINISHED = (
    Q(job__status="READY")
    | Q(job__status="SCHEDULED")
    | Q(job__status="WAITING")
    | Q(job__status="RUNNING")
)


class State(models.TextChoices):
    """What became of an event: the first that applies, in this order."""

    UNHANDLED = "UNHANDLED", _("Unhandled")
    DEAD = "DEAD", _("Dead letter")
    PENDING = "PENDING", _("On its way")
    CANCELLED = "CANCELLED", _("Cancelled")
    PRUNED = "PRUNED", _("No longer known")
    DELIVERED = "DELIVERED", _("Delivered")


class Origin(models.TextChoices):
    PUBLISHED = "published", _("when it was published")
    LATE = "late", _("late: the handler had not subscribed when it was published")
    REPLAYED = "replayed", _("when it was replayed or redelivered")


class EventQuerySet(QueueSet["Event"]):
    def unhandled(self):
        """Filter those that no task has subscribed to."""
        return self.filter(handlers=0)

    def dead(self):
        """Filter those with a delivery that has failed for good."""
        return self.filter(with_delivery(FAILED))

    def pending(self):
        """Filter those with a delivery that is not finished."""
        return self.filter(with_delivery(UNFINISHED))

    def with_state(self):
        """Annotate what became of each event: one of `State`."""
        # One look at the few deliveries of each event, by an index. For EXISTS
        # conditions the planner would scan all jobs.
        of_deliveries = (
            Delivery.objects.filter(event=OuterRef("pk"))
            .values("event")
            .annotate(
                state=Case(
                    When(some(FAILED), then=Value(State.DEAD)),
                    When(some(UNFINISHED), then=Value(State.PENDING)),
                    When(some(CANCELLED), then=Value(State.CANCELLED)),
                    When(
                        LessThan(Count("pk"), OuterRef("handlers")),
                        then=Value(State.PRUNED),
                    ),
                    default=Value(State.DELIVERED),
                )
            )
            .values("state")
        )
        return self.annotate(
            state=Case(
                When(handlers=0, then=Value(State.UNHANDLED)),
                default=Coalesce(Subquery(of_deliveries), Value(State.PRUNED)),
            ),
        )

    def redeliver(self) -> Changed:
        """Run the deliveries that have failed for good once more; return how many."""
        return Job.objects.using(self.db).failed().filter(delivered(self)).retry()

    def redeliver_all(self) -> Changed:
        """Deliver to every subscriber once more, and to those that came since.

        Deliveries on their way stay as they are. Returns how many it made or ran again.
        """
        changed = skipped = 0
        events = self.to_change()
        ids = list(events.order_by("pk").values_list("pk", flat=True))
        for at in range(0, len(ids), BATCH):
            delivered = deliver_again(events.db, ids[at : at + BATCH])
            changed += delivered.made + delivered.again
            skipped += delivered.skipped
        return Changed(changed, skipped)


class EventManager(QueueManager.from_queryset(EventQuerySet)):  # type: ignore[misc]
    def publish(
        self,
        name: str,
        payload: str,
        aggregate_id: str | None,
        correlation_id: str | None,
    ) -> "Event":
        """Insert an event and the jobs of its deliveries, in the caller's transaction.

        `payload`: JSON text.
        """
        meta, database = collected(), self.db_to_write
        try:
            with without_notify(database) if omits_notify() else nullcontext():
                id, published_at = queue.publish(
                    execute_on(database),
                    name,
                    payload,
                    aggregate_id,
                    correlation_id,
                    meta,
                )
        except DatabaseError as error:
            explain_missing_tables(database, error)
            raise
        if is_heard_of(Job):
            jobs = Job.objects.using(database).filter(delivery__event=id)
            announce_enqueued(Job, jobs)
        columns = {
            "id": id,
            "name": name,
            "payload": json.loads(payload),
            "aggregate_id": aggregate_id,
            "correlation_id": correlation_id,
            "published_at": published_at,
            "meta": meta and json.loads(meta),
        }
        return Event.from_db(database, list(columns), list(columns.values()))


class Event(Table):
    """Something that happened, published in the transaction that made it happen."""

    name = models.CharField(
        _("name"), max_length=200, db_comment="What happened, such as tle.refreshed."
    )
    payload = models.JSONField(
        _("payload"),
        decoder=LenientDecoder,
        db_default=EMPTY_OBJECT,
        db_comment="The arguments of its handlers: a JSON object.",
    )
    # NULL rather than an empty text: the index leaves it out.
    aggregate_id = models.CharField(  # noqa: DJ001
        _("aggregate"),
        max_length=200,
        null=True,
        blank=True,
        db_comment="What it happened to. Ordered handlers take the events of one in "
        "order. NULL: not said.",
    )
    correlation_id = models.CharField(  # noqa: DJ001
        _("correlation"),
        max_length=200,
        null=True,
        blank=True,
        db_comment="What belongs together has the same one. NULL: not said.",
    )
    published_at = models.DateTimeField(
        _("published at"), db_default=Now(), db_comment="When it was published."
    )
    handlers = models.IntegerField(
        _("handlers"),
        db_default=0,
        db_comment="To how many tasks it was delivered. 0: none had subscribed.",
    )
    meta = models.JSONField(
        _("meta"),
        decoder=LenientDecoder,
        null=True,
        blank=True,
        db_comment="What its jobs take along from where it was published: a JSON "
        "object. NULL: nothing.",
    )

    objects = EventManager()

    class Meta:
        verbose_name = _("event")
        verbose_name_plural = _("events")
        db_table_comment = (
            "What happened, published in the transaction that made it happen."
        )
        default_permissions = ("view",)
        permissions = [("redeliver_event", _("Can redeliver events"))]
        indexes = [
            models.Index("published_at", name="pgjobs_event_published"),
            models.Index(
                "name",
                "published_at",
                condition=Q(handlers=0),
                name="pgjobs_event_unhandled",
            ),
            models.Index(
                "aggregate_id",
                "id",
                condition=Q(aggregate_id__isnull=False),
                name="pgjobs_event_aggregate",
            ),
            models.Index(
                "correlation_id",
                "id",
                condition=Q(correlation_id__isnull=False),
                name="pgjobs_event_correlation",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} #{self.pk}"

    def redeliver(self) -> Changed:
        """Run the deliveries that have failed for good once more; return how many."""
        return self.alone.redeliver()

    def redeliver_all(self) -> Changed:
        """Deliver to every subscriber once more, and to those that came since.

        Returns how many deliveries it made or ran again, and how many it skipped.
        """
        return self.alone.redeliver_all()

    @property
    def alone(self) -> EventQuerySet:
        """The set of this event only."""
        database = database_of_acts(self)
        return Event.objects.using(database).filter(pk=self.pk)


class Delivery(Table):
    """A job that delivers an event to a task: each event once to each task."""

    id = None
    # The constraint of the event stands in database/tables/events.sql, and with the job
    # a trigger deletes them. So deliveries go with either, also by SQL.
    job = models.OneToOneField(
        Job,
        models.DO_NOTHING,
        primary_key=True,
        related_name="delivery",
        db_constraint=False,
        verbose_name=_("job"),
        db_comment="The job.",
    )
    event = models.ForeignKey(
        Event,
        models.DO_NOTHING,
        related_name="deliveries",
        db_constraint=False,
        db_index=False,
        verbose_name=_("event"),
        db_comment="The event.",
    )
    task = models.CharField(
        _("task"), max_length=200, db_comment="Name of the task that handles it."
    )
    origin = models.CharField(
        _("delivered"),
        max_length=10,
        choices=Origin,
        db_default=Origin.PUBLISHED,
        db_comment="When it was delivered: published (at once), late (the task had "
        "not subscribed yet) or replayed.",
    )

    objects = QueueManager()

    class Meta:
        verbose_name = _("delivery")
        verbose_name_plural = _("deliveries")
        db_table_comment = "Jobs that deliver events: each event once to each task."
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(
                fields=["event", "task"], name="pgjobs_delivery_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.event_id} -> {self.task}"


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


class Delivered(NamedTuple):
    """How many deliveries were made when events were delivered again."""

    made: int
    again: int
    skipped: int  # on their way


def with_delivery(condition: Q) -> Exists:
    """Return the condition that an event has such a delivery."""
    return Exists(Delivery.objects.filter(condition, event=OuterRef("pk")))


def some(condition: Q) -> GreaterThan:
    """Return the condition that a group has such a delivery."""
    return GreaterThan(Count("pk", filter=condition), Value(0))


def delivered(events: EventQuerySet) -> Exists:
    """Return the condition that a job delivers one of these events."""
    return Exists(Delivery.objects.filter(job=OuterRef("pk"), event__in=events))


def deliver_again(database: str, ids: list[int], task: str | None = None) -> Delivered:
    """Deliver events to all subscribers, or to one, even if they had them."""
    deliveries = Delivery.objects.using(database).filter(event__in=ids)
    if task is not None:
        deliveries = deliveries.filter(task=task)
    with transaction.atomic(using=database):
        old = list(deliveries.values_list("pk", "job__status"))
        finished = [pk for pk, status in old if status in FINISHED]
        made = queue.deliver(database, ids, task, str(Origin.REPLAYED))
        again = Job.objects.using(database).filter(pk__in=finished).retry()
    return Delivered(made, again.changed, len(old) - again.changed)
