"""Looks whether jobs that wait find what they wait for."""

import logging
from collections.abc import Sequence
from time import monotonic

from ...base.ids import LARGEST_ID
from ...queue import upkeep
from ...queue.statements import Execute
from ...queue.upkeep import Batch
from ...worker.connections.connection import OwnConnection
from ...worker.observer import WorkerObserver
from ...worker.upkeep.batches import BatchChore
from ...worker.upkeep.chore import Chore, Effects
from ..desk.counting import counted_by
from . import queue

logger = logging.getLogger("pgjobs.worker")

WAKE_SECONDS = 5.0
GATHER_SECONDS = 0.05  # for which jobs that were suspended wait for one look at all
END_SECONDS = 10.0
SOON = "soon"  # the payload when the publisher has let jobs go on
FIND_SECONDS = 60.0
FOUND_SECONDS = 600.0  # for which events are looked at again and again
# The condition of the index of lives that a deadline bounds: see tables/durable.sql.
BOUNDED = """
    keys ? 'deadline' AND finished_at IS NULL
    AND (keys ? 'ends_at' OR status <> 'SCHEDULED'
        AND coalesce(waiting_for, '') NOT IN ('predecessor', 'dependency'))
"""


class Wake(Chore):
    name = "wake"
    takes = ("observers",)
    # To the first note: the deadline of a wait is the time of its note.
    asks = """
        (SELECT extract(epoch FROM min(due_at) - clock_timestamp())::float8
        FROM pgjobs_waitnote)
    """
    channel = "pgjobs_wake"
    woken_by = "suspended"

    def __init__(self, observers: Sequence[WorkerObserver]) -> None:
        super().__init__(WAKE_SECONDS)
        self.counted = counted_by(observers)
        self.ended = -1  # attempts, when a worker that drains the queue last asked

    def hear(self, payload: str) -> None:
        """Look at once, unless the first jobs go on already."""
        if payload == SOON:
            self.expect()
        else:
            self.due = 0.0

    def expect(self) -> None:
        """Look soon at what was suspended; what comes for it later is notified."""
        self.due = min(self.due, monotonic() + GATHER_SECONDS)

    def run(self, connection: OwnConnection) -> Effects:
        woken = queue.wake(connection.execute)
        self.done(monotonic(), again_at_once=woken.has_more)
        return Effects(ready=woken.number > 0, waiting=woken.are_keyed)

    def is_expecting(self, now: float) -> bool:
        """Look once more when all jobs have ended: others may have waited for them."""
        if self.ended != (ended := self.counted.number_ended):
            self.ended = ended
            self.due = 0.0
        return self.is_due(now) and self.backoff.since is None


class FindAwaited(Chore):
    """Finds what no note tells: events that came before the task was known.

    It looks at the latest ones each minute. At all others it looks once after tasks
    have become known, however long ago the events were published.
    """

    name = "find_awaited"
    for_all = True

    def __init__(self) -> None:
        super().__init__(FIND_SECONDS)
        self.known: str | None = None
        self.before: int | None = None

    def run(self, connection: OwnConnection) -> Effects:
        found = queue.find_awaited(connection.execute, FOUND_SECONDS, self.before)
        self.before = found.further
        if found.known != self.known:
            self.known, self.before = found.known, LARGEST_ID
        has_more = found.number == queue.MOST_FOUND or self.before is not None
        self.done(monotonic(), again_at_once=has_more)
        return Effects(suspended=found.number > 0)


class EndLives(BatchChore):
    """Fails jobs whose deadline is over, but for those that run."""

    name = "end_lives"
    # A life that has to begin is there at once, and so is an end that SQL has written.
    asks = f"""
        (SELECT CASE
            WHEN EXISTS (
                SELECT FROM pgjobs_job
                WHERE {BOUNDED} AND keys -> 'ends_at' IS NULL
                    AND jsonb_typeof(keys -> 'deadline') = 'number'
            ) THEN 0
            ELSE (
                SELECT CASE jsonb_typeof(keys -> 'ends_at')
                    WHEN 'number' THEN (keys ->> 'ends_at')::float8
                        - extract(epoch FROM clock_timestamp())::float8
                    ELSE 0
                END
                FROM pgjobs_job
                WHERE {BOUNDED} AND keys -> 'ends_at' IS NOT NULL
                    AND status <> 'RUNNING'
                ORDER BY keys -> 'ends_at' LIMIT 1
            )
        END)
    """  # noqa: S608  (a constant)

    def __init__(self) -> None:
        super().__init__(END_SECONDS)

    def do(self, execute: Execute, batch: Batch) -> tuple[Effects, int]:
        ids = queue.end_lives(execute, batch)
        if ids:
            logger.info("Failed jobs=%s whose deadline is over", len(ids))
        return Effects(ready=bool(ids), finished=ids), len(ids)

    def candidates(self, execute: Execute, batch: Batch) -> list[int]:
        return upkeep.candidates(execute, "ends", batch)


CHORES = (Wake, FindAwaited, EndLives)
