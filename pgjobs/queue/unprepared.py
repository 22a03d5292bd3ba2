"""What keeps a project from enqueueing anything, in a sentence that names the cure."""

import psycopg
from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError, connections
from psycopg import errors

MISSING = (
    errors.UndefinedColumn,
    errors.UndefinedFunction,
    errors.UndefinedObject,
    errors.UndefinedTable,
)


def refuse_unprepared(database: str, error: DatabaseError) -> None:
    """Raise ImproperlyConfigured if the database of the queue is not made for it."""
    connection = connections[database]
    if connection.vendor != "postgresql":
        raise ImproperlyConfigured(
            f"Jobs need PostgreSQL, but DATABASES[{database!r}] uses "
            f"{connection.display_name}. Change that, or name the alias of a "
            "PostgreSQL database in PGJOBS['DATABASE']."
        ) from error
    if isinstance(error.__cause__, MISSING) and "pgjobs_" in str(error.__cause__):
        raise ImproperlyConfigured(
            f"The database {database!r} has no queue, or that of another version: "
            f"{first_line(error.__cause__)}. Run 'manage.py migrate pgjobs --database "
            f"{database}'. (Tests that leave the migrations out have no queue either.)"
        ) from error


def first_line(error: psycopg.Error) -> str:
    return str(error).strip().partition("\n")[0]
