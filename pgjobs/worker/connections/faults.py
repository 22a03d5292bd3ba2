"""What a lost database does: it stops the worker until the database is back.

Any other error postpones only what the failing statement was for, longer each time.
"""

import logging
from time import monotonic

import psycopg

from ...base.database_errors import text_of
from ...exceptions import DatabaseLost
from .backoff import Backoff

logger = logging.getLogger("pgjobs.worker")

SHORTEST_PAUSE = 0.1
LONGEST_PAUSE = 5.0
PATIENCE = 600.0  # seconds without a database after which the worker ends


class Faults:
    """What a worker does while its database is away: wait, longer each time."""

    def __init__(self) -> None:
        self.backoff = Backoff(SHORTEST_PAUSE, LONGEST_PAUSE)
        self.pause = 0.0  # seconds to wait before the next try

    @property
    def since(self) -> float | None:
        return self.backoff.since

    def passed(self) -> None:
        """Remember that the database answers."""
        if self.since is not None:
            logger.warning("Database is back after %.1f s", monotonic() - self.since)
            self.backoff.passed()
            self.pause = 0.0

    def met(self, error: psycopg.Error) -> None:
        """Remember a fault; raises DatabaseLost when they have lasted too long."""
        now = monotonic()
        if self.backoff.lasts(now) > PATIENCE:
            raise DatabaseLost from error
        level = logging.WARNING if self.since is None else logging.DEBUG  # once
        self.pause = self.backoff.failed(now)
        logger.log(
            level,
            "Database fault, trying again in %.1f s: %s",
            self.pause,
            text_of(error),
        )
