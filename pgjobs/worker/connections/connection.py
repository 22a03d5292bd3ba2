"""The worker's own connections: opened on use, dropped when broken, never stuck."""

import logging
import os
import re
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial
from math import isfinite
from time import monotonic
from typing import Any

import psycopg
from psycopg.pq import Escaping, Format, TransactionStatus
from psycopg.sql import Literal

from ...base.connections import connect, is_pooled
from ...base.database_errors import is_lost
from ...queue.upkeep import LOCK_CLASS

logger = logging.getLogger("pgjobs.worker")

# PostgreSQL's statistics of a queue are always outdated: on a fresh table the planner
# would sort the whole backlog for each claim. These settings leave it one plan, the
# walk along the index, and let it keep that plan as the generic one.
# jit: compiling a plan would take a hundred times as long as running it.
PLANNER = """
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET plan_cache_mode = force_generic_plan;
SET jit = off
"""

# lock_timeout: a session that holds the row of one job must not stop the worker.
ONE_PLAN = f"""{PLANNER};
SET lock_timeout = '1s';
SET default_transaction_isolation = 'read committed';
SET statement_timeout = '25s'
"""

# The same behind a pooler, where settings must end with the transaction. They come
# before each statement, in one message with it.
ONE_PLAN_ONCE = ONE_PLAN.replace("SET ", "SET LOCAL ").replace(
    "SET LOCAL default_transaction_isolation = 'read committed'",
    "SET TRANSACTION ISOLATION LEVEL READ COMMITTED",
)

# The search path with which database/install.py installs functions. Both the loop and
# the triggers call some of them, and PostgreSQL compiles a function again whenever the
# path has changed since its last call.
PATH_OF_FUNCTIONS = """
SELECT set_config('search_path', relnamespace::regnamespace || ', pg_temp', false)
FROM pg_class WHERE oid = to_regclass('pgjobs_job')
"""

# A worker that is frozen inside a transaction must not lock its rows for long.
BEGIN = ("BEGIN", "SET LOCAL idle_in_transaction_session_timeout = '10s'")
PREPARED = "SELECT name FROM pg_catalog.pg_prepared_statements"
# After these a session is not what the worker takes it for: what was prepared is gone,
# or a migration has changed the type of what it returns.
BROKEN = (
    psycopg.InternalError,
    psycopg.errors.InvalidSqlStatementName,
    psycopg.errors.FeatureNotSupported,
)
PLACEHOLDER = re.compile(r"%\((\w+)\)s|%%")
# Several installations may share a database, each with workers from 1 on; so the oid of
# the table is in the key. Workers of release 0.9.0 look for the other lock.
HOLD_LOCK = """
SELECT key, pg_try_advisory_lock_shared(key),
    CASE
        WHEN %(id)s::bigint < 2147483648
            THEN pg_try_advisory_lock_shared(%(lock_class)s, %(id)s::bigint::int)
    END
FROM hashint8extended(%(id)s, 'pgjobs_worker'::regclass::oid::bigint) AS key
"""


class Watchdog:
    """Cuts connections whose statement takes too long.

    A half-open connection never raises an error: a statement on it blocks until its
    socket is shut down.
    """

    TICK = 1.0

    def __init__(self) -> None:
        self.deadlines: dict[psycopg.Connection, float] = {}
        self.stopped = threading.Event()
        self.thread = threading.Thread(
            target=self.watch, name="pgjobs-watchdog", daemon=True
        )
        self.thread.start()

    @contextmanager
    def guard(self, connection: psycopg.Connection, seconds: float) -> Iterator[None]:
        self.deadlines[connection] = monotonic() + seconds
        try:
            yield
        finally:
            self.deadlines.pop(connection, None)

    def watch(self) -> None:
        while not self.stopped.wait(self.TICK):
            now = monotonic()
            for connection, deadline in list(self.deadlines.items()):
                if now > deadline:
                    cut(connection)

    def stop(self) -> None:
        self.stopped.set()
        self.thread.join()


