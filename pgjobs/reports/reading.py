"""How reports read: in one transaction, and without what slows short statements."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from django.db import connections, transaction
from django.db.models import QuerySet

from ..sql import statement

WITHOUT_JIT = "SET LOCAL jit = off"
IN_ORDER = "SET LOCAL enable_sort = off"
AS_BEFORE = "SET LOCAL enable_sort TO DEFAULT"

VIEW = "pgjobs_report_"
# Without the views an older version has made the role, which then may read the keys.
NEEDS_VIEWS = f"""
SELECT NOT has_column_privilege('pgjobs_job', 'line', 'SELECT')
    AND to_regclass('{VIEW}lines') IS NOT NULL
"""
SEEN = "SELECT * FROM {}"
told: ContextVar[str] = ContextVar("pgjobs_without_jit", default="")
needing_views: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()  # by session


class Report(NamedTuple):
    """A statement that only reads, and the names of its columns."""

    name: str
    parameters: dict[str, Any]
    columns: tuple[str, ...]
    hidden: tuple[str, ...] = ()  # columns, from roles that may not see keys


def sql_of(rows: QuerySet) -> tuple[str, tuple]:
    """Return the statement and its parameters, for the database of the rows.

    Raises Django's EmptyResultSet where it knows that there are no rows.
    """
    return rows.query.get_compiler(using=rows.db).as_sql()


def rows_of(database: str, name: str, parameters: dict[str, Any]) -> list[tuple]:
    """Run the statement of a report; see `read`."""
    return read(database, statement(name), parameters)


def rows_with_keys(database: str, name: str, parameters: dict[str, Any]) -> list[tuple]:
    """Return the rows of a report that looks at the keys of locks, limits and rates.

    A role that may not read them reads the view that `pgjobsroles` makes of the report.
    """
    if needs_views(database):
        return read(database, SEEN.format(VIEW + name), None)
    return rows_of(database, name, parameters)


def needs_views(database: str) -> bool:
    """Whether the role of this session reads reports through views; it stays so."""
    connections[database].ensure_connection()
    session: Any = connections[database].connection
    if session not in needing_views:
        needing_views[session] = session.execute(NEEDS_VIEWS).fetchone()[0]
    return needing_views[session]


def read(database: str, text: str, parameters: Any) -> list[tuple]:
    """Run a statement and return its rows.

    PostgreSQL compiles a statement that it estimates to be expensive, which can take
    seconds. These statements are bounded, so to run them takes less than that.
    """
    with without_jit(database), connections[database].cursor() as cursor:
        cursor.execute(text, parameters)
        return cursor.fetchall()


@contextmanager
def without_jit(database: str) -> Iterator[None]:
    """Begin a transaction in which PostgreSQL compiles nothing, unless it has begun."""
    if told.get() == database:
        yield
        return
    with transaction.atomic(using=database, savepoint=False):
        with connections[database].cursor() as cursor:
            cursor.execute(WITHOUT_JIT)
        token = told.set(database)
        try:
            yield
        finally:
            told.reset(token)


def read_in_order(database: str, text: str, parameters: Any) -> list[tuple]:
    """Run a statement and return its rows, read in the order of indexes.

    PostgreSQL would rather sort if it expects few rows, and there can be many.
    """
    whole = transaction.atomic(using=database, savepoint=False)
    with whole, connections[database].cursor() as cursor:
        cursor.execute(IN_ORDER)
        rows = read(database, text, parameters)
        cursor.execute(AS_BEFORE)  # the transaction may be the caller's
        return rows
