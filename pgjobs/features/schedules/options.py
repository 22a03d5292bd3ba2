"""The options of recurring tasks, checked at once."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from typing import Any, ClassVar, Literal, TypedDict

from django.conf import settings as django_settings

from ...base.moments import aware
from ...exceptions import InvalidTask, non_negative_seconds
from ...tasks.destination import check_database
from ...tasks.option_checks import check_choice, check_moment
from .timetable import checked_timezone, checked_when

CHOICES = {
    "anchor": ("start", "end"),
    "overlap": ("skip", "allow"),
    "catch_up": ("latest", "all", "none"),
}


@dataclass(frozen=True, kw_only=True)
class Recurrence:
    """One schedule of a task, as its code declares it. Raises InvalidTask."""

    task_options: ClassVar[frozenset[str]]
    places: ClassVar = {"arguments": "@schedule(arguments=...)"}  # of other options

    #: The time between two runs: seconds or a `timedelta`.
    every: float | timedelta | None = None
    #: A cron expression, such as `"0 3 * * mon-fri"` or `"@weekly"`.
    cron: str | None = None
    #: Time zone of the cron expression. `None` takes the project's `TIME_ZONE`.
    timezone: str | None = None
    #: `every` counts from the start of a run, or from its `"end"`.
    anchor: Literal["start", "end"] = "start"
    #: A run is skipped while the last one is unfinished, or allowed (`"allow"`).
    overlap: Literal["skip", "allow"] = "skip"
    #: Which of the runs are made up that were missed while no worker lived: the
    #: latest, all (up to 1,000), or none.
    catch_up: Literal["latest", "all", "none"] = "latest"
    #: Each run starts later by a random time up to this: seconds or a `timedelta`.
    jitter: float | timedelta = 0
    #: Aware datetime of the earliest run.
    start: datetime | None = None
    #: Aware datetime after which no run follows.
    end: datetime | None = None
    #: Name of the schedule. It tells two schedules of a task apart.
    name: str | None = None
    #: Alias of the only database that has the schedule. `None` stores it in each
    #: database with a queue, or in the task's own.
    database: str | None = None
    #: Arguments of each run, by name.
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        try:
            every, cron = checked_when(self.every, self.cron)
            zone = self.timezone
            if zone is None:  # an interval is the same in every time zone
                zone = django_settings.TIME_ZONE if cron else "UTC"
            changes = {
                "every": every,
                "cron": cron,
                "timezone": checked_timezone(zone),
                "jitter": timedelta(
                    seconds=non_negative_seconds("jitter", self.jitter)
                ),
            }
        except ValueError as error:
            raise InvalidTask(f"A schedule's {error}") from None
        for name, value in changes.items():
            object.__setattr__(self, name, value)
        if self.database is not None:
            check_database(self.database)
        for name, choices in CHOICES.items():
            check_choice(f"{name} of a schedule", getattr(self, name), choices)
        if self.anchor == "end" and self.every is None:
            raise InvalidTask(
                "anchor='end' counts an interval from the end of a run: it goes with "
                "every=, not with cron=."
            )
        check_dates(self.start, self.end)
        if not isinstance(self.arguments, Mapping):
            raise InvalidTask(
                "arguments of a schedule must be a dict by the names of the task's "
                f"parameters, got {self.arguments!r}."
            )

    @property
    def values(self) -> dict[str, Any]:
        """The fields of `Schedule` that need no task."""
        return {
            "every": self.every,
            "cron": self.cron,
            "timezone": self.timezone,
            "anchor": self.anchor,
            "overlap": self.overlap,
            "catch_up": self.catch_up,
            "jitter": self.jitter,
            "start_at": self.start and aware(self.start),
            "end_at": self.end and aware(self.end),
        }


# The options of @task. Only @schedule takes arguments and a name, and `database` is
# another option of the task.
Recurrence.task_options = frozenset(each.name for each in fields(Recurrence)) - {
    "name",
    "arguments",
    "database",
}
DECLARATIONS = (Recurrence,)


class TaskOptions(TypedDict, total=False):
    every: float | timedelta
    cron: str
    timezone: str
    anchor: Literal["start", "end"]
    overlap: Literal["skip", "allow"]
    catch_up: Literal["latest", "all", "none"]
    jitter: float | timedelta
    start: datetime
    end: datetime


def check_dates(start: Any, end: Any) -> None:
    for name, value in (("start", start), ("end", end)):
        if value is not None:
            check_moment(f"{name} of a schedule", value)
    if start is not None and end is not None and aware(start) >= aware(end):
        raise InvalidTask(
            f"start of a schedule must be before its end, got {start!r} and {end!r}."
        )
