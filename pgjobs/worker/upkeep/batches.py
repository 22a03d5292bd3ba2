"""Chores whose statement takes a batch of jobs, and the job that makes it fail.

One row can make such a statement fail for its whole batch. Then the chore halves the
batch down to this row. Its job ends FAILED or is skipped; the others go on.
"""

import logging
from collections.abc import Iterator, Sequence
from functools import reduce
from operator import or_
from time import monotonic

import psycopg

from ...base.database_errors import (
    is_lost,
    is_of_row,
    is_too_slow,
    message_of,
    text_of,
)
from ...base.texts import in_a_log, storable
from ...queue import upkeep
from ...queue.statements import Execute
from ...queue.upkeep import Batch
from ..connections.connection import OwnConnection
from ..slots.outcomes import LONGEST_REASON
from .chore import NOTHING, Chore, Effects

logger = logging.getLogger("pgjobs.worker")

MOST_SKIPPED = 1_000  # jobs that one chore skips
SKIP_SECONDS = 600.0  # until all skipped jobs get another try


class BatchChore(Chore):
    """A chore whose statement can be restricted to some of its jobs."""

    fails_culprits = True  # False: they have ended already, and are skipped

    def __init__(self, interval: float):
        super().__init__(interval)
        # Jobs of a batch, after a batch that took too long.
        self.limit: int | None = None
        self.skipped: set[int] = set()  # the ids of jobs on which the chore fails
        self.forget_at = 0.0
        self.was_full = False  # the last batch was; there may be more to do at once

    def do(self, execute: Execute, batch: Batch) -> tuple[Effects, int]:
        """Run the statement; return its effects and how many jobs it touched."""
        raise NotImplementedError

    def candidates(self, execute: Execute, batch: Batch) -> list[int]:
        """Return the ids of jobs that the statement may touch."""
        raise NotImplementedError

    def run(self, connection: OwnConnection) -> Effects:
        if monotonic() >= self.forget_at:
            self.skipped.clear()
        self.was_full = False
        batch = Batch(limit=self.limit, skipped=tuple(self.skipped))
        try:
            effects, number = self.do(connection.execute, batch)
        except psycopg.Error as error:
            if is_too_slow(error):
                self.limit = max(batch.size // 2, 1)
            if not is_of_row(error):
                raise
            return self.find_culprits(connection, batch, error)
        self.limit = None
        self.was_full = number >= batch.size
        self.done(monotonic(), again_at_once=self.was_full)
        return effects

    def find_culprits(
        self, connection: OwnConnection, batch: Batch, error: psycopg.Error
    ) -> Effects:
        """Take the batch by halves, down to the jobs that cause the error."""
        ids = self.candidates(connection.execute, batch)
        halves = list(self.by_halves(connection, batch, ids))
        if not any(is_culprit for _, is_culprit in halves):
            raise error
        self.was_full = True
        self.done(monotonic(), again_at_once=True)
        return reduce(or_, (effects for effects, _ in halves), NOTHING)

    def by_halves(
        self, connection: OwnConnection, batch: Batch, ids: Sequence[int]
    ) -> Iterator[tuple[Effects, bool]]:
        """Yield the effects of each half, and whether it is one culprit."""
        if not ids:
            return
        try:
            effects, _ = self.do(connection.execute, batch._replace(only=ids))
        except psycopg.Error as error:
            if not is_of_row(error):
                raise
            if len(ids) == 1:
                yield self.blame(connection, ids[0], error), True
            else:
                middle = len(ids) // 2
                yield from self.by_halves(connection, batch, ids[:middle])
                yield from self.by_halves(connection, batch, ids[middle:])
        else:
            yield effects, False

    def blame(
        self, connection: OwnConnection, id: int, error: psycopg.Error
    ) -> Effects:
        """End the job on which the chore fails; if that is impossible, skip it."""
        if self.fails_culprits and fail_culprit(connection, id, self.name, error):
            return Effects(waiting=True, finished=[id])
        if len(self.skipped) >= MOST_SKIPPED:
            raise error
        if not self.skipped:
            self.forget_at = monotonic() + SKIP_SECONDS
        self.skipped.add(id)
        logger.error(
            "Job id=%s is skipped: chore=%s fails on it: %s",
            id,
            self.name,
            text_of(error),
            extra={"job_id": id},
        )
        return NOTHING


def fail_culprit(
    connection: OwnConnection, id: int, step: str, error: psycopg.Error
) -> bool:
    """Fail a job on which a step of the worker raises; return whether that worked.

    Raises psycopg.Error if the database is lost.
    """
    reason = f"A worker cannot go on with the job ({step}): {message_of(error)}"
    try:
        has_ended = upkeep.fail(
            connection.execute, id, storable(reason, LONGEST_REASON)
        )
    except psycopg.Error as second:
        if is_lost(second):
            raise
        return False
    if has_ended:
        logger.error("Job id=%s FAILED: %s", id, in_a_log(reason), extra={"job_id": id})
    return has_ended
