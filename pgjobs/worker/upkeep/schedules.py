"""Fires schedules. Every worker does, and none is special: the database decides."""

import logging
from collections.abc import Sequence
from time import monotonic

import psycopg

from ...conf import settings
from ...queue import schedules as firing
from ...queue.schedules import Plan
from ...tasks.schedules import bind
from ..connections.connection import OwnConnection
from .maintenance import RESCUE_PER_HEARTBEAT

logger = logging.getLogger("pgjobs.schedules")

# Until another look, when somebody held what was due; it doubles.
FIRST_PAUSE = 0.05  # seconds
LONGEST_PAUSE = 1.0
CONNECTION_ERRORS = (
    psycopg.OperationalError,
    psycopg.InterfaceError,
    psycopg.InternalError,
)


class Scheduler:
    """Knows when the next schedule is due, and fires those that are."""

    def __init__(self) -> None:
        # People edit schedules: it looks as often as for dead workers.
        self.interval = settings.HEARTBEAT_INTERVAL * RESCUE_PER_HEARTBEAT
        self.due = 0.0  # monotonic time
        self.pause = FIRST_PAUSE

    @property
    def is_due(self) -> bool:
        return monotonic() >= self.due

    def expect(self, seconds: float | None) -> None:
        """Note when a schedule has to be looked at; before long somebody asks again."""
        wait = 2 * self.interval if seconds is None else min(seconds, 2 * self.interval)
        self.due = monotonic() + wait

    def run(self, connection: OwnConnection) -> int:
        """Fire a batch of what is due; return how many jobs that made."""
        seconds = firing.next_fire(connection.execute)
        if seconds is None or seconds > 0:
            wait = self.interval if seconds is None else min(seconds, self.interval)
            self.due = monotonic() + wait
            return 0
        due = firing.due_schedules(connection.execute)
        won, jobs = fire(connection, [firing.plan(each) for each in due])
        if won:
            self.due, self.pause = monotonic(), FIRST_PAUSE
        else:
            self.due = monotonic() + self.pause
            self.pause = min(2 * self.pause, LONGEST_PAUSE)
        return jobs


def fire(connection: OwnConnection, plans: Sequence[Plan]) -> tuple[int, int]:
    """Fire all in one transaction; one by one if one of them cannot be fired."""
    if not plans:
        return 0, 0
    try:
        with connection.transaction():
            return firing.fire(connection.execute, plans, bind)
    except psycopg.errors.LockNotAvailable:
        return fire_one_by_one(connection, plans) if len(plans) > 1 else (0, 0)
    except CONNECTION_ERRORS:
        raise
    except Exception as error:
        if len(plans) > 1:
            return fire_one_by_one(connection, plans)
        logger.exception("Schedule id=%s cannot be fired", plans[0].id)
        reason = f"It could not be fired: {str(error).strip()}"[:1_000]
        failed = plans[0]._replace(ticks=(), error=reason)
        with connection.transaction():
            return firing.fire(connection.execute, [failed], bind)


def fire_one_by_one(
    connection: OwnConnection, plans: Sequence[Plan]
) -> tuple[int, int]:
    results = [fire(connection, [each]) for each in plans]
    return sum(won for won, _ in results), sum(jobs for _, jobs in results)
