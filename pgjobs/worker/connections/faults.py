"""When to try again what failed.

A lost database stops the worker until the database is back. Any other error postpones
only what the failing statement was for, longer each time.
"""

import logging
import random
from time import monotonic

import psycopg

from ...base.database_errors import text_of
from ...exceptions import DatabaseLost

logger = logging.getLogger("pgjobs.worker")

SHORTEST_PAUSE = 0.1
LONGEST_PAUSE = 5.0
PATIENCE = 600.0  # seconds without a database after which the worker ends


class Backoff:
    """When to try again what has failed: later each time."""

    def __init__(self, first: float, longest: float):
        self.first = first  # seconds
        self.longest = longest
        self.pause = 0.0  # seconds; 0 while nothing fails
        self.since: float | None = None  # monotonic time of the first failure
        self.retry_at = 0.0  # monotonic time

    def failed(self, now: float) -> float:
        """Plan the next try; return the seconds until then."""
        if self.since is None:
            self.since = now
        self.pause = min(2 * self.pause or self.first, self.longest)
        wait = self.pause * random.uniform(0.5, 1)
        self.retry_at = now + wait
        return wait

    def passed(self) -> None:
        """Note that it works."""
        if self.since is not None:
            self.since, self.pause, self.retry_at = None, 0.0, 0.0

    def lasts(self, now: float) -> float:
        """Return for how many seconds it has failed; 0 while it works."""
        return 0.0 if self.since is None else now - self.since

    def is_waiting(self, now: float) -> bool:
        """Whether the last try failed and the next one is not due yet."""
        return now < self.retry_at


class Faults:
    """What a worker does while its database is away: wait, longer each time."""

    def __init__(self) -> None:
        self.since: float | None = None
        self.pause = 0.0  # seconds to wait before the next try

    def passed(self) -> None:
        """Note that the database answers."""
        if self.since is not None:
            logger.warning("Database is back after %.1f s", monotonic() - self.since)
        self.since = None
        self.pause = 0.0

    def met(self, error: psycopg.Error) -> None:
        """Note a fault; raises DatabaseLost when they have lasted too long."""
        now = monotonic()
        level = logging.DEBUG  # once is enough
        if self.since is None:
            self.since = now
            level = logging.WARNING
        if now - self.since > PATIENCE:
            raise DatabaseLost from error
        longest = min(2 * self.pause or SHORTEST_PAUSE, LONGEST_PAUSE)
        self.pause = longest * random.uniform(0.5, 1)
        logger.log(
            level,
            "Database fault, trying again in %.1f s: %s",
            self.pause,
            text_of(error),
        )
