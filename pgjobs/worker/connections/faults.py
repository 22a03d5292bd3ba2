"""What a worker does while its database is away: wait, longer each time."""

import logging
import random
from time import monotonic

import psycopg

from ...exceptions import DatabaseLost

logger = logging.getLogger("pgjobs.worker")

SHORTEST_PAUSE = 0.1
LONGEST_PAUSE = 5.0
PATIENCE = 600.0  # seconds without a database, until the worker gives up


class Faults:
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
            str(error).strip() or type(error).__name__,
        )
