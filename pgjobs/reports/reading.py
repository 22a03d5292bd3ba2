"""How reports read: in one transaction, and without what slows short statements."""

from typing import Any

from django.db import connections, transaction

from ..sql import statement


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
        cursor.execute("SET LOCAL jit = off")
        cursor.execute(text, parameters)
        return cursor.fetchall()
