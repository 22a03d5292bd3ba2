"""Timetables: at which moments a schedule is due.

This is pure arithmetic, with the present moment as an argument.

An interval keeps its period when clocks change. A cron expression that names hours
follows the local clock: a time that the clock skips becomes the first moment that
exists, and of a time that it shows twice the first one counts. A cron expression with
`*` as its hour follows real time: it runs in each minute that matches, also when the
clock shows that minute for the second time.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError
from django.utils.translation import get_language

from ...base.moments import LATEST, instant
from ...exceptions import LONGEST_DELAY

LONGEST_CRON = 200
SHORTEST_INTERVAL = timedelta(seconds=1)
LONGEST_INTERVAL = timedelta(seconds=LONGEST_DELAY)
MINUTE = timedelta(minutes=1)
INSTANT = timedelta(microseconds=1)
HOURS_OF_A_DAY = 24
CRON_FIELDS = 5
ALIASES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}


@dataclass(frozen=True, kw_only=True)
class Timetable:
    """Either an interval from an origin, or a cron expression in a time zone."""

    every: timedelta | None = None
    cron: str = ""
    timezone: str = "UTC"
    origin: datetime | None = None  # the interval is counted from here, both ways
    start: datetime | None = None
    end: datetime | None = None  # the first moment that is too late

    def __post_init__(self) -> None:
        for name in ("origin", "start", "end"):
            if (moment := getattr(self, name)) is not None:
                object.__setattr__(self, name, instant(moment))

    def after(self, moment: datetime) -> datetime | None:
        """Return the first tick later than the moment, or None if there is none."""
        moment = instant(moment)
        if self.start is not None:
            moment = max(moment, self.start - INSTANT)
        try:
            tick = self.in_interval(moment) if self.every else self.by_cron(moment)
        except OverflowError:  # the next tick is beyond the year 9999
            return None
        last = min(self.end or LATEST, LATEST)
        return tick if tick is not None and tick < last else None

    @property
    def explained(self) -> str:
        """What the cron expression says, in words where the reader's language has some.

        CronSim has English ones alone.
        """
        if not (get_language() or "en").startswith("en"):
            return self.cron
        try:
            return CronSim(self.cron, datetime(2000, 1, 1)).explain()
        except CronSimError:
            return self.cron

    def following(self, moment: datetime, count: int) -> list[datetime]:
        """Return the next ticks after the moment, `count` at most."""
        ticks: list[datetime] = []
        while len(ticks) < count and (tick := self.after(moment)) is not None:
            ticks.append(tick)
            moment = tick
        return ticks

    def latest(self, first: datetime, until: datetime, count: int) -> list[datetime]:
        """Return the last ticks from `first` to `until`, both included.

        `count` is the most. It looks back in steps, each twice as long as the one
        before, because millions of ticks may lie between the two.
        """
        first, until, reach = instant(first), instant(until), timedelta(hours=1)
        while True:
            begin = max(first, until - reach) if reach < until - first else first
            ticks = list(self.between(begin, until))
            if begin == first or len(ticks) >= count:
                return ticks[-count:]
            reach *= 2

    def between(self, first: datetime, until: datetime) -> Iterator[datetime]:
        tick = self.after(first - INSTANT)
        while tick is not None and tick <= until:
            yield tick
            tick = self.after(tick)

    def in_interval(self, moment: datetime) -> datetime:
        assert self.every is not None
        assert self.origin is not None
        passed = (moment - self.origin) // self.every  # whole periods, rounded down
        return self.origin + (passed + 1) * self.every

    def by_cron(self, moment: datetime) -> datetime | None:
        zone = ZoneInfo(self.timezone)
        if runs_every_hour(self.cron):
            return first_real(self.cron, zone, moment)
        return first_on_the_wall(self.cron, zone, moment)


# cronsim says which times of the local clock match. This module decides what they are
# in real time: cronsim's own answers can lie before the moment asked about (in the hour
# that a clock shows twice), and miss runs where clocks shift by half an hour.


def first_on_the_wall(cron: str, zone: ZoneInfo, moment: datetime) -> datetime | None:
    for shown in times_shown(cron, moment.astimezone(zone).replace(tzinfo=None)):
        while (instant := instant_of(shown, zone)) is None:
            shown += MINUTE
        if instant > moment:
            return instant
    return None


def first_real(cron: str, zone: ZoneInfo, moment: datetime) -> datetime | None:
    here = moment.astimezone(zone)
    # Look also through the second pass of an hour that the clock shows twice.
    is_shown_twice = (
        here.replace(fold=0).utcoffset() != here.replace(fold=1).utcoffset()
    )
    passes = (0, 1) if is_shown_twice else (0,)
    found = [first_of_pass(cron, zone, moment, fold) for fold in passes]
    return min((each for each in found if each is not None), default=None)


def first_of_pass(
    cron: str, zone: ZoneInfo, moment: datetime, fold: int
) -> datetime | None:
    offset = moment.astimezone(zone).replace(fold=fold).utcoffset()
    assert offset is not None
    for shown in times_shown(
        cron, moment.astimezone(UTC).replace(tzinfo=None) + offset
    ):
        instant = instant_of(shown, zone, fold)
        if instant is not None and instant > moment:
            return instant
    return None


def times_shown(cron: str, begin: datetime) -> Iterator[datetime]:
    """Yield the times after `begin`, without a time zone, that match the expression."""
    return CronSim(cron, begin)


def instant_of(shown: datetime, zone: ZoneInfo, fold: int = 0) -> datetime | None:
    """Return when the local clock shows this time, or None if it never does."""
    instant = shown.replace(tzinfo=zone, fold=fold).astimezone(UTC)
    exists = instant.astimezone(zone).replace(tzinfo=None, fold=0) == shown
    return instant if exists else None


@lru_cache(maxsize=1_000)
def runs_every_hour(cron: str) -> bool:
    return len(CronSim(cron, datetime(2000, 1, 1)).hours) == HOURS_OF_A_DAY


# Checks. Each returns the value as it is stored, or raises ValueError with the rule.


def checked_cron(value: object) -> str:
    """Return the expression in its plain form: five fields, single spaces."""
    if not isinstance(value, str):
        raise ValueError(f"cron must be a string, got {value!r}.")
    if len(value) > LONGEST_CRON:
        raise ValueError(
            f"cron must have at most {LONGEST_CRON} characters, got {len(value)}."
        )
    plain = " ".join(value.split())
    if plain.startswith("@"):
        return alias(plain)
    if len(plain.split(" ")) != CRON_FIELDS:
        raise ValueError(
            "cron must have five fields (minute, hour, day of month, month, day of "
            f"week), got {value!r}. For seconds use every=timedelta(seconds=...)."
        )
    try:
        ever = next(CronSim(plain, datetime(2000, 1, 1)), None)
    except CronSimError as error:
        reason = str(error).removeprefix("Bad ")
        raise ValueError(
            f"cron {value!r} is no cron expression: its {reason} is wrong, or it "
            "never fires."
        ) from None
    if ever is None:
        raise ValueError(f"cron {value!r} never fires.")
    return plain


def alias(name: str) -> str:
    try:
        return ALIASES[name.lower()]
    except KeyError:
        raise ValueError(
            f"cron knows {', '.join(ALIASES)}, but not {name!r}: "
            "a schedule is about times, not about what happens."
        ) from None


def checked_timezone(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(
            f'timezone must be a name such as "Europe/Berlin", got {value!r}.'
        )
    try:
        ZoneInfo(value)
    except (LookupError, ValueError, OSError):  # a directory, among others
        raise ValueError(
            f'timezone must be a name such as "Europe/Berlin", got {value!r}.'
        ) from None
    return value


def checked_interval(value: object) -> timedelta:
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            value = timedelta(seconds=value)
        except (ValueError, OverflowError):  # NaN, or beyond all bounds
            value = timedelta.max
    if not isinstance(value, timedelta):
        raise ValueError(
            "every must be seconds or a timedelta, such as timedelta(hours=2), got "
            f"{value!r}."
        )
    if not SHORTEST_INTERVAL <= value <= LONGEST_INTERVAL:
        raise ValueError(f"every must be between 1 s and 100 years, got {value!r}.")
    return value


def checked_when(every: object, cron: object) -> tuple[timedelta | None, str]:
    """Return the interval or the expression; exactly one of them must be given."""
    if (every is None) == (not cron):
        raise ValueError(
            "times come from either every= or cron=, such as every=timedelta(hours=2)."
        )
    if every is not None:
        return checked_interval(every), ""
    return None, checked_cron(cron)