def cut(connection: psycopg.Connection) -> None:
    """Shut the socket of a connection down, from any thread."""
    try:
        pid = connection.info.backend_pid
        logger.warning("Connection pid=%s is stuck and cut", pid)
        duplicate = os.dup(connection.fileno())
        with socket.socket(fileno=duplicate) as end:
            end.shutdown(socket.SHUT_RDWR)
    except (OSError, psycopg.Error):
        return  # it is closed already


@cache
def numbered(query: str) -> tuple[str, list[str]]:
    """Return a query with $1, $2 and so on, and the parameters' names in that order.

    The driver would do this again at each execution of a query that is longer than
    4,096 characters. The worker has few queries, so that it can keep them all.
    """
    names: list[str] = []

    def number(match: re.Match) -> str:
        name = match[1]
        if name is None:
            return "%"
        if name not in names:
            names.append(name)
        return f"${names.index(name) + 1}"

    return PLACEHOLDER.sub(number, query), names


class OwnConnection:
    """A connection of one part of the worker. It opens itself, also after a fault."""

    def __init__(
        self,
        alias: str,
        role: str,
        name: str,
        watchdog: Watchdog,
        limit: float,
        prepare: Callable[["OwnConnection"], None] | None = None,
    ):
        self.alias = alias
        self.role = role
        self.name = name
        self.watchdog = watchdog
        self.limit = limit  # seconds that a statement may take
        self.prepare = prepare
        self.connection: psycopg.Connection | None = None
        # One for all statements: a new one would set up all types again.
        self.cursor: psycopg.RawCursor
        self.text_cursor: psycopg.Cursor
        self.merging_cursor: psycopg.ClientCursor
        # By query: the name of the statement prepared here, and the names of its
        # parameters.
        self.prepared: dict[str, tuple[str, list[str]]] = {}
        self.pooled = False
        self.settings_once = ""  # that go before each statement, behind a pooler

    def execute(self, query: str, parameters: dict | None = None) -> list[tuple]:
        """Run one statement and return its rows; raise psycopg.Error.

        After an error that leaves the connection in doubt, the next call opens a new
        connection.
        """
        connection = self.connection or self.open()
        try:
            with self.watchdog.guard(connection, self.limit):
                if self.settings_once and not self.is_in_transaction:
                    return self.execute_with_settings(query, parameters)
                values = None
                if parameters is not None:
                    query, names = numbered(query)
                    values = [parameters[name] for name in names]
                cursor = self.cursor.execute(query, values)
                # Not `description`, which is built for all columns at each use.
                return [] if cursor.rownumber is None else cursor.fetchall()
        except psycopg.Error as error:
            self.close_if_broken(error)
            raise

    @property
    def is_in_transaction(self) -> bool:
        assert self.connection is not None
        return self.connection.info.transaction_status != TransactionStatus.IDLE

    def execute_with_settings(self, query: str, parameters: dict | None) -> list[tuple]:
        """Run a statement behind its settings, in one message and one transaction."""
        text = self.merging_cursor.mogrify(query, parameters)
        cursor = self.text_cursor.execute(f"{self.settings_once}; {text}")
        while cursor.nextset():
            pass
        return [] if cursor.rownumber is None else cursor.fetchall()

    def together(self, statements: Sequence[tuple[str, dict]]) -> list[list[tuple]]:
        """Run statements in one round trip and one transaction; return their rows.

        PostgreSQL gets them as one message. So each statement sees what those before it
        have done, and a process that is frozen meanwhile leaves no transaction open.
        """
        connection = self.connection or self.open()
        if self.pooled:  # a pooler's session cannot keep a prepared statement
            return [self.execute(*statement) for statement in statements]
        try:
            with self.watchdog.guard(connection, self.limit):
                message = "; ".join(
                    self.execution(*statement) for statement in statements
                )
                cursor = self.text_cursor.execute(message)
                rows = [cursor.fetchall()]
                while cursor.nextset():
                    rows.append(cursor.fetchall())
                return rows
        except psycopg.Error as error:
            self.close_if_broken(error)
            raise

    def execution(self, query: str, parameters: dict) -> str:
        """Return the EXECUTE of a statement, which is prepared the first time."""
        assert self.connection is not None
        if (prepared := self.prepared.get(query)) is None:
            name = f"pgjobs_{len(self.prepared)}"
            text, names = numbered(query)
            self.connection.execute(f"PREPARE {name} AS {text}")
            prepared = self.prepared[query] = (name, names)
        name, names = prepared
        if not names:
            return f"EXECUTE {name}"
        values = (self.literal(parameters[key]) for key in names)
        return f"EXECUTE {name} ({', '.join(values)})"

    def literal(self, value: Any) -> str:
        """Return a value as SQL; the usual ones without the driver, which is slow."""
        assert self.connection is not None
        if value is None:
            return "NULL"
        if type(value) in (int, bool) or (type(value) is float and isfinite(value)):
            return str(value)
        if type(value) is list:
            items = ", ".join(map(self.literal, value))
            return f"ARRAY[{items}]" if value else "'{}'"
        if type(value) is str and "\0" not in value:
            escaping = Escaping(self.connection.pgconn)
            return escaping.escape_literal(value.encode()).decode()
        return Literal(value).as_string(self.connection)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run the statements of a block in one transaction."""
        try:
            for text in BEGIN:
                self.execute(text)
            yield
        except BaseException:
            if self.connection is not None:
                with suppress(psycopg.Error):
                    self.roll_back()
            raise
        self.execute("COMMIT")

    def roll_back(self) -> None:
        """Roll back. With some rollbacks the driver deallocates all statements, too."""
        self.execute("ROLLBACK")
        if self.prepared:
            left = {name for (name,) in self.execute(PREPARED)}
            self.prepared = {
                query: made for query, made in self.prepared.items() if made[0] in left
            }

    def open(self) -> psycopg.Connection:
        guard = partial(self.watchdog.guard, seconds=self.limit)
        self.connection = connection = connect(self.alias, self.role, self.name, guard)
        self.cursor = psycopg.RawCursor(connection)
        self.cursor.format = Format.BINARY
        self.text_cursor = connection.cursor()
        self.merging_cursor = psycopg.ClientCursor(connection)
        self.prepared = {}
        self.settings_once = ""
        try:
            with guard(connection):
                self.pooled = is_pooled(connection)
                if self.prepare:
                    self.prepare(self)
        except BaseException:
            self.close()
            raise
        return connection

    def has_ended(self) -> bool:
        """Whether the session is over, once its socket is readable; close it then."""
        connection = self.connection
        if connection is None:
            return True
        try:
            with connection.lock:  # no statement waits for an answer then
                connection.pgconn.consume_input()
        except psycopg.Error:
            self.close()
        return self.connection is None

    def close_if_broken(self, error: psycopg.Error) -> None:
        """Close the connection unless only the statement failed."""
        if is_lost(error) or isinstance(error, BROKEN):
            self.close()

    def close(self) -> None:
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.close()


def plan_once(own: OwnConnection) -> None:
    """Prepare the loop's connection for the few statements that it repeats.

    Behind a pooler, settings and prepared statements would reach other clients. There
    the settings come with each statement.
    """
    connection = own.connection
    assert connection is not None
    if own.pooled:
        own.settings_once = ONE_PLAN_ONCE
        return
    connection.prepare_threshold = 1
    connection.execute(ONE_PLAN)
    connection.execute(PATH_OF_FUNCTIONS)


def beat_cheaply(own: OwnConnection) -> None:
    """Prepare the heartbeat's connection for its one statement.

    To parse and plan a heartbeat takes PostgreSQL longer than to run it, and to wait
    for the disk as long as all else. It need not: a crash of the server that forgets a
    beat has ended the session, too, and then the worker beats again at once.
    """
    if not own.pooled:
        assert own.connection is not None
        own.connection.prepare_threshold = 1
        own.connection.execute(f"{PLANNER}; SET synchronous_commit = off")


def hold_session_lock(own: OwnConnection, worker_id: int) -> int | None:
    """Hold the lock by which others see that this process lives.

    PostgreSQL releases the lock when the process dies. All sessions of the worker share
    it, so that the worker does not look dead when one of them is cut. Returns its key,
    or None behind a pooler, where the session may be another client's.
    """
    if own.pooled:
        return None
    parameters = {"lock_class": LOCK_CLASS, "id": worker_id}
    key, is_held, _ = own.execute(HOLD_LOCK, parameters)[0]
    return key if is_held else None
