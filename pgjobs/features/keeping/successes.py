"""Which successes a worker deletes in place of storing them, and how."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from django.db.models import DateTimeField

from ...conf import settings
from ...models.job import Job
from ...queue.claiming import Success
from ...queue.statements import Execute, array
from ...sql import statement

RECORD = "record_or_delete"
CLAIM = "record_or_delete_and_claim"


def kinds() -> tuple[str, ...]:
    """Return the values of `Job.keep` with which successes go unless needed."""
    return ("failed", "worker") if settings.KEEP == "failed" else ("failed",)


def gone(execute: Execute, ids: Iterable[int]) -> set[int]:
    """Return those of these jobs that have no row."""
    return {id for (id,) in execute(statement("gone"), {"ids": array(ids)})}


def rows_of(
    execute: Execute, worker_name: str, successes: Sequence[Success]
) -> dict[int, str]:
    """Return by id, as JSON, the rows that these successes would leave."""
    parameters = {
        "worker_name": worker_name,
        "ids": array(each.id for each in successes),
        "return_values": [each.return_value for each in successes],
    }
    return dict(execute(statement("rows_of_successes"), parameters))


def job_of(database: str, row: str) -> Job:
    """Return the instance of a row that was deleted."""
    values: dict[str, Any] = json.loads(row)
    columns = {}
    for field in Job._meta.concrete_fields:
        value = values[field.column]
        if isinstance(field, DateTimeField):
            value = field.to_python(value)
        columns[field.attname] = value
    return Job.of_columns(database, columns)
