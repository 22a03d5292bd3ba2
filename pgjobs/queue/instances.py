"""What `enqueue` returns: instances of the new rows, which are not read again."""

import gc
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import repeat
from typing import TYPE_CHECKING, Any

from ..base.plain_json import load
from ..sql.columns import RETURNED
from .new_job import STORED, NewJob

if TYPE_CHECKING:
    from ..models import Job


def inserted(
    model: "type[Job]", database: str, new_job: NewJob, row, unique_until=None
) -> "Job":
    """Return the job that was just inserted, without reading it again."""
    columns = columns_of(model, new_job, row)
    columns["unique_until"] = unique_until
    return model.of_columns(database, columns)


def inserted_alike(
    model: "type[Job]",
    database: str,
    new_jobs: Sequence[NewJob],
    all_kwargs: str,
    groups: Iterable[Sequence[Any]],
) -> "list[Job]":
    """Return the jobs that were just inserted together, in their order.

    `all_kwargs` is the JSON array of their arguments.
    """
    with no_collection():
        rows = sorted(rows_of_groups(model, new_jobs[0], groups))
        return [
            model.of_columns(database, columns_alike(*row, kwargs, new_job))
            for row, kwargs, new_job in zip(
                rows, load(all_kwargs), new_jobs, strict=True
            )
        ]


def columns_alike(
    id: int, turn: int, shared: dict[str, Any], kwargs: Any, new_job: NewJob
) -> dict[str, Any]:
    columns = shared.copy()
    columns["id"] = id
    columns["turn"] = turn
    columns["kwargs"] = kwargs
    add_own(columns, new_job)
    return columns


@contextmanager
def no_collection() -> Iterator[None]:
    """Pause the garbage collector while many lasting objects are made.

    It would visit the growing number of objects again and again, which takes longer
    than making them.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def rows_of_groups(
    model: "type[Job]", new_job: NewJob, groups: Iterable[Sequence[Any]]
) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Yield of each new row the id, the turn, and the columns that it shares."""
    for ids, turns, *row in groups:
        shared = columns_of(model, new_job, [None, None, *row])
        # Ids and turns rise in the order of the jobs.
        yield from zip(sorted(ids), sorted(turns), repeat(shared))


def columns_of(
    model: "type[Job]", new_job: NewJob, row: Sequence[Any]
) -> dict[str, Any]:
    """Return the columns of a new row; `row` has those that the statement returned."""
    columns = model.columns_of_new_row()
    columns.update(zip(STORED, new_job, strict=False))
    columns.update(zip(RETURNED, row, strict=True))
    columns["kwargs"] = load(new_job.kwargs)
    add_own(columns, new_job)
    return columns


def add_own(columns: dict[str, Any], new_job: NewJob) -> None:
    """Add new values of the columns that the owner of an instance may change."""
    columns["args"] = load_array(new_job.args)
    if new_job.keys:
        columns["keys"] = own_copy(new_job.keys)
        columns["batch_id"] = new_job.keys.get("batch_id")
    if new_job.meta:
        columns["meta"] = load(new_job.meta)


def own_copy(keys: dict[str, Any]) -> dict[str, Any]:
    """Copy the keys for another owner. Of their values only these lists can change."""
    copy = keys.copy()
    for name in ("after", "after_batches"):
        if name in copy:
            copy[name] = list(copy[name])
    return copy


def load_array(text: str) -> list[Any]:
    return [] if text == "[]" else load(text)
