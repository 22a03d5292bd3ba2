"""The transitions that the application and its operators make, one statement each.

Those that a worker makes stand in `work.py`.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import psycopg
from django.db import IntegrityError, connections, transaction

from .. import signals
from ..conf import settings
from ..plain_json import check_json, dump, dump_checked, load
from ..sql import statement
from ..texts import storable

if TYPE_CHECKING:
    from ..arguments import Stored
    from ..tasks import Options
    from .job import Job, JobQuerySet

BATCH = 10_000  # rows that one statement of a bulk act touches
LONGEST_REASON = 1_000
MOST_TRIES = 100  # each fails only if somebody else was faster

# What the columns of each new job are.
NEW = {
    "attempts": 0,
    "failures": 0,
    "crashes": 0,
    "life": 1,
    "lease_token": 0,
    "worker_id": None,
    "cancel_requested_at": None,
    "started_at": None,
    "last_attempted_at": None,
    "finished_at": None,
    "return_value": None,
    "reason": "",
    "awaited": False,
    "blocked_by_id": None,
    "unique_key": None,
    "unique_for": None,
    "unique_until": None,
}


class NewJob(Protocol):
    """What a job is made of: a `BoundTask`, or a schedule's."""

    @property
    def task_name(self) -> str: ...
    @property
    def arguments(self) -> "Stored": ...
    @property
    def keys(self) -> dict[str, Any]: ...
    @property
    def dependencies(self) -> dict[str, Any] | None: ...
    @property
    def options(self) -> "Options": ...


class Changed(NamedTuple):
    """How many jobs an act changed, and how many their status kept from it."""

    changed: int
    skipped: int


def enqueue(
    model: "type[Job]", database: str, bound_tasks: "Sequence[NewJob]"
) -> "list[Job]":
    """Insert jobs in one statement, in the caller's transaction."""
    if not bound_tasks:
        return []
    parameters: dict[str, Any] = columns(bound_tasks)
    if len(bound_tasks) == 1:
        sql = statement("enqueue_one")
        parameters = {
            name: array[0] if isinstance(array, list) else array
            for name, array in parameters.items()
        }
    else:
        sql = statement("enqueue")
    with connections[database].cursor() as cursor:
        cursor.execute(sql, parameters)
        rows = sorted(cursor.fetchall())
    jobs = [
        inserted(model, database, bound, row)
        for bound, row in zip(bound_tasks, rows, strict=True)
    ]
    announce_enqueued(model, jobs)
    return jobs


def announce_enqueued(model: "type[Job]", jobs: "Iterable[Job]") -> None:
    if signals.job_enqueued.has_listeners(model):
        for job in jobs:
            signals.send(signals.job_enqueued, model, job=job)


def columns(bound_tasks: "Sequence[NewJob]") -> dict[str, list | str | None]:
    """Return the jobs to insert as one array for each column; see `once` and `some`.

    To send a value takes longer than to insert it.
    """
    options = [bound.options for bound in bound_tasks]
    return {
        "tasks": once([bound.task_name for bound in bound_tasks]),
        "args": once([bound.arguments.args for bound in bound_tasks]),
        "kwargs": [bound.arguments.kwargs for bound in bound_tasks],
        "queue_names": once([each.queue_name for each in options]),
        "priorities": once([each.priority for each in options]),
        "run_afters": some([moment(each.run_after) for each in options]),
        "delays": some([seconds(each.run_after) for each in options]),
        "expires_ats": some([moment(each.expires) for each in options]),
        "expires_ins": some([seconds(each.expires) for each in options]),
        "max_attempts": once([each.max_attempts for each in options]),
        "max_crashes": once([each.max_crashes for each in options]),
        "timeouts": some([each.time_limit for each in options]),
        "process_units": some([each.process_units for each in options]),
        "keys": all_keys(bound_tasks),
        "dependencies": some([json_or_none(each.dependencies) for each in bound_tasks]),
    }


def once(values: list) -> list:
    """Return an array of one where all values are the same.

    The statements take the first one where an array is shorter than the others.
    """
    first = values[:1]
    return first if first * len(values) == values else values


def some(values: list) -> list | None:
    """Return an array, or None where all values are NULL."""
    return values if any(value is not None for value in values) else None


def all_keys(bound_tasks: "Sequence[NewJob]") -> str | None:
    """Return what ties the jobs to others as one JSON array; None if nothing does."""
    if not any(bound.keys for bound in bound_tasks):
        return None
    return dump_checked([bound.keys or None for bound in bound_tasks])


def json_or_none(value: dict[str, Any] | None) -> str | None:
    return json.dumps(value) if value else None


def moment(value: datetime | timedelta | None) -> datetime | None:
    return None if isinstance(value, timedelta) else value


