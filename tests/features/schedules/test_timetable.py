"""Timetables: intervals, cron, and what clocks on walls do to them. No database."""

import itertools
from datetime import UTC, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim
from django.test import override_settings
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pgjobs.features.schedules.timetable import (
    Timetable,
    checked_cron,
    checked_interval,
    checked_timezone,
    checked_when,
)

STEP = timedelta(minutes=5)  # of the expressions, and of all changes of the clocks
DAYS = 400
BERLIN = "Europe/Berlin"
NEW_YORK = ZoneInfo("America/New_York")
ZONES = {  # 400 days, with every change of the clocks in them
    BERLIN: datetime(2026, 1, 1, tzinfo=UTC),
    "America/New_York": datetime(2026, 1, 1, tzinfo=UTC),
    "Australia/Lord_Howe": datetime(2026, 1, 1, tzinfo=UTC),  # by half an hour
    "Pacific/Apia": datetime(2011, 6, 1, tzinfo=UTC),  # skipped 30 December 2011
}
NAMING_HOURS = [
    "30 2 * * *",
    "0 0 * * *",
    "15,45 1-3 * * *",
    "*/20 2 * * *",
    "0 */2 * * *",
]
EVERY_HOUR = ["0 * * * *", "*/15 * * * *", "5 * * * mon-fri", "*/30 0-23 * * *"]


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)


def berlin(cron: str, **options) -> Timetable:
    return Timetable(cron=cron, timezone=BERLIN, **options)


def at(*parts: int, zone: str = BERLIN) -> datetime:
    return datetime(*parts, tzinfo=ZoneInfo(zone))


# 400 days by brute force, each five minutes of them


@cache
def clock(zone: str) -> list[tuple[datetime, datetime]]:
    """Return (instant, what the clock shows), step by step."""
    begin, place = ZONES[zone], ZoneInfo(zone)
    instants = [begin + number * STEP for number in range(DAYS * 24 * 12)]
    return [
        (instant, instant.astimezone(place).replace(tzinfo=None, fold=0))
        for instant in instants
    ]


def matching(cron: str, zone: str) -> set[datetime]:
    """Return the times without a zone that match, days before and after included."""
    begin = ZONES[zone].replace(tzinfo=None) - timedelta(days=3)
    shown, found = CronSim(cron, begin), set()
    while (time := next(shown)) < begin + timedelta(days=DAYS + 6):
        found.add(time)
    return found


def nights_of_change(zone: str) -> list[datetime]:
    """Return the instants at which the clock jumps."""
    steps = itertools.pairwise(clock(zone))
    return [
        instant for (_, before), (instant, shown) in steps if shown != before + STEP
    ]


