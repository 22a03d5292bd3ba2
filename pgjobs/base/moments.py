"""Moments with a zone and without: where USE_TZ is off, Django's have none."""

from datetime import UTC, datetime, tzinfo

from django.utils.timezone import get_default_timezone, is_naive, localtime, make_aware

# Jobs and schedules have no moment before the first, and none from the second on.
EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
LATEST = datetime(9999, 1, 1, tzinfo=UTC)


def aware(moment: datetime) -> datetime:
    """Return a moment with its zone. Without one it is of the project's TIME_ZONE."""
    return make_aware(moment, get_default_timezone()) if is_naive(moment) else moment


def instant(moment: datetime) -> datetime:
    """Return a moment in UTC.

    Only such moments can be compared and subtracted: of two moments of one zone Python
    compares what the clock shows, which an hour a year shows twice.
    """
    return aware(moment).astimezone(UTC)


def local(moment: datetime, zone: tzinfo | None = None) -> datetime:
    """Return a moment as a clock shows it: that of a zone, or the user's."""
    return localtime(instant(moment), zone)
