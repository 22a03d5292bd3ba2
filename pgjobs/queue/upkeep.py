"""What workers do for all jobs: promote, expire, rescue and prune."""

from collections.abc import Iterable
from typing import NamedTuple

from ..sql import statement
from .statements import Execute

# The class of the advisory locks that tell which workers live ("pgjw" in ASCII).
LOCK_CLASS = 0x70676A77
BATCH = 1_000  # rows that one statement of the maintenance touches
MOST_TOO_HEAVY = 100  # jobs that a worker complains of


class HeavyJob(NamedTuple):
    """A job that takes more process units than its worker's host has at all."""

    id: int
    task: str
    queue_name: str
    units: int


class Promoted(NamedTuple):
    number: int
    must_admit: bool  # some have to be admitted, or a rate has a token again


class Chores(NamedTuple):
    """What there is to do for all workers."""

    rescue: bool
    admit: bool
    expire: bool
    deliver_late: bool
    next_fire: float | None  # seconds until a schedule has to be looked at
    has_ready: bool  # there are READY jobs, of whatever queue
    next_due: float | None  # seconds until a scheduled job may run


class Rescued(NamedTuple):
    id: int
    task: str
    queue_name: str
    status: str
    crashes: int


def too_heavy(
    execute: Execute, total: int, queues: Iterable[str] | None, excluded: Iterable[str]
) -> list[HeavyJob]:
    """Return some READY jobs of these queues that take more units than this total."""
    rows = execute(
        statement("too_heavy"),
        {
            "total": total,
            "queues": None if queues is None else list(queues),
            "excluded": list(excluded),
            "limit": MOST_TOO_HEAVY,
        },
    )
    return [HeavyJob._make(row) for row in rows]


def promote(execute: Execute) -> Promoted:
    """Let the jobs go whose time has come, a batch."""
    return Promoted._make(execute(statement("promote"), {"limit": BATCH})[0])


def expire(execute: Execute) -> list[int]:
    """Cancel a batch of the jobs that were not started in time; return their ids."""
    return [id for (id,) in execute(statement("expire"), {"limit": BATCH})]


def chores(execute: Execute, worker_id: int, looks: bool) -> Chores:
    """Return what there is to do for all; `looks`: look for READY jobs, too."""
    parameters = {"worker_id": worker_id, "looks": looks}
    return Chores._make(execute(statement("chores"), parameters)[0])


def rescue(execute: Execute, worker_id: int) -> list[Rescued]:
    """Take back a batch of the jobs whose worker is dead."""
    rows = execute(
        statement("rescue"),
        {"worker_id": worker_id, "lock_class": LOCK_CLASS, "limit": BATCH},
    )
    return [Rescued._make(row) for row in rows]


def prune(execute: Execute, ages: dict[str, float | None]) -> int:
    """Delete a batch of the jobs finished longer ago than their status's age."""
    limited = {status: age for status, age in ages.items() if age is not None}
    if not limited:
        return 0
    rows = execute(
        statement("prune"),
        {
            "statuses": list(limited),
            "ages": [float(age) for age in limited.values()],
            "limit": BATCH,
        },
    )
    return rows[0][0]


def forget_rates(execute: Execute) -> None:
    """Delete a batch of the rates that nothing has to remember."""
    execute(statement("forget_rates"), {"limit": BATCH})


def make_queues(execute: Execute, names: Iterable[str]) -> None:
    """Make the rows of queues that are used for the first time."""
    execute(statement("make_queues"), {"names": sorted(names)})
