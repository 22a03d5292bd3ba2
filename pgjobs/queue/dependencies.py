"""Dependencies: what the jobs that need others wait for, decided by a worker."""

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..conf import settings
from ..sql import statement
from . import unique
from .acts import columns
from .statements import Execute

if TYPE_CHECKING:
    from ..tasks.bound import BoundTask

BATCH = 100  # jobs that one transaction decides about
MOST = 1_000  # that it looks at

HOLDERS = """
SELECT unique_key, id FROM pgjobs_job
WHERE unique_key = ANY (%(unique_keys)s::text[])
    AND pgjobs_holds_key(unique_for, unique_until, status, attempts, finished_at)
    AND finished_at IS NULL
"""


class Undecided(NamedTuple):
    """A job that waits for a dependency, and nobody knows yet for which job."""

    id: int
    task: str
    args: str  # JSON text
    kwargs: str
    priority: int


class Found(NamedTuple):
    """What there is of a need."""

    is_met: bool
    coming: int | None  # the id of a job on its way


class Decision(NamedTuple):
    """What becomes of a job that waits for dependencies."""

    id: int
    dependencies: dict | None  # as its task has them now; None: as they are
    jobs: Sequence[int] = ()  # that it has to wait for; none: it may go
    reason: str | None = None  # why it fails


class Decided(NamedTuple):
    """What has become of it."""

    id: int
    task: str
    queue_name: str
    status: str
    reason: str


def undecided(execute: Execute, tasks: Iterable[str], limit: int) -> list[Undecided]:
    """Lock and return a batch of jobs that wait for nobody knows whom yet.

    `tasks`: the names known here; of others those are returned whose grace is over.
    Empty if another worker decides.
    """
    parameters = {
        "tasks": list(tasks),
        "unknown_task_grace": settings.UNKNOWN_TASK_GRACE,
        "most": MOST,
        "limit": limit,
    }
    rows = execute(statement("undecided"), parameters)
    return [Undecided._make(row) for row in rows]


def look_up(
    execute: Execute, needs: Iterable[tuple[str, float]]
) -> dict[tuple[str, float], Found]:
    """Return what there is of each need: a key, and how many seconds ago at most."""
    keys, withins = map(list, zip(*needs, strict=True))
    rows = execute(statement("prerequisites"), {"keys": keys, "withins": withins})
    return {(key, within): Found(*found) for key, within, *found in rows}


def enqueue(execute: Execute, bound_tasks: "Sequence[BoundTask]") -> list[int | None]:
    """Insert jobs on the worker's connection; return their ids, in the order given.

    In the place of one whose unique key another job holds stands that job, or None if
    it has ended.
    """
    if not any(bound.unique_key for bound in bound_tasks):
        rows = execute(statement("enqueue"), columns(bound_tasks))
        return sorted(row[0] for row in rows)
    ids = unique.insert_free(execute, bound_tasks)
    keys = unique.key_columns(bound_tasks)
    holders = dict(execute(HOLDERS, keys))
    return [
        id or holders.get(key) for id, key in zip(ids, keys["unique_keys"], strict=True)
    ]


def carry_out(execute: Execute, decisions: Sequence[Decision]) -> list[Decided]:
    """Let jobs wait, go or fail."""
    values = [each._asdict() for each in decisions]
    rows = execute(statement("depend"), {"decisions": json.dumps(values)})
    return [Decided._make(row) for row in rows]
