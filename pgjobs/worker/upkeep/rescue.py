"""Takes back jobs of dead workers, and jobs that this worker owns unknowingly."""

import logging
from collections.abc import Callable, Iterable
from math import inf
from time import monotonic

from psycopg.errors import InsufficientPrivilege

from ...base.database_errors import text_of
from ...base.texts import in_a_log
from ...conf import FINISHED, settings
from ...queue import recording, upkeep
from ...queue.statements import Execute
from ...queue.upkeep import Batch, Rescued
from ..connections.connection import OwnConnection
from ..job_log import described
from .batches import BatchChore
from .chore import (
    NOTHING,
    RESCUE_PER_HEARTBEAT,
    Chore,
    Effects,
    when,
)

logger = logging.getLogger("pgjobs.worker")

# How much later a claim whose answer was lost may still be committed.
DOUBT_SECONDS = 120.0
# A worker is silent, or has lost its lock for too long, or the worker of running jobs
# has no row.
HAS_DEAD_WORKER = """
EXISTS (SELECT FROM silent WHERE id <> %(worker_id)s)
OR coalesce((SELECT ends_in <= 0 FROM dying), false)
OR EXISTS (
    SELECT
    FROM (
        SELECT lag(id, 1, 0::bigint) OVER (ORDER BY id) + 1, id - 1 FROM pgjobs_worker
        UNION ALL
        SELECT coalesce(max(id), 0) + 1, 9223372036854775807 FROM pgjobs_worker
    ) AS ownerless (first_id, last_id)
    CROSS JOIN LATERAL (
        SELECT FROM pgjobs_job
        WHERE first_id <= last_id AND status = 'RUNNING'
            AND worker_id BETWEEN ownerless.first_id AND ownerless.last_id
        LIMIT 1
    ) AS job
)
"""


class Rescue(BatchChore):
    name = "rescue"
    takes = ("id",)
    asks = when(HAS_DEAD_WORKER)

    def __init__(self, worker_id: int):
        super().__init__(settings.HEARTBEAT_INTERVAL * RESCUE_PER_HEARTBEAT)
        self.worker_id = worker_id
        self.is_refused = False  # this role may not end the sessions of the others

    def expect_in(self, seconds: float | None, now: float) -> None:
        super().expect_in(seconds, now)
        if seconds is not None and seconds <= 0:
            self.expect()

    def run(self, connection: OwnConnection) -> Effects:
        effects = super().run(connection)
        self.end_listeners(connection)
        return effects

    def end_listeners(self, connection: OwnConnection) -> None:
        """End the sessions that still listen for dead workers."""
        for pid in upkeep.left_listeners(connection.execute):
            try:
                upkeep.end_session(connection.execute, pid)
            except InsufficientPrivilege as error:
                if not self.is_refused:
                    self.is_refused = True
                    logger.warning(
                        "Session pid=%s listens for a dead worker, and this role may "
                        "not end it: %s",
                        pid,
                        text_of(error),
                    )
            else:
                logger.warning("Ended session pid=%s of a dead worker", pid)

    def do(self, execute: Execute, batch: Batch) -> tuple[Effects, int]:
        rescued = upkeep.rescue(execute, self.worker_id, batch)
        for job in rescued:
            log_rescue(job)
        statuses = {job.status for job in rescued}
        effects = Effects(
            old_ready="READY" in statuses,
            waiting="WAITING" in statuses,
            finished=[job.id for job in rescued if job.status in FINISHED],
        )
        return effects, len(rescued)

    def candidates(self, execute: Execute, batch: Batch) -> list[int]:
        return upkeep.candidates(execute, "rescue", batch, worker_id=self.worker_id)


def log_rescue(job: Rescued) -> None:
    logger.log(
        logging.ERROR if job.status == "FAILED" else logging.WARNING,
        "Job id=%s task=%s lost its worker (crash %s), now %s",
        job.id,
        in_a_log(job.task),
        job.crashes,
        job.status,
        extra=described(job),
    )


class ReleaseOrphans(Chore):
    """Releases jobs that this worker owns without knowing it.

    Its connection broke under a claim, and the answer to the claim was lost.
    """

    name = "orphans"
    takes = ("id", "name", "held")
    woken_by = "in_doubt"

    def __init__(
        self, worker_id: int, worker_name: str, held: Callable[[], Iterable[int]]
    ):
        super().__init__()
        self.worker_id = worker_id
        self.worker_name = worker_name
        self.held = held  # returns the lease tokens that the worker knows
        self.in_doubt_until = 0.0

    def expect(self) -> None:
        """Remember that the connection broke, perhaps under a claim."""
        now = monotonic()
        self.in_doubt_until = now + DOUBT_SECONDS
        self.due = now + self.pause

    @property
    def pause(self) -> float:
        return settings.HEARTBEAT_INTERVAL * RESCUE_PER_HEARTBEAT

    def run(self, connection: OwnConnection) -> Effects:
        orphans = recording.orphans(connection.execute, self.worker_id, self.held())
        if orphans:
            recording.record(
                connection.execute, self.worker_id, self.worker_name, orphans
            )
            logger.warning("Released jobs=%s claimed unnoticed", len(orphans))
        now = monotonic()
        self.due = now + self.pause if now < self.in_doubt_until else inf
        return Effects(ready=True) if orphans else NOTHING
