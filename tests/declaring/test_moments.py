"""Moments with and without a zone: what is compared is when they are."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from django.test import override_settings

from pgjobs.base.moments import instant, local
from pgjobs.exceptions import InvalidTask
from tests.tasks import noop

NEW_YORK = ZoneInfo("America/New_York")
HOUR = timedelta(hours=1)
# Clocks there show 01:30 twice that night.
FIRST = datetime(2026, 11, 1, 1, 30, tzinfo=NEW_YORK)
SECOND = FIRST.replace(fold=1)
WITHOUT_ZONES = override_settings(USE_TZ=False, TIME_ZONE="America/New_York")


def test_two_moments_that_a_clock_shows_alike_are_an_hour_apart():
    assert instant(SECOND) - instant(FIRST) == HOUR


@WITHOUT_ZONES
def test_moment_without_a_zone_is_of_the_project():
    naive = datetime(2026, 7, 1, 12)
    assert instant(naive) == datetime(2026, 7, 1, 16, tzinfo=UTC)
    assert f"{local(naive):%H:%M %Z}" == "12:00 EDT"
    assert instant(SECOND.replace(tzinfo=None)) == instant(SECOND)


@WITHOUT_ZONES
def test_moment_of_a_project_without_zones_is_taken_for_what_its_clock_shows():
    later = noop.using(run_after=datetime(2026, 7, 1), expires=datetime(2026, 7, 2))
    columns = later.options.columns
    assert columns["run_after"] == datetime(2026, 7, 1, 4, tzinfo=UTC)
    assert columns["expires_at"] == datetime(2026, 7, 2, 4, tzinfo=UTC)


def test_moment_without_a_zone_is_refused_where_moments_have_one():
    with pytest.raises(InvalidTask, match="must be an aware datetime"):
        noop.using(run_after=datetime(2026, 7, 1))