def seconds(value: datetime | timedelta | None) -> float | None:
    return value.total_seconds() if isinstance(value, timedelta) else None


def inserted(model: "type[Job]", database: str, bound: "NewJob", row, **key) -> "Job":
    """Return the job that was just inserted, without reading it again.

    `key`: the columns of a unique job that have other values than a plain one's.
    """
    id, turn, status, run_after, expires_at, enqueued_at, waiting_for, line = row
    arguments, options = bound.arguments, bound.options
    columns = {
        **NEW,
        "id": id,
        "turn": turn,
        "task": bound.task_name,
        "args": load(arguments.args),
        "kwargs": load(arguments.kwargs),
        "queue_name": options.queue_name,
        "priority": options.priority,
        "status": status,
        "run_after": run_after,
        "expires_at": expires_at,
        "max_attempts": options.max_attempts,
        "max_crashes": options.max_crashes,
        "timeout": options.time_limit,
        "process_units": options.process_units,
        "enqueued_at": enqueued_at,
        "waiting_for": waiting_for,
        "line": line,
        "keys": own_copy(bound.keys) if bound.keys else None,
        "batch_id": bound.keys.get("batch_id"),
        "dependencies": bound.dependencies,
        **key,
    }
    return model.of_columns(database, columns)


def own_copy(keys: dict[str, Any]) -> dict[str, Any]:
    """Return the keys for another owner: of what they hold, only lists can change."""
    return {
        name: list(value) if isinstance(value, list | tuple) else value
        for name, value in keys.items()
    }


def act(verb: str, queryset: "JobQuerySet", **parameters) -> Changed:
    """Run the act `verb` on every job of the queryset, a batch at a time."""
    if "return_value" in parameters:
        parameters["return_value"] = result_text(parameters["return_value"])
    if "reason" in parameters:
        parameters["reason"] = storable(str(parameters["reason"]), LONGEST_REASON)
    seen = changed = 0
    run = put_back if verb == "retry" else act_on
    for ids in batches(queryset):
        rows = run(verb, queryset, ids, parameters)
        seen += len(ids)
        changed += len(rows)
    return Changed(changed, seen - changed)


def act_on(verb, queryset, ids: list[int], parameters: dict) -> list[tuple]:
    with connections[queryset.db].cursor() as cursor:
        cursor.execute(statement(verb), {"ids": ids, **parameters})
        rows = cursor.fetchall()
    if finished := [row[0] for row in rows if row[1]]:
        announce = partial(announce_finished, queryset.model, queryset.db, finished)
        transaction.on_commit(announce, using=queryset.db)
    return rows


def put_back(verb, queryset, ids: list[int], parameters: dict) -> list[tuple]:
    """Run an act that takes up unique keys again; somebody may just do the same.

    The statement leaves out jobs whose key another one holds, but cannot see those that
    are not committed yet. It waits for them; the next try sees them.
    """
    tries = 0
    while True:
        tries += 1
        try:
            with transaction.atomic(using=queryset.db):
                return act_on(verb, queryset, ids, parameters)
        except IntegrityError as error:
            is_overtaken = isinstance(error.__cause__, psycopg.errors.UniqueViolation)
            if not is_overtaken or tries == MOST_TRIES:
                raise


def batches(queryset: "JobQuerySet") -> Iterator[list[int]]:
    """Yield the ids of the queryset, which the acts must not change meanwhile."""
    if queryset.query.is_sliced or queryset.query.combinator:
        ids = sorted(set(queryset.values_list("pk", flat=True)))
        yield from (ids[at : at + BATCH] for at in range(0, len(ids), BATCH))
        return
    # A join may bring a job more than once.
    by_id = queryset.order_by("pk").values_list("pk", flat=True).distinct()
    ids = list(by_id[:BATCH])
    while ids:
        yield ids
        ids = list(by_id.filter(pk__gt=ids[-1])[:BATCH]) if len(ids) == BATCH else []


def announce_finished(model: "type[Job]", database: str, ids: Iterable[int]) -> None:
    """Send job_finished for these jobs, if anybody listens."""
    ids = list(ids)
    if ids and signals.job_finished.has_listeners(model):
        for job in model.objects.using(database).filter(pk__in=ids).order_by("pk"):
            signals.send(signals.job_finished, model, job=job)


def result_text(value) -> str | None:
    """Return a job's result as JSON text; raise ValueError if it cannot be stored."""
    if value is None:
        return None
    check_json(value)
    text = dump(value)
    size = len(text.encode())
    if size > settings.MAX_RESULT_BYTES:
        raise ValueError(
            f"is {size} bytes of JSON, more than the {settings.MAX_RESULT_BYTES} that "
            "PGJOBS['MAX_RESULT_BYTES'] allows"
        )
    return text
