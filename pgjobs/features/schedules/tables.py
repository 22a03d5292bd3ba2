"""Schedules: jobs that are enqueued again and again, and when they have fired."""

from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from django.db import models, router, transaction
from django.db.models import F, Q
from django.db.models.functions import Now
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from ...base.queue_database import (
    QueueManager,
    QueueSet,
    database_of_acts,
    database_time,
    declare_alone,
)
from ...fields import LenientDecoder
from ...models.job import Job
from ...models.job_columns import EMPTY_ARRAY, EMPTY_OBJECT
from ...models.table import Table
from .queue import cannot_fire
from .timetable import LONGEST_INTERVAL, SHORTEST_INTERVAL, Timetable
from .units import TIMING_FIELDS, UNITS, as_declared, interval

NO_TIME = timedelta(0)
BATCH = 1_000  # rows that one statement stores
# What `Schedule.take_over` sets.
DECLARED_FIELDS = [
    "task",
    *(field for unit in UNITS.values() for field in unit.fields),
    "declared",
    "orphaned",
    "origin_at",
    "next_run_at",
    "error",
]


class Overlap(models.TextChoices):
    SKIP = "skip", _("Skip: not while the last run is unfinished")
    ALLOW = "allow", _("Allow: enqueue it beside the last run")


class CatchUp(models.TextChoices):
    LATEST = "latest", _("One run for all missed ones")
    ALL = "all", _("All missed runs")
    NONE = "none", _("None: missed runs are skipped")


class Anchor(models.TextChoices):
    START = "start", _("Fixed times")
    END = "end", _("Counted from the end of the last run")


class State(models.TextChoices):
    ACTIVE = "active", _("Active")
    PAUSED = "paused", _("Paused")
    ORPHANED = "orphaned", _("Gone from the code")
    RUNNING = "running", _("Waits for the end of its run")
    BROKEN = "broken", _("Broken")
    ENDED = "ended", _("Ended")


class ScheduleQuerySet(QueueSet["Schedule"]):
    def active(self):
        """Filter those that fire when their time comes."""
        return self.filter(paused=False, orphaned=False)

    def declared(self):
        """Filter those that the code declares, or once did."""
        return self.filter(declared__isnull=False)

    def pause(self) -> int:
        """Stop schedules from firing until they are resumed; return how many."""
        return self.filter(paused=False).update(paused=True)

    def resume(self) -> int:
        """Make paused schedules fire again, from the next tick on; return how many."""
        schedules, resumed = self.to_change(), 0
        now = database_time(schedules.db)
        for schedule in schedules.filter(paused=True):
            schedule.plan_next(now)
            resumed += schedules.filter(pk=schedule.pk, paused=True).update(
                paused=False,
                next_run_at=schedule.next_run_at,
                error=schedule.error,
            )
        return resumed


class ScheduleManager(
    QueueManager.from_queryset(ScheduleQuerySet)  # type: ignore[misc]
):
    def declare(
        self, declared: dict[str, dict[str, Any]], others_go: bool = True
    ) -> None:
        """Store what the code declares: {name: {"task": ..., field: value}}.

        Fields that were changed by hand stay changed. `others_go`: whether the other
        schedules that code once declared are orphaned. Several processes may do so at
        the same time.
        """
        if not self.differences(declared, others_go):
            return
        with transaction.atomic(using=self.db):
            declare_alone(self.db)
            names = self.differences(declared, others_go)
            rows = self.filter(name__in=names & declared.keys()).select_for_update()
            stored: dict[str, Schedule] = {row.name: row for row in rows}
            now = database_time(self.db)
            changed = []
            for name in sorted(names & declared.keys()):
                schedule = stored.get(name) or self.model(name=name)
                schedule.take_over(declared[name], now)
                changed.append(schedule)
            # There may be thousands.
            self.bulk_create(
                changed,
                BATCH,
                update_conflicts=True,
                unique_fields=["name"],
                update_fields=DECLARED_FIELDS,
            )
            gone = names - declared.keys()
            self.declared().filter(name__in=gone).update(orphaned=True)

    def differences(
        self, declared: dict[str, dict[str, Any]], others_go: bool
    ) -> set[str]:
        """Return the names of the schedules whose rows `declare` would change."""
        active = self.declared().filter(orphaned=False)
        rows = active.values_list("name", "task", "declared")
        stored = {name: (task, values) for name, task, values in rows}
        changed = {
            name
            for name, values in declared.items()
            if stored.get(name) != (values["task"], as_declared(values))
        }
        return changed | (stored.keys() - declared.keys() if others_go else set())


