"""Claiming row by row, after a claim that raised an error.

PostgreSQL may be unable to write a row, or Python to read a value. The job that raises
the error ends FAILED, and the others run.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Any

import psycopg

from ..base.database_errors import is_lost, is_of_row, text_of
from ..queue.claiming import ClaimedJob, claim_statement, read_claimed
from ..queue.statements import array
from ..sql import statement
from .connections.connection import OwnConnection
from .upkeep.batches import fail_culprit

logger = logging.getLogger("pgjobs.worker")


def claim(
    connection: OwnConnection,
    worker_id: int,
    tries: int,
    begin: Callable[[Sequence[ClaimedJob]], None],
    **how: Any,
) -> tuple[list[int], bool]:
    """Claim one job after the other, and begin it.

    Return the ids of those that failed, and whether any began. `how`: as for
    `claim_statement`.
    """
    failed: list[int] = []
    has_begun = False
    try:
        for _ in range(tries):
            taken = claim_one(connection, worker_id, **how)
            if isinstance(taken, int):
                failed.append(taken)
                continue
            if taken is not None:
                begin([taken])
                has_begun, how = True, {**how, "is_idle": False}
            if taken is None or taken.is_last_chance:
                break
    except psycopg.Error as error:
        if is_lost(error):
            raise
        logger.error("Claiming one job alone failed: %s", text_of(error))
    return failed, has_begun


def claim_one(
    connection: OwnConnection, worker_id: int, **how: Any
) -> ClaimedJob | int | None:
    """Claim a job and return it; or fail it and return its id."""
    ids: Sequence[int] = ()
    try:
        with connection.transaction():
            query = claim_statement(worker_id, limit=1, claims=False, **how)
            ids = read_claimed(connection.execute(*query)).ids
            parameters = {"worker_id": worker_id, "ids": array(ids)}
            rows = connection.execute(statement("claim_these"), parameters)
    except psycopg.Error as error:
        if not (ids and is_of_row(error)):
            raise
        if not fail_culprit(connection, ids[0], "claim", error):
            raise
        return ids[0]
    return ClaimedJob._make(rows[0]) if rows else None
