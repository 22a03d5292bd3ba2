"""SQL as psql sends it: on psycopg's own connection, past Django."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from django.db import connection, transaction

from pgjobs.models import Job


def psql(statement: str, parameters: Any = None) -> list[tuple]:
    """Run a statement in the test's transaction; nothing of it stays if it fails."""
    with transaction.atomic():
        cursor = connection.connection.execute(statement, parameters)
        return cursor.fetchall() if cursor.description else []


def enqueued(arguments: str, task: str = "reports.generate_monthly") -> list[Job]:
    """Enqueue by SQL; `arguments`: all but the first, as SQL."""
    rows = psql(f"SELECT * FROM pgjobs_enqueue('{task}', {arguments})")
    return [Job.objects.get(pk=id) for (id,) in rows]


@contextmanager
def refused(
    sqlstate: str, says: str | None = None, column: str | None = None
) -> Iterator[None]:
    """Expect an error, and that nothing is inserted."""
    before = Job.objects.count()
    with pytest.raises(psycopg.Error, match=says) as caught:
        yield
    diagnostic = caught.value.diag
    assert diagnostic.sqlstate == sqlstate, caught.value
    if column is not None:
        assert diagnostic.column_name == column
    assert Job.objects.count() == before
