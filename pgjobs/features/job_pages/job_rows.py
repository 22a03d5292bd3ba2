"""Jobs as plain rows for exports: masked, bounded, and read a part at a time."""

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from django.db.models import Case, Func, IntegerField, TextField, Value, When
from django.db.models.functions import Cast, Left
from django.db.models.lookups import LessThan

from ...base.moments import instant
from ...models.job import Job
from ...models.job_set import JobQuerySet
from ...queue.acts import batches
from ...reports.json_text import on_one_line
from ...reports.task_words import OWN, with_own

AT_ONCE = 1_000
LARGE = 100_000  # bytes; larger arguments are skipped
LONGEST_REASON = 2_000
COLUMNS = (
    "id",
    "task",
    "queue_name",
    "status",
    "priority",
    "attempts",
    "failures",
    "enqueued_at",
    "run_after",
    "started_at",
    "last_attempted_at",
    "finished_at",
    "worker_id",
    "batch_id",
)
Words = Callable[[str], tuple[str, ...]]
SIZE = Func("kwargs", function="pg_column_size", output_field=IntegerField())
SMALL = When(LessThan(SIZE, LARGE), then=Cast("kwargs", TextField()))
TEXTS = {
    "reason": Left("reason", LONGEST_REASON),
    "arguments": Case(SMALL, default=Value("null"), output_field=TextField()),
}


def rows_of(
    jobs: JobQuerySet, names: Iterable[str], words_of: Words
) -> Iterator[dict[str, Any]]:
    """Yield the rows of all jobs, by id."""
    for ids in batches(jobs):
        for start in range(0, len(ids), AT_ONCE):
            yield from some_rows(jobs.db, ids[start : start + AT_ONCE], names, words_of)


def some_rows(
    database: str, ids: list[int], names: Iterable[str], words_of: Words
) -> Iterator[dict[str, Any]]:
    """Yield the rows of these jobs; `words_of` says what a task calls sensitive."""
    texts = {f"{name}_text": text for name, text in TEXTS.items() if name in names}
    rows = Job.objects.using(database).filter(pk__in=ids).order_by("pk")
    for row in rows.values(*COLUMNS, own=OWN, **texts):
        own = row.pop("own")
        columns = {name.removesuffix("_text"): row[name] for name in row}
        if "arguments" in columns:
            columns["arguments"] = on_one_line(
                columns["arguments"], with_own(words_of(row["task"]), own)
            )
        yield columns


def json_lines(rows: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Yield a JSON array with one object a line."""
    separator = "["
    for row in rows:
        yield f"{separator}\n{json_object(row)}"
        separator = ","
    yield "[]\n" if separator == "[" else "\n]\n"


def json_object(row: dict[str, Any]) -> str:
    # The arguments are masked JSON already, which Python need not be able to read.
    arguments = row.pop("arguments", None)
    text = json.dumps(row, default=lambda time: instant(time).isoformat())
    if arguments is None:
        return text
    return f'{text[:-1]}, "arguments": {arguments}}}'
