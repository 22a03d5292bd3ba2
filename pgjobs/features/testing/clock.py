"""Time that passes for the queue without sleeping.

The database's clock decides what is due, and nothing can move it. So time passes the
other way round: all that the queue remembers becomes older. At the end it becomes
younger again by the same time. Then each job has the times that it would have if the
clock had moved on and back.
"""

import warnings
from datetime import datetime, timedelta
from math import ceil, inf

from django.utils import timezone

from ...base.moments import instant
from ...base.queue_database import database_time
from ...exceptions import non_negative_seconds
from ...models.job import Job
from ...sql import statement
from ...tasks.option_checks import has_no_zone
from .caller import CallerWorker

MOVED = timedelta(seconds=10)  # a larger difference is no difference of two computers
LONGEST = timedelta(days=20 * 365)
SMALLEST = 1_000  # microseconds


class QueueClock:
    """The time that a run lets pass, in microseconds."""

    def __init__(self, worker: CallerWorker, seconds: float):
        self.worker = worker
        self.span = seconds if seconds == inf else round(seconds * 1e6)
        self.passed = 0

    def __enter__(self) -> "QueueClock":
        return self

    def __exit__(self, *error) -> None:
        if self.passed:
            self.let_pass(-self.passed)

    def advance(self) -> bool:
        """Let time pass until the next job is due; return whether any has passed."""
        left = self.span - self.passed
        due = self.next_due()
        step = left if due is None else min(max(due, SMALLEST), left)
        if step <= 0 or step == inf:
            return False
        self.let_pass(int(step))
        return True

    def next_due(self) -> int | None:
        parameters = {"queues": self.worker.queues}
        ((seconds,),) = self.worker.execute(statement("next_due"), parameters)
        return None if seconds is None else ceil(seconds * 1e6)

    def let_pass(self, microseconds: int) -> None:
        parameters = {"seconds": microseconds / 1e6}
        self.worker.execute(statement("pass_time"), parameters)
        self.passed += microseconds


def seconds_until(until: datetime | timedelta | None, database: str) -> float:
    """Return how many seconds must pass until then.

    A test that has moved Python's clock ahead expects that jobs are due by that clock.
    """
    ahead = max(clock_ahead(database), timedelta(0))
    return (ahead + from_now(until)).total_seconds()


def from_now(until: datetime | timedelta | None) -> timedelta:
    if until is None:
        return timedelta(0)
    if isinstance(until, datetime):
        if has_no_zone(until):
            raise ValueError(
                f"until must be an aware datetime or a timedelta, got {until!r}: "
                "django.utils.timezone.now() is aware."
            )
        return check_length(max(instant(until) - instant(timezone.now()), timedelta(0)))
    return check_length(timedelta(seconds=non_negative_seconds("until", until)))


def check_length(span: timedelta) -> timedelta:
    if span > LONGEST:
        raise ValueError(f"until must lie within the next 20 years, got {span}.")
    return span


def clock_ahead(database: str) -> timedelta:
    """Return by how much Python's clock is ahead, if something has moved it."""
    difference = instant(timezone.now()) - database_time(database)
    return timedelta(0) if abs(difference) < MOVED else difference


def warn_of_clock(database: str) -> None:
    """Warn if jobs run now that are not yet due by the clock which a test has moved."""
    behind = -clock_ahead(database)
    if behind <= timedelta(0):
        return
    jobs = Job.objects.using(database).filter(
        run_after__gt=timezone.now(), finished_at=None
    )
    if number := jobs.exclude(status="SCHEDULED").count():
        warnings.warn(
            f"Python's clock is {behind} behind the database's, and jobs go by the "
            f"database's: {number} of them run at once although Python calls their "
            "run_after the future. Move the clock ahead instead of back, or give "
            "run_after as a timedelta.",
            stacklevel=3,
        )
