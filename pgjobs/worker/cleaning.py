"""Leaving a thread's database connections fit for the next job."""

import contextlib
import logging

from django.conf import settings as django_settings
from django.db import connections, reset_queries

logger = logging.getLogger("pgjobs.job")


def clean_connections() -> None:
    """Leave this thread's database connections fit for the next job."""
    if django_settings.DEBUG:
        reset_queries()
    for connection in connections.all(initialized_only=True):
        if connection.connection is None:
            continue
        try:
            left_open = connection.in_atomic_block or not connection.get_autocommit()
            if left_open:
                drop(connection)
            else:
                connection.close_if_unusable_or_obsolete()
        except Exception:
            logger.exception("Connection alias=%s is dropped", connection.alias)
            drop(connection)


def drop(connection) -> None:
    """Forget a connection whose job left a transaction open, and what it did there."""
    del connections[connection.alias]
    with contextlib.suppress(Exception):
        connection.connection.close()
