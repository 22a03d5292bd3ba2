"""Keep Django's connections from a test that commits to the next, as good as new.

Django closes them. But each new one starts a process of the server, which reads the
catalogue again, and that takes the server longer than most tests do.
"""

from django.db import connections
from django.test import TransactionTestCase
from psycopg.pq import TransactionStatus

from tests.settings import POOLER

# DISCARD ALL, without the plans, which the server itself makes again when it has to.
RESET = """
SELECT pg_advisory_unlock_all();
UNLISTEN *;
CLOSE ALL;
DISCARD SEQUENCES;
DISCARD TEMP;
RESET SESSION AUTHORIZATION;
RESET ALL
"""
# How each alias connects unless a test changes it.
usual: dict[str, str] = {}


def install() -> None:
    """Learn how each alias connects, and keep its connections from now on."""
    for alias in connections:
        connections[alias].ensure_connection()
        usual[alias] = connections[alias].connection.info.dsn
    if not POOLER:
        TransactionTestCase._should_reload_connections = tidy


def tidy(test_case: TransactionTestCase) -> bool:
    """Return False: Django does not need to close what is as good as new."""
    for connection in connections.all(initialized_only=True):
        if is_usable(connection):
            with connection.cursor() as cursor:
                cursor.execute(RESET)
            connection.init_connection_state()
        else:
            connection.close()
    return False


def is_usable(connection) -> bool:
    """Return whether a connection is one of the usual ones, and at rest."""
    own = connection.connection
    return (
        own is not None
        and not own.closed
        and own.info.transaction_status == TransactionStatus.IDLE
        and own.autocommit
        and own.info.dsn == usual.get(connection.alias)
        and not (connection.in_atomic_block or connection.run_on_commit)
        and connection.is_usable()
    )
