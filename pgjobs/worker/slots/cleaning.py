"""Leaving a thread's database connections fit for the next job.

A cursor notices each statement that may change the session. Such a connection is not
used again. Other jobs pay no round trip.
"""

import contextlib
import logging
import re
import threading
from functools import cache
from weakref import WeakSet

import psycopg
from django.conf import settings as django_settings
from django.db import connections, reset_queries
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from psycopg.pq import TransactionStatus

from ...base.transactions import BEFORE_STATEMENT

logger = logging.getLogger("pgjobs.job")

# After these statements the session is as before. All others may change it.
HARMLESS = re.compile(
    rf"""{BEFORE_STATEMENT}
    (SELECT | INSERT | UPDATE | DELETE | MERGE | WITH | VALUES | TABLE | EXPLAIN | SHOW
    | BEGIN | START | COMMIT | ROLLBACK | SAVEPOINT | RELEASE | LOCK | COPY | NOTIFY
    | TRUNCATE | ANALYZE | VACUUM | REFRESH | FETCH | CLOSE
    | SET \s+ (LOCAL | TRANSACTION | CONSTRAINTS))\b""",
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)
# Exceptions, which do change the session. A second statement may be anything.
CHANGING = re.compile(
    r"set_config | advisory_lock | dblink_connect | \bINTO \s+ TEMP | ; \s* \S",
    re.IGNORECASE | re.VERBOSE,
)
# SELECT function(...), where the function is not one of these.
CALL = re.compile(
    r"""\s* SELECT \s+ (?! (pg_catalog\.)? (pg_notify | pg_sleep | nextval | setval
    | now | clock_timestamp | pg_(try_)?advisory_xact_lock | pg_backend_pid) \b)
    ["\w.]+ \s* \( (?! .* \b FROM \b)""",
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)

changed_sessions: WeakSet[psycopg.Connection] = WeakSet()


def may_change_session(sql: str) -> bool:
    """Whether an effect of the statement on the session may outlive its transaction."""
    return not HARMLESS.match(sql) or bool(CHANGING.search(sql) or CALL.match(sql))


class SessionWatch:
    """A cursor that watches for statements that may change the session."""

    def execute(self, query, *args, **kwargs):
        self.watch(query)
        return super().execute(query, *args, **kwargs)  # type: ignore[misc]

    def executemany(self, query, *args, **kwargs):
        self.watch(query)
        return super().executemany(query, *args, **kwargs)  # type: ignore[misc]

    def watch(self, query) -> None:
        if not isinstance(query, str) or may_change_session(query):
            changed_sessions.add(self.connection)  # type: ignore[attr-defined]


@cache
def watching(cursor_factory: type) -> type:
    return type(cursor_factory.__name__, (SessionWatch, cursor_factory), {})


def watch_session(connection: BaseDatabaseWrapper, **named) -> None:
    """Watch all cursors of a new connection, also those that Django does not make."""
    raw = connection.connection
    if not isinstance(raw, psycopg.Connection):
        return  # of another kind of database
    if not issubclass(raw.cursor_factory, SessionWatch):
        raw.cursor_factory = watching(raw.cursor_factory)  # type: ignore[arg-type]


class SessionWatching:
    """Watches the connections that this process opens while one of its workers runs."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.workers = 0

    def begin(self) -> None:
        with self.lock:
            self.workers += 1
            connection_created.connect(watch_session, dispatch_uid="pgjobs")

    def end(self) -> None:
        """Disconnect the receiver: the process may go on after `drain`."""
        with self.lock:
            self.workers -= 1
            if not self.workers:
                connection_created.disconnect(dispatch_uid="pgjobs")


session_watching = SessionWatching()


def clean_connections() -> None:
    """Leave this thread's database connections fit for the next job."""
    if django_settings.DEBUG:
        reset_queries()
    for connection in connections.all(initialized_only=True):
        try:
            if is_spoilt(connection):
                drop(connection)
            else:
                connection.close_if_unusable_or_obsolete()
        except Exception:
            logger.exception("Connection alias=%s is dropped", connection.alias)
            drop(connection)


def is_spoilt(connection: BaseDatabaseWrapper) -> bool:
    """Whether the next job could notice what this job did with the connection."""
    if connection.in_atomic_block or connection.execute_wrappers:
        return True
    raw = connection.connection
    return isinstance(raw, psycopg.Connection) and (
        raw.closed
        or not raw.autocommit
        or raw.info.transaction_status != TransactionStatus.IDLE
        or raw in changed_sessions
    )


def drop(connection: BaseDatabaseWrapper) -> None:
    """Forget a connection and end its session with all that is open in it."""
    raw = connection.connection
    del connections[connection.alias]
    with contextlib.suppress(Exception):
        if raw is not None:
            raw.close()
        connection.close()  # gives it back to a pool, which replaces it
