"""The jobs of a list as CSV or JSON, streamed a few at a time."""

import csv
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from django.contrib.admin.options import IncorrectLookupParameters
from django.core.exceptions import BadRequest, PermissionDenied
from django.db.models import QuerySet
from django.http import StreamingHttpResponse

from ...admin.acting import all_that_match
from ...admin.auditing import audited
from ...admin.searching import may_see_arguments
from ...base.moments import instant
from ...models.audit_entry import AuditEntry
from ...tasks.sensitive import sensitive_words
from .job_rows import COLUMNS, TEXTS, json_lines, rows_of

# A spreadsheet runs a cell that begins with one of these.
FORMULAS = ("=", "+", "-", "@", "\t", "\r")
CONTENT_TYPES = {"csv": "text/csv; charset=utf-8", "json": "application/json"}


def all_of_list(request, admin) -> QuerySet:
    """Return all rows of a list, whose filters the address repeats.

    Raises PermissionDenied for who may not view them, BadRequest for a wrong filter.
    """
    if not admin.has_view_permission(request):
        raise PermissionDenied
    request.pgjobs_reads_all = True
    try:
        return admin.get_changelist_instance(request).get_queryset(request)
    except IncorrectLookupParameters as error:
        raise BadRequest("A filter was given what it cannot read.") from error


def export_view(request, admin, kind: str) -> StreamingHttpResponse:
    """Answer with the jobs of a list, whose filters the address repeats."""
    jobs = all_of_list(request, admin)
    entry = audited(request, "export", "job", chosen=all_that_match(request))
    return export(jobs, kind, may_see_arguments(request), entry)


def export(
    jobs,
    kind: str,
    may_see: bool,
    entry: AbstractContextManager[AuditEntry],
) -> StreamingHttpResponse:
    """Return the answer with these jobs, by id.

    - `kind`: csv or json.
    - `may_see`: whether the user may see arguments.
    - `entry`: writes the export to the audit trail, once the rows are sent.
    """
    names = (*COLUMNS, *(TEXTS if may_see else ("reason",)))
    rows = counted(rows_of(jobs, names, cache(sensitive_words)), entry)
    return StreamingHttpResponse(
        csv_lines(names, rows) if kind == "csv" else json_lines(rows),
        content_type=CONTENT_TYPES[kind],
        headers={"Content-Disposition": f'attachment; filename="jobs.{kind}"'},
    )


def counted(
    rows: Iterable[dict[str, Any]], entry: AbstractContextManager[AuditEntry]
) -> Iterator[dict[str, Any]]:
    """Yield the rows; the entry says how many a client has got that left early, too."""
    with entry as written:
        written.number = 0
        for row in rows:
            written.number += 1
            yield row


class Echo:
    """A file whose lines the writer of CSV gets back."""

    def write(self, line: str) -> str:
        return line


def csv_lines(names, rows: Iterable[dict[str, Any]]) -> Iterator[str]:
    writer = csv.writer(Echo())
    yield writer.writerow(names)
    for row in rows:
        yield writer.writerow([csv_cell(row[name]) for name in names])


def csv_cell(value) -> Any:
    if hasattr(value, "isoformat"):
        return instant(value).isoformat()
    if isinstance(value, str) and value.startswith(FORMULAS):
        return f"'{value}"
    return value
