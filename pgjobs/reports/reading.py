"""How reports read: in one transaction, and without what slows short statements."""

from typing import Any

from django.db import connections, transaction
from django.db.models import QuerySet

from ..sql import statement

WITHOUT_JIT = "SET LOCAL jit = off"
IN_ORDER = "SET LOCAL enable_sort = off"
AS_BEFORE = "SET LOCAL enable_sort TO DEFAULT"


def sql_of(rows: QuerySet) -> tuple[str, tuple]:
    """Return the statement and its parameters, for the database of the rows.

    Raises Django's EmptyResultSet where it knows that there are no rows.
    """
    return rows.query.get_compiler(using=rows.db).as_sql()


def rows_of(database: str, name: str, parameters: dict[str, Any]) -> list[tuple]:
    """Run a statement of `sql/reports/`."""
    return read(database, statement(name), parameters)


def read(database: str, text: str, parameters: Any) -> list[tuple]:
    """Run a statement and return its rows.

    PostgreSQL compiles a statement that it estimates to be expensive, which can take
    seconds. These statements are bounded, so to run them takes less than that.
    """
    whole = transaction.atomic(using=database, savepoint=False)
    with whole, connections[database].cursor() as cursor:
        cursor.execute(WITHOUT_JIT)
        cursor.execute(text, parameters)
        return cursor.fetchall()


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
