"""The jobs of a list as CSV or JSON, streamed a few at a time."""

import csv
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from django.db.models import Case, Func, IntegerField, TextField, Value, When
from django.db.models.functions import Cast, Left
from django.db.models.lookups import LessThan
from django.http import StreamingHttpResponse

from ..models import Job
from ..queue.acts import batches
from .json_text import masked, tokens

AT_ONCE = 1_000
LARGE = 100_000  # bytes of arguments, which are left out
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
SIZE = Func("kwargs", function="pg_column_size", output_field=IntegerField())
SMALL = When(LessThan(SIZE, LARGE), then=Cast("kwargs", TextField()))
TEXTS = {
    "reason": Left("reason", LONGEST_REASON),
    "arguments": Case(SMALL, default=Value("null"), output_field=TextField()),
}
# A spreadsheet runs a cell that begins with one of these.
FORMULAS = ("=", "+", "-", "@", "\t", "\r")


def export(jobs, kind: str, may_see_arguments: bool) -> StreamingHttpResponse:
    """Return the answer with these jobs, by id; `kind` is csv or json."""
    write, content_type = KINDS[kind]
    names = (*COLUMNS, *(TEXTS if may_see_arguments else ("reason",)))
    headers = {"Content-Disposition": f'attachment; filename="jobs.{kind}"'}
    lines = write(names, rows_of(jobs, names))
    return StreamingHttpResponse(lines, content_type=content_type, headers=headers)


def rows_of(jobs, names: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Yield the rows by id, reading a part at a time."""
    texts = {f"{name}_text": text for name, text in TEXTS.items() if name in names}
    for ids in batches(jobs):
        for start in range(0, len(ids), AT_ONCE):
            part = Job.objects.filter(pk__in=ids[start : start + AT_ONCE])
            for row in part.order_by("pk").values(*COLUMNS, **texts):
                yield {name.removesuffix("_text"): row[name] for name in row}


def compact(arguments: str) -> str:
    """Return JSON text on one line, secrets masked."""
    return "".join(masked(tokens(arguments)))


class Echo:
    """A file whose lines the writer of CSV gets back."""

    def write(self, line: str) -> str:
        return line


def csv_lines(names, rows: Iterable[dict[str, Any]]) -> Iterator[str]:
    writer = csv.writer(Echo())
    yield writer.writerow(names)
    for row in rows:
        yield writer.writerow([csv_cell(name, row[name]) for name in names])


def csv_cell(name: str, value) -> Any:
    if name == "arguments":
        value = compact(value)
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if isinstance(value, str) and value.startswith(FORMULAS):
        return f"'{value}"
    return value


def json_lines(names, rows: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Yield an array with one object a line."""
    separator = "["
    for row in rows:
        yield f"{separator}\n{json_object(row)}"
        separator = ","
    yield "[]\n" if separator == "[" else "\n]\n"


def json_object(row: dict[str, Any]) -> str:
    # The arguments are JSON already, which Python need not be able to read.
    arguments = row.pop("arguments", None)
    text = json.dumps(row, default=str)
    if arguments is None:
        return text
    return f'{text[:-1]}, "arguments": {compact(arguments)}}}'


KINDS: dict[str, tuple[Callable, str]] = {
    "csv": (csv_lines, "text/csv; charset=utf-8"),
    "json": (json_lines, "application/json"),
}