class Schedule(Table):
    """A recurring job. Any worker fires it when its time has come."""

    name = models.CharField(
        _("name"), max_length=200, unique=True, db_comment="Name of the schedule."
    )
    task = models.CharField(
        _("task"), max_length=200, db_comment="Name of the task of its jobs."
    )
    args = models.JSONField(
        _("unnamed arguments"),
        decoder=LenientDecoder,
        db_default=EMPTY_ARRAY,
        default=list,
        blank=True,
        db_comment="Arguments without names: a JSON array.",
    )
    kwargs = models.JSONField(
        _("arguments"),
        decoder=LenientDecoder,
        db_default=EMPTY_OBJECT,
        default=dict,
        blank=True,
        db_comment="Arguments by their names: a JSON object.",
    )
    every = models.DurationField(
        _("every"),
        null=True,
        blank=True,
        db_comment="Interval between runs. NULL: cron says when.",
    )
    cron = models.CharField(
        _("cron"),
        max_length=200,
        blank=True,
        db_default="",
        default="",
        db_comment="Cron expression. Empty: every says when.",
    )
    timezone = models.CharField(
        _("time zone"),
        max_length=100,
        db_default="UTC",
        default="UTC",
        db_comment="Name of the time zone of cron, such as Europe/Berlin.",
    )
    anchor = models.CharField(
        _("interval"),
        max_length=10,
        choices=Anchor,
        db_default=Anchor.START,
        default=Anchor.START,
        db_comment="every counts from: start (fixed times), or end (of the last run).",
    )
    overlap = models.CharField(
        _("overlap"),
        max_length=10,
        choices=Overlap,
        db_default=Overlap.SKIP,
        default=Overlap.SKIP,
        db_comment="While the last run is unfinished: skip or allow another one.",
    )
    catch_up = models.CharField(
        _("catch up"),
        max_length=10,
        choices=CatchUp,
        db_default=CatchUp.LATEST,
        default=CatchUp.LATEST,
        db_comment="Jobs for runs that were missed: latest (one for all), all or none.",
    )
    jitter = models.DurationField(
        _("jitter"),
        db_default=NO_TIME,
        default=NO_TIME,
        db_comment="Longest random delay of a run.",
    )
    start_at = models.DateTimeField(
        _("start"),
        null=True,
        blank=True,
        db_comment="No run before, and every counts from here. NULL: no such time.",
    )
    end_at = models.DateTimeField(
        _("end"), null=True, blank=True, db_comment="No run from then on. NULL: no end."
    )
    paused = models.BooleanField(
        _("paused"),
        db_default=False,
        default=False,
        db_comment="Whether an operator has paused it, so that it does not fire.",
    )
    declared = models.JSONField(
        _("as declared"),
        null=True,
        blank=True,
        db_comment="What the code declares, as JSON; other values were changed by "
        "hand. NULL: made by hand.",
    )
    orphaned = models.BooleanField(
        _("orphaned"),
        db_default=False,
        default=False,
        db_comment="Whether code has ceased to declare it, so that it does not fire.",
    )

    origin_at = models.DateTimeField(
        _("counted from"),
        db_default=Now(),
        db_comment="Change of its times: without start_at, every counts from here.",
    )
    next_run_at = models.DateTimeField(
        _("next run"),
        null=True,
        blank=True,
        db_comment="When it fires next. NULL: ended, broken, or its run goes on.",
    )
    # No constraint: its job may be deleted.
    last_job = models.ForeignKey(
        Job,
        models.DO_NOTHING,
        null=True,
        blank=True,
        related_name="+",
        db_constraint=False,
        db_index=False,
        verbose_name=_("last run"),
        db_comment="Job of the last run, whose row may be gone. NULL before the first.",
    )
    last_run_at = models.DateTimeField(
        _("last run at"),
        null=True,
        blank=True,
        db_comment="When the job of the last run was enqueued. NULL before the first.",
    )
    run_count = models.BigIntegerField(
        _("runs"), db_default=0, default=0, db_comment="How many jobs it has enqueued."
    )
    skip_count = models.BigIntegerField(
        _("skipped"),
        db_default=0,
        default=0,
        db_comment="How many runs the last run or a unique key kept away.",
    )
    error = models.TextField(
        _("error"),
        blank=True,
        db_default="",
        default="",
        db_comment="Why it cannot fire. Empty: it can.",
    )

    objects = ScheduleManager()

    class Meta:
        verbose_name = _("schedule")
        verbose_name_plural = _("schedules")
        db_table_comment = (
            "When to enqueue jobs again and again. Any worker fires them."
        )
        permissions = [
            ("run_schedule", _("Can run schedules now")),
            ("pause_schedule", _("Can pause and resume schedules")),
        ]
        indexes = [
            models.Index(
                "next_run_at",
                "id",
                condition=Q(next_run_at__isnull=False, paused=False, orphaned=False),
                name="pgjobs_schedule_due",
            ),
            models.Index(
                "id",
                condition=Q(next_run_at__isnull=True, anchor="end"),
                name="pgjobs_schedule_awaiting",
            ),
            models.Index(
                "last_job_id",
                condition=Q(last_job__isnull=False),
                name="pgjobs_schedule_last_job",
            ),
        ]
        constraints = [
            models.CheckConstraint(
                name="pgjobs_schedule_when",
                condition=Q(every__isnull=False, cron="")
                | (Q(every__isnull=True, anchor="start") & ~Q(cron="")),
            ),
            models.CheckConstraint(
                name="pgjobs_schedule_durations",
                condition=(
                    Q(every__isnull=True)
                    | Q(every__gte=SHORTEST_INTERVAL, every__lte=LONGEST_INTERVAL)
                )
                & Q(jitter__gte=NO_TIME, jitter__lte=LONGEST_INTERVAL),
            ),
            models.CheckConstraint(
                name="pgjobs_schedule_dates",
                condition=Q(start_at__isnull=True)
                | Q(end_at__isnull=True)
                | Q(start_at__lt=F("end_at")),
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def state(self):
        if self.orphaned:
            return State.ORPHANED
        if self.paused:
            return State.PAUSED
        if self.next_run_at is not None:
            return State.ACTIVE
        if self.error:
            return State.BROKEN
        waits = self.anchor == Anchor.END and self.last_job_id is not None
        return State.RUNNING if waits else State.ENDED

    @property
    def timetable(self) -> Timetable:
        return Timetable(
            every=self.every,
            cron=self.cron,
            timezone=self.timezone,
            origin=self.start_at or self.origin_at,
            start=self.start_at,
            end=self.end_at,
        )

    @property
    def timing(self) -> tuple:
        return tuple(getattr(self, field) for field in TIMING_FIELDS)

    @property
    def in_words(self) -> str:
        """When it fires, for people."""
        if self.every is None:
            return f"{self.timetable.explained} ({self.timezone})"
        words = gettext("Every %(interval)s") % {"interval": interval(self.every)}
        if self.anchor == Anchor.END:
            return gettext("%(words)s, from the end of the last run") % {"words": words}
        return words

    # What the code declares

    def take_over(self, values: dict[str, Any], now: datetime) -> None:
        """Take the values of a declaration, except for what was changed by hand."""
        changed_by_hand = self.differences
        before = None if self._state.adding else self.timing
        self.task = values["task"]
        for name, unit in UNITS.items():
            if name not in changed_by_hand:
                for field in unit.fields:
                    setattr(self, field, values[field])
        self.declared = as_declared(values)
        if self.timing != before:
            self.plan_again(now)
        elif self.orphaned:
            self.plan_next(now)
        self.orphaned = False

    @property
    def differences(self) -> dict[str, tuple[Any, Any]]:
        """Return {unit: (value, declared value)} of what was changed by hand.

        It is empty for a schedule that no code declares.
        """
        if self.declared is None:
            return {}
        values = as_declared(vars(self))
        return {
            name: (values[name], self.declared[name])
            for name in UNITS
            if values[name] != self.declared[name]
        }

    # When it fires

    def save(self, *, using: str | None = None, **kwargs: Any) -> None:
        """Store it; a new schedule gets its first run, unless it has one already.

        `using`: alias of the database. `kwargs`: the others of Django's `save`.
        """
        if self._state.adding and self.next_run_at is None and not self.error:
            using = using or router.db_for_write(Schedule, instance=self)
            self.plan_again(database_time(using))
        super().save(using=using, **kwargs)

    def plan_again(self, now: datetime) -> None:
        """Set the next run after a change of its times. `now`: the database's time."""
        self.origin_at = now
        self.plan_next(now)

    def plan_next(self, now: datetime) -> None:
        """Set the next run, or the error if SQL has stored a wrong expression."""
        try:
            self.next_run_at, self.error = self.timetable.after(now), ""
        except Exception as error:  # noqa: BLE001
            self.next_run_at, self.error = None, cannot_fire(error)

    def pause(self) -> bool:
        """Stop firing until resumed; return False if it was paused already."""
        return self._act("pause")

    def resume(self) -> bool:
        """Fire again, from the next tick on; return False if it was not paused."""
        return self._act("resume")

    def _act(self, verb: str) -> bool:
        database = database_of_acts(self)
        this = Schedule.objects.using(database).filter(pk=self.pk)
        changed = getattr(this, verb)() == 1
        self.refresh_from_db(using=database)
        return changed

    def next_runs(self, count: int) -> list[datetime]:
        """Return the next `count` ticks, if everything stays as it is."""
        if self.next_run_at is None or self.paused or self.orphaned:
            return []
        if self.anchor == Anchor.END:  # the ends of its runs are not known
            return [self.next_run_at]
        try:
            later = self.timetable.following(self.next_run_at, count - 1)
        except Exception:  # noqa: BLE001  (SQL can store any cron and any time zone)
            later = []  # the worker that fires it reports why
        return [self.next_run_at, *later]


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


def zone_of(schedule: Schedule) -> ZoneInfo | None:
    """Return the zone of a cron. An interval has none. SQL may have stored any text."""
    try:
        return ZoneInfo(schedule.timezone) if schedule.cron else None
    except (ValueError, OSError, ZoneInfoNotFoundError):
        return None
