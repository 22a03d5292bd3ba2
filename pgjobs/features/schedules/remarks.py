"""Schedules that do not fire, or will not."""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

from django.db.models import F, Q, QuerySet
from django.utils.translation import gettext, ngettext

from ...base.moments import instant
from ...reports.remarks import PATIENCE, Remark, Seen
from .queue import cannot_fire
from .tables import Anchor, Schedule

MOST_COUNTED = 10_000
MOST_NAMED = 100  # of each kind
MOST_PLANS = 500  # that are compared with their timetables, the latest first
# No arguments: a role that watches may not read them.
READ = (
    *("name", "error", "next_run_at", "anchor"),
    *("every", "cron", "timezone", "origin_at", "start_at", "end_at"),
)
AHEAD = timedelta(minutes=5)  # by which a clock may have been


def remarks(seen: Seen) -> list[Remark]:
    """Return what an operator should know about the schedules that should fire."""
    now = seen.now
    active = Schedule.objects.using(seen.database).active().only(*READ)
    noticed = [
        broken(schedule, schedule.error)
        for schedule in active.exclude(error="")[:MOST_NAMED]
    ]
    overdue = active.filter(next_run_at__lt=now - PATIENCE).order_by()
    if number := overdue[:MOST_COUNTED].count():
        text = ngettext(
            "%d schedule is overdue: does a worker run?",
            "%d schedules are overdue: does a worker run?",
            number,
        )
        noticed.append(Remark(text % number, "worker"))
    return noticed + late_plans(active, now) + without_plan(active, now)


def broken(schedule: Schedule, error: str) -> Remark:
    text = gettext("Schedule %(name)s does not fire: %(error)s")
    values = {"name": schedule.name, "error": error}
    return Remark(text % values, "schedule", schedule.pk)


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
    return Remark(text % values, "schedule", schedule.pk)


def without_plan(active: QuerySet[Schedule], now: datetime) -> list[Remark]:
    """Return the schedules that have times to come but no next run.

    One that counts from the end of its run has none while that run goes on.
    """
    without = active.filter(next_run_at=None, error="").filter(
        Q(anchor=Anchor.START) | Q(last_run_at=None)
    )
    not_ended = without.filter(Q(end_at=None) | Q(end_at__gt=now))
    some = not_ended.order_by("pk")[:MOST_NAMED]
    return judged(some, lambda schedule: unplanned(schedule, now))


def unplanned(schedule: Schedule, now: datetime) -> Remark | None:
    if schedule.timetable.after(now) is None:
        return None
    text = gettext("Schedule %(name)s has no next run: pause and resume it.")
    return Remark(text % {"name": schedule.name}, "schedule", schedule.pk)
