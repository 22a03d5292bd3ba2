"""Dependencies: for which jobs a job waits, as a worker decides."""

import json
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ..conf import settings
from ..sql import statement
from .statements import Execute

BATCH = 100  # jobs that one transaction decides about
MOST = 1_000  # that it looks at


class Undecided(NamedTuple):
    """A job that waits for a dependency, when no worker has decided for which job."""

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
    dependencies: dict | None  # as its task has them now, or None to keep them
    jobs: Sequence[int] = ()  # that it has to wait for; without any it is promoted
    reason: str | None = None  # why it fails


class Decided(NamedTuple):
    """What has become of it."""

    id: int
    task: str
    queue_name: str
    status: str
    reason: str


def undecided(execute: Execute, tasks: Iterable[str], limit: int) -> list[Undecided]:
    """Lock and return a batch of jobs for whose dependencies no job was found yet.

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


def carry_out(execute: Execute, decisions: Sequence[Decision]) -> list[Decided]:
    """Make jobs wait, promote or fail them."""
    values = [each._asdict() for each in decisions]
    rows = execute(statement("depend"), {"decisions": json.dumps(values)})
    return [Decided._make(row) for row in rows]