def expected_of_hours(cron: str, zone: str) -> list[datetime]:
    """Each time that matches once: when first shown, or when what skips it ends."""
    times = matching(cron, zone)
    found, seen = [], set()
    before = clock(zone)[0][1] - STEP
    for instant, shown in clock(zone):
        gap = range(1, (shown - before) // STEP)
        skips_one = any(before + number * STEP in times for number in gap)
        if skips_one or (shown in times and shown not in seen):
            found.append(instant)
        seen.add(shown)
        before = shown
    return found


@pytest.mark.parametrize("zone", ZONES)
def test_clocks_of_the_zones_change(zone):
    """The tests below would also pass if they never did."""
    assert len(nights_of_change(zone)) >= 2


@pytest.mark.slow
@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("cron", NAMING_HOURS)
def test_time_of_the_clock_runs_once_whatever_the_clock_does(cron, zone):
    begin, end = ZONES[zone], ZONES[zone] + timedelta(days=DAYS) - STEP
    ticks = list(Timetable(cron=cron, timezone=zone).between(begin, end))
    assert ticks == expected_of_hours(cron, zone)


@pytest.mark.slow
@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("cron", EVERY_HOUR)
def test_expression_for_every_hour_runs_at_each_real_minute_that_matches(cron, zone):
    timetable = Timetable(cron=cron, timezone=zone)
    times = matching(cron, zone)
    for change in nights_of_change(zone):
        begin, end = change - timedelta(hours=6), change + timedelta(hours=6)
        expected = [
            instant
            for instant, shown in clock(zone)
            if begin <= instant <= end and shown in times
        ]
        assert list(timetable.between(begin, end)) == expected


# The nights themselves


def test_time_in_the_gap_runs_at_the_first_moment_that_exists():
    before = at(2026, 3, 29, 1, 59)
    nights = berlin("30 2 * * *").following(before, 2)
    assert nights == [at(2026, 3, 29, 3, 0), at(2026, 3, 30, 2, 30)]


def test_two_times_in_one_gap_run_once():
    ticks = berlin("15,45 2 * * *").following(at(2026, 3, 29, 1, 59), 2)
    assert ticks == [at(2026, 3, 29, 3, 0), at(2026, 3, 30, 2, 15)]


def test_time_in_the_fold_runs_once():
    ticks = berlin("30 2 * * *").following(at(2026, 10, 24, 12), 2)
    assert ticks == [utc(2026, 10, 25, 0, 30), utc(2026, 10, 26, 1, 30)]


@pytest.mark.parametrize("minute", [0, 10, 29, 30, 31, 59])
def test_moment_in_the_second_pass_of_the_fold_is_never_followed_by_the_first(minute):
    ticks = berlin("30 2 * * *").following(utc(2026, 10, 25, 1, minute), 1)
    assert ticks == [utc(2026, 10, 26, 1, 30)]


def test_quarters_of_the_hour_go_on_in_both_passes_of_the_fold():
    ticks = berlin("*/15 * * * *").following(utc(2026, 10, 24, 23, 59), 12)
    assert ticks == [utc(2026, 10, 25) + n * 3 * STEP for n in range(12)]


def test_noon_of_the_day_that_apia_skipped_runs_when_the_next_day_begins():
    apia = Timetable(cron="0 12 * * *", timezone="Pacific/Apia")
    ticks = apia.following(at(2011, 12, 29, 12, 0, zone="Pacific/Apia"), 2)
    assert ticks == [
        at(2011, 12, 31, 0, 0, zone="Pacific/Apia"),
        at(2011, 12, 31, 12, 0, zone="Pacific/Apia"),
    ]


def test_working_days_are_those_of_the_time_zone():
    ticks = berlin("0 3 * * mon-fri").following(utc(2026, 11, 20, 12), 2)  # a Friday
    assert ticks == [utc(2026, 11, 23, 2), utc(2026, 11, 24, 2)]


# Properties

moments = st.datetimes(
    datetime(1971, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)
)
zones = st.sampled_from(
    [*ZONES, "UTC", "Africa/Cairo", "America/Havana", "Asia/Kolkata"]
)
fields = st.tuples(
    st.sampled_from(["0", "30", "*", "*/7", "5,59", "10-20/5"]),
    st.sampled_from(["*", "0", "1", "2", "3", "*/5", "23", "0-23"]),
    st.sampled_from(["*", "1", "29", "L", "*/10"]),
    st.sampled_from(["*", "3", "10", "2-4"]),
    st.sampled_from(["*", "SUN", "1-5", "FRI#2"]),
)
intervals = st.timedeltas(timedelta(seconds=1), timedelta(days=400))


@settings(max_examples=150, deadline=None)
@given(fields, zones, moments)
@example(("30", "2", "*", "*", "*"), BERLIN, utc(2026, 10, 25, 1, 10))
@example(("*/7", "1", "*", "*", "*"), "Australia/Lord_Howe", utc(2026, 4, 4, 15, 20))
def test_tick_is_later_than_asked_and_the_first(fields, zone, moment):
    timetable = Timetable(cron=" ".join(fields), timezone=zone)
    tick = timetable.after(moment)
    if tick is None:
        return
    assert tick > moment
    assert tick.second == tick.microsecond == 0
    between = moment + (tick - moment) / 2
    assert timetable.after(between) == tick
    assert timetable.after(tick - timedelta(microseconds=1)) == tick


@settings(max_examples=100, deadline=None)
@given(intervals, moments, moments)
def test_interval_has_no_gap_longer_and_none_shorter_than_its_period(
    every, origin, moment
):
    timetable = Timetable(every=every, origin=origin)
    ticks = timetable.following(moment, 4)
    assert moment < ticks[0] <= moment + every
    assert (ticks[0] - origin) % every == timedelta(0)
    assert {b - a for a, b in itertools.pairwise(ticks)} == {every}


@settings(max_examples=100, deadline=None)
@given(
    intervals,
    moments,
    st.timedeltas(timedelta(0), timedelta(days=30)),
    st.integers(1, 9),
)
def test_latest_ticks_are_the_last_of_all(every, first, span, count):
    timetable = Timetable(every=max(every, timedelta(minutes=30)), origin=first)
    everything = list(timetable.between(first, first + span))
    assert timetable.latest(first, first + span, count) == everything[-count:]


@settings(max_examples=30, deadline=None)
@given(fields, zones, moments, st.timedeltas(timedelta(0), timedelta(days=5)))
def test_latest_ticks_of_a_cron_are_the_last_of_all(fields, zone, first, span):
    timetable = Timetable(cron=" ".join(fields), timezone=zone)
    everything = list(timetable.between(first, first + span))
    assert timetable.latest(first, first + span, 3) == everything[-3:]


def test_latest_ticks_of_years_are_found_without_walking_through_them():
    timetable = Timetable(every=timedelta(seconds=1), origin=utc(1970, 1, 1))
    now = utc(2026, 1, 1)
    assert timetable.latest(utc(1970, 1, 1), now, 2) == [
        now - timedelta(seconds=1),
        now,
    ]


# Start and end


def test_nothing_is_due_before_the_start():
    every = Timetable(
        every=timedelta(hours=1), origin=utc(2026, 5, 1), start=utc(2026, 5, 1)
    )
    assert every.after(utc(2026, 1, 1)) == utc(2026, 5, 1)
    cron = berlin("0 3 * * *", start=at(2026, 5, 1))
    assert cron.after(utc(2026, 1, 1)) == at(2026, 5, 1, 3)


def test_tick_at_the_start_itself_counts():
    assert berlin("0 3 * * *", start=at(2026, 5, 1, 3)).after(utc(2026, 1, 1)) == at(
        2026, 5, 1, 3
    )


def test_nothing_is_due_from_the_end_on():
    cron = berlin("0 3 * * *", end=at(2026, 5, 2, 3))
    assert cron.following(at(2026, 5, 1), 5) == [at(2026, 5, 1, 3)]


def test_far_future_ends_the_timetable_instead_of_failing():
    far = Timetable(every=timedelta(days=30_000), origin=utc(9990, 1, 1))
    assert far.after(utc(9990, 1, 2)) is None
    assert Timetable(cron="0 0 1 1 *").after(utc(9998, 6, 1)) is None


# What is refused


@pytest.mark.parametrize(
    "cron",
    [
        "",
        " ",
        "* * * *",
        "60 * * * *",
        "*/0 * * * *",
        "0 0 31 2 *",
        "0 0 30 2 */2",
        "@reboot",
        "@",
        "* " * 5_000,
        "* * * * * *",
        "٣ * * * *",
        "0 0 * * FUN",
        "\0 * * * *",
        "-1 * * * *",
        "5-1 * * * *",
        b"0 3 * * *",
        5,
        None,
    ],
)
def test_cron_that_cannot_fire_is_refused(cron):
    with pytest.raises(ValueError, match="cron"):
        checked_cron(cron)


@pytest.mark.parametrize(
    ("cron", "stored"),
    [
        ("0  3 * *\tmon-fri", "0 3 * * mon-fri"),
        ("@daily", "0 0 * * *"),
        ("@Hourly", "0 * * * *"),
        ("0 0 29 2 *", "0 0 29 2 *"),
        ("0 0 L * *", "0 0 L * *"),
        ("0 0 * 2 MON#5", "0 0 * 2 MON#5"),
    ],
)
def test_cron_is_stored_in_its_plain_form(cron, stored):
    assert checked_cron(cron) == stored


@pytest.mark.parametrize(
    "zone",
    [
        "",
        "CEST",
        "Berlin",
        "Europe",
        "../../etc/passwd",
        "/etc/localtime",
        "\0",
        "\ud800",
        5,
        None,
        "a" * 5_000,
    ],
)
def test_time_zone_that_does_not_exist_is_refused(zone):
    with pytest.raises(ValueError, match="timezone must be"):
        checked_timezone(zone)


@pytest.mark.parametrize(
    "every",
    [
        timedelta(0),
        timedelta(seconds=-1),
        timedelta(milliseconds=999),
        timedelta.max,
        0.5,
        -5,
        float("nan"),
        float("inf"),
        "2h",
        True,
    ],
)
def test_interval_must_be_a_second_or_more(every):
    with pytest.raises(ValueError, match="every must be"):
        checked_interval(every)


@pytest.mark.parametrize("every", [90, 90.0, timedelta(seconds=90)])
def test_interval_may_be_seconds(every):
    assert checked_interval(every) == timedelta(seconds=90)


@pytest.mark.parametrize(
    ("every", "cron"), [(None, ""), (None, None), (timedelta(hours=1), "0 3 * * *")]
)
def test_schedule_has_either_an_interval_or_an_expression(every, cron):
    with pytest.raises(ValueError, match="either"):
        checked_when(every, cron)


def test_interval_keeps_its_period_whatever_zone_its_moments_have():
    six = timedelta(hours=6)
    timetable = Timetable(
        every=six,
        origin=datetime(2026, 10, 31, tzinfo=NEW_YORK),
    )
    ticks = timetable.following(datetime(2026, 11, 1, 0, 1, tzinfo=NEW_YORK), 4)
    assert {later - tick for tick, later in itertools.pairwise(ticks)} == {six}


@override_settings(USE_TZ=False, TIME_ZONE="America/New_York")
def test_schedule_of_a_project_without_zones_fires():
    timetable = Timetable(cron="0 3 * * *", timezone="UTC", start=datetime(2026, 7, 1))
    now = datetime(2026, 7, 1, 12)
    assert timetable.after(now) == datetime(2026, 7, 2, 3, tzinfo=UTC)
