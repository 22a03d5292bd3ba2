"""Schedules that do not fire, or will not."""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

from django.db.models import F, Q, QuerySet
from django.utils.translation import gettext, ngettext

from ...base.moments import instant
from ...conf import positive_seconds, whole_number
from ...reports.durations import seconds_in_words
from ...reports.reading import rows_of
from ...reports.remarks import Alert, Remark, Seen
from ...reports.texts import one_line
from .queue import cannot_fire
from .tables import Anchor, Schedule

MOST_COUNTED = 1_000
MOST_SENTENCES = 5  # of each kind; one more for those beyond
MOST_NAMED = 100  # of each kind
FAILING = {"latest": 2_000, "candidates": 500, "most": MOST_NAMED}
MOST_PLANS = 500  # that are compared with their timetables, the latest first
# No arguments: a role that watches may not read them.
READ = (
    *("name", "error", "next_run_at", "anchor"),
    *("every", "cron", "timezone", "origin_at", "start_at", "end_at"),
)
AHEAD = timedelta(minutes=5)  # by which a clock may have been


def broken_schedules(seen: Seen, _) -> list[Remark]:
    """Return the schedules that will not fire as their times say."""
    active = active_in(seen.database)
    return without_plan(active, seen.now) + late_plans(active, seen.now)


def active_in(database: str) -> QuerySet[Schedule]:
    return Schedule.objects.using(database).active().only(*READ)


def late_schedules(seen: Seen, patience: float) -> list[Remark]:
    """Return the schedules that should have fired; the latest ones by name."""
    before = seen.now - timedelta(seconds=patience)
    overdue = active_in(seen.database).filter(next_run_at__lt=before)
    latest = overdue.order_by("next_run_at")[: MOST_COUNTED + 1]
    rows = list(latest.values_list("pk", "name", "next_run_at"))
    noticed = [late_remark(seen.now, *row) for row in rows[:MOST_SENTENCES]]
    if (more := len(rows) - MOST_SENTENCES) > 0:
        text = ngettext(
            "%d more schedule is late.", "%d more schedules are late.", more
        )
        noticed.append(Remark(text % more, "schedule"))
    return noticed


def late_remark(now: datetime, pk: int, name: str, planned_at: datetime) -> Remark:
    text = gettext("Schedule %(name)s is %(time)s late: does a worker run?")
    age = (now - instant(planned_at)).total_seconds()
    values = {"name": one_line(name), "time": seconds_in_words(age)}
    return Remark(text % values, "schedule", pk, subject=name)


def failing_schedules(seen: Seen, runs: int) -> list[Remark]:
    """Return the schedules whose last runs have all failed."""
    limits = FAILING | {"runs": runs}
    rows = rows_of(seen.database, "failing_schedules", limits)
    text = ngettext(
        "The last run of schedule %(name)s has failed.",
        "The last %(number)d runs of schedule %(name)s have failed.",
        runs,
    )
    noticed = [
        Remark(
            text % {"number": runs, "name": one_line(name)},
            "schedule",
            pk,
            subject=name,
        )
        for pk, name in rows[:MOST_SENTENCES]
    ]
    if (more := len(rows) - MOST_SENTENCES) > 0:
        text = ngettext("%d more schedule fails.", "%d more schedules fail.", more)
        noticed.append(Remark(text % more, "schedule"))
    return noticed


def broken(schedule: Schedule, error: str) -> Remark:
    text = gettext("Schedule %(name)s does not fire: %(error)s")
    values = {"name": schedule.name, "error": error}
    return Remark(text % values, "schedule", schedule.pk, subject=schedule.name)


def late_plans(active: QuerySet[Schedule], now: datetime) -> list[Remark]:
    """Return the schedules whose next run is later than their times say.

    A schedule that fired while the database's clock was ahead has such a plan.
    """
    planned = active.filter(next_run_at__gt=now, error="")
    may_be_late = Q(every=None) | Q(next_run_at__gt=now + 2 * F("every") + AHEAD)
    candidates = planned.filter(may_be_late).order_by("-next_run_at")[:MOST_PLANS]
    return judged(candidates, lambda schedule: late(schedule, now))[:MOST_NAMED]


def judged(
    schedules: Iterable[Schedule], judge: Callable[[Schedule], Remark | None]
) -> list[Remark]:
    """Return what there is to say of each, also where its times cannot be read."""
    noticed = []
    for schedule in schedules:
        try:
            remark = judge(schedule)
        except Exception as error:  # noqa: BLE001  (SQL has stored a wrong expression)
            remark = broken(schedule, cannot_fire(error))
        if remark is not None:
            noticed.append(remark)
    return noticed


def latest_plan(schedule: Schedule, now: datetime) -> datetime | None:
    """Return the second run after now, behind which no plan lies. None: no such."""
    if schedule.anchor == Anchor.END:
        assert schedule.every is not None
        start = now if schedule.start_at is None else instant(schedule.start_at)
        return max(now, start) + 2 * schedule.every
    ticks = schedule.timetable.following(now, 2)
    return ticks[-1] if ticks else None


def late(schedule: Schedule, now: datetime) -> Remark | None:
    latest, planned_at = latest_plan(schedule, now), instant(schedule.next_run_at)
    if latest is None or planned_at <= latest + AHEAD:
        return None
    text = gettext(
        "Schedule %(name)s will not fire before %(time)s, although its times say so: "
        "pause and resume it."
    )
    values = {"name": schedule.name, "time": f"{planned_at:%Y-%m-%d %H:%M} UTC"}
    return Remark(text % values, "schedule", schedule.pk, subject=schedule.name)


def without_plan(active: QuerySet[Schedule], now: datetime) -> list[Remark]:
    """Return the schedules that have failed to fire, and those without a next run.

    One that counts from the end of its run has none while that run goes on.
    """
    is_idle = Q(anchor=Anchor.START) | Q(last_run_at=None)
    has_times = Q(end_at=None) | Q(end_at__gt=now)
    unplanned = Q(next_run_at=None) & is_idle & has_times
    found = active.filter(~Q(error="") | unplanned).order_by("-error", "pk")
    return judged(found[:MOST_NAMED], lambda schedule: unfit(schedule, now))


def unfit(schedule: Schedule, now: datetime) -> Remark | None:
    if schedule.error:
        return broken(schedule, schedule.error)
    if schedule.timetable.after(now) is None:
        return None
    text = gettext("Schedule %(name)s has no next run: pause and resume it.")
    name = schedule.name
    return Remark(text % {"name": name}, "schedule", schedule.pk, subject=name)


ALERTS = (
    Alert(
        "schedule_fails",
        "So many runs of a schedule have failed, one after the other.",
        failing_schedules,
        value=3,
        read=whole_number,
    ),
    Alert(
        "schedule_late",
        "A schedule has not fired for this time after its next run.",
        late_schedules,
        value=300.0,
        read=positive_seconds,
    ),
    Alert(
        "schedule_broken",
        "A schedule cannot fire, has no next run, or one that is later than its times "
        "say.",
        broken_schedules,
    ),
)
