"""The time zones in which schedules count."""

from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from ..models.schedule import Schedule


def zone_of(schedule: Schedule) -> ZoneInfo | None:
    """Return the zone of a cron. An interval has none. SQL may have stored any text."""
    try:
        return ZoneInfo(schedule.timezone) if schedule.cron else None
    except (ValueError, OSError, ZoneInfoNotFoundError):
        return None
