"""Dependencies: a worker decides for which jobs a job waits."""

import json
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ...conf import settings
from ...queue.inserting import insert_free
from ...queue.new_job import NewJob
from ...queue.statements import Execute
from ...sql import statement

BATCH = 100  # jobs that one transaction decides about
MOST = 1_000  # jobs that it looks at
HOLDERS = """
SELECT unique_key, id FROM pgjobs_job
WHERE unique_key = ANY (%(unique_keys)s::text[])
    AND pgjobs_holds_key(unique_for, unique_until, status, attempts, finished_at)
    AND finished_at IS NULL
"""


class Undecided(NamedTuple):
    """A job with dependencies about which no worker has decided yet."""

    id: int
    task: str
    args: str  # JSON text
    kwargs: str
    priority: int


class Found(NamedTuple):
    """The jobs that may meet a need."""

    is_met: bool
    coming: int | None  # the id of a job on its way


class Decision(NamedTuple):
    """A worker's decision about a job that waits for dependencies."""

    id: int
    dependencies: dict | None  # by the present task; None keeps the stored ones
    jobs: Sequence[int] = ()  # ids of those to wait for; without any it is promoted
    reason: str | None = None  # why the job fails, if it does


class Decided(NamedTuple):
    """A job after the decision."""

    id: int
    task: str
    queue_name: str
    status: str
    reason: str


def undecided(execute: Execute, tasks: Iterable[str], limit: int) -> list[Undecided]:
    """Lock and return a batch of jobs for whose dependencies no job was found yet.

    `tasks`: the names that this worker knows. Jobs of other tasks are returned only
    after their grace. Returns nothing while another worker decides.
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
    """Return the jobs for each need: its key, and the greatest age in seconds."""
    keys, withins = map(list, zip(*needs, strict=True))
    rows = execute(statement("prerequisites"), {"keys": keys, "withins": withins})
    return {(key, within): Found(*found) for key, within, *found in rows}


def insert_or_find(execute: Execute, new_jobs: Sequence[NewJob]) -> list[int | None]:
    """Insert jobs; return their ids, or those of the jobs that hold their keys.

    None stands where a job that has ended holds the key.
    """
    ids = insert_free(execute, new_jobs)
    keys = [job.unique_key for id, job in zip(ids, new_jobs, strict=True) if id is None]
    holders = dict(execute(HOLDERS, {"unique_keys": keys})) if keys else {}
    return [
        id or holders.get(job.unique_key) for id, job in zip(ids, new_jobs, strict=True)
    ]


def carry_out(execute: Execute, decisions: Sequence[Decision]) -> list[Decided]:
    """Make jobs wait, promote or fail them."""
    values = [decision._asdict() for decision in decisions]
    rows = execute(statement("depend"), {"decisions": json.dumps(values)})
    return [Decided._make(row) for row in rows]
