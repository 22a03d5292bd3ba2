"""Jobs that make the worker's claim raise."""

import logging

import psycopg

from ..base.database_errors import is_lost, text_of
from ..queue.unclaimable import first_in_line, unclaimable
from .connections.connection import OwnConnection
from .options import WorkerOptions
from .upkeep.batches import fail_culprit

logger = logging.getLogger("pgjobs.worker")


def fail(
    connection: OwnConnection, worker_id: int, options: WorkerOptions, limit: int
) -> list[int]:
    """Fail those of the first jobs in line that cannot be claimed; return their ids."""
    failed = []
    try:
        ids = first_in_line(connection.execute, limit, options.queues, options.excluded)
        for id, error in unclaimable(connection, worker_id, ids):
            if fail_culprit(connection, id, "claim", error):
                failed.append(id)
    except psycopg.Error as error:
        if is_lost(error):
            raise
        logger.error("Finding what cannot be claimed failed: %s", text_of(error))
    return failed
