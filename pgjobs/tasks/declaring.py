"""Storing all that the code declares: tasks, schedules and subscriptions."""

import logging

from django.db import OperationalError
from psycopg.errors import LockNotAvailable

from ..queue.held_locks import DECLARING, held_locks
from ..queue.statements import execute_on
from . import events, schedules
from .definitions import store_definitions

logger = logging.getLogger("pgjobs")

unstored: set[str] = set()  # the databases in which this process has still to declare


def store_all(database: str) -> bool:
    """Store what this process declares for a database.

    Returns False, and logs who is in the way, if another session holds the lock for
    long. Raises InvalidTask.
    """
    try:
        store_definitions(database)
        schedules.store_declared(database)
        events.store_declared(database)
    except OperationalError as error:
        if not isinstance(error.__cause__, LockNotAvailable):
            raise
        logger.warning(
            "The declared tasks, schedules and subscriptions are not stored yet: "
            "another session is in the way (%s). The worker goes on and tries again.",
            ", ".join(in_the_way(database)) or "gone by now",
        )
        return False
    unstored.discard(database)
    return True


def in_the_way(database: str) -> list[str]:
    return [
        f"pid={each.pid} role={each.role} application={each.application}"
        for each in held_locks(execute_on(database))
        if each.kind == DECLARING
    ]
