"""What workers do for all jobs: promote, expire, rescue and prune."""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ..sql import statement
from .parts import OLDEST, Part, Position, read_part
from .references import references_to, sparing_referred
from .statements import Execute, array

# The class of the advisory locks that living workers hold ("pgjw" in ASCII).
LOCK_CLASS = 0x70676A77
# What chores.sql notifies of: the columns of Told, times in milliseconds, -1 for none.
SURVEY = re.compile(
    r"(\d{1,10}) (\d{1,19}) (\d{1,15}) (\d{1,13}|-1) (\d{1,13}|-1)", re.ASCII
)
BATCH = 1_000  # rows that one statement touches
MOST_TOO_HEAVY = 100  # jobs that one warning names


class HeavyJob(NamedTuple):
    """A job that takes more process units than the worker's host has in total."""

    id: int
    task: str
    queue_name: str
    units: int


class Batch(NamedTuple):
    """The jobs that a statement of the upkeep may touch."""

    limit: int | None = None  # how many. None means BATCH
    only: Sequence[int] | None = None  # their ids. None means all that are due
    skipped: Sequence[int] = ()  # ids of jobs on which the statement fails

    @property
    def size(self) -> int:
        return BATCH if self.limit is None else self.limit

    def parameters(self) -> dict:
        only = None if self.only is None else array(self.only)
        return {"limit": self.size, "only": only, "skipped": array(self.skipped)}


ALL_DUE = Batch()


class Promoted(NamedTuple):
    number: int
    must_admit: bool  # jobs wait for an admission, or a rate has a token again


class Chores(NamedTuple):
    """Which chores have something to do."""

    rescue: bool
    admit: bool
    expire: bool
    deliver_late: bool
    next_fire: float | None  # seconds until a schedule has to be looked at
    has_ready: bool  # there are READY jobs in any queue
    next_due: float | None  # seconds until a scheduled job may run
    workers: int  # that are alive
    at: float  # when this was asked: seconds by the server's clock
    installation: int  # the oid of its table of workers: a database may have several
    doubt_ends_in: float | None  # seconds until a worker without its lock is dead
    is_idle: bool  # there is nothing to do, for any worker, and no job is READY


class Told(NamedTuple):
    """What a worker that has found nothing to do notifies the others of."""

    installation: int
    worker_id: int
    at: float
    next_fire: float | None
    next_due: float | None


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


def promote(execute: Execute, batch: Batch = ALL_DUE) -> Promoted:
    """Make a batch of jobs READY whose time has come."""
    return Promoted._make(execute(statement("promote"), batch.parameters())[0])


def expire(execute: Execute, batch: Batch = ALL_DUE) -> list[int]:
    """Cancel a batch of the jobs that were not started in time; return their ids."""
    return [id for (id,) in execute(statement("expire"), batch.parameters())]


def chores(
    execute: Execute,
    worker_id: int,
    looks: bool,
    tells: bool = False,
    sees_locks: bool = True,
) -> Chores:
    """Return which chores have something to do.

    - `looks`: look for READY jobs, too.
    - `tells`: if there is nothing to do, and no job is READY, notify the other workers.
    - `sees_locks`: look whether the other workers hold their session locks, too.
    """
    parameters = {
        "worker_id": worker_id,
        "looks": looks,
        "tells": tells,
        "sees_locks": sees_locks,
    }
    return Chores._make(execute(statement("chores"), parameters)[0][:-1])


def read_survey(payload: str) -> Told | None:
    """Return what a worker has told, or None if no worker can have sent this."""
    if (match := SURVEY.fullmatch(payload)) is None:
        return None
    installation, worker_id, at, *times = map(int, match.groups())
    next_fire, next_due = (None if each < 0 else each / 1_000 for each in times)
    return Told(installation, worker_id, at / 1_000, next_fire, next_due)


def rescue(execute: Execute, worker_id: int, batch: Batch = ALL_DUE) -> list[Rescued]:
    """Take back a batch of the jobs whose worker is dead."""
    parameters = {"worker_id": worker_id, "lock_class": LOCK_CLASS}
    rows = execute(statement("rescue"), {**parameters, **batch.parameters()})
    return [Rescued._make(row) for row in rows]


def left_listeners(execute: Execute) -> list[int]:
    """Return the process ids of the sessions that listen for workers that are dead."""
    return [pid for (pid,) in execute(statement("left_listeners"), {})]


def end_session(execute: Execute, pid: int) -> None:
    """End a session; raises psycopg.errors.InsufficientPrivilege."""
    execute("SELECT pg_terminate_backend(%(pid)s)", {"pid": pid})


def prune(execute: Execute, ages: dict[str, float | None]) -> int:
    """Delete the jobs finished longer ago than their status's age, batch by batch.

    Jobs to which tables of the project refer are skipped, and so are those whose end
    another job has still to learn. Return how many went.
    """
    limited = limited_ages(ages)
    total, number = 0, -1
    while number:  # what has gone may have kept others
        number = sum(prune_status(execute, *each) for each in limited.items())
        total += number
    return total


def prune_status(execute: Execute, status: str, age: float) -> int:
    total, position, has_more = 0, OLDEST, True
    while has_more:
        number, has_more, position = prune_part(execute, status, age, position)
        total += number
    return total


def prune_part(
    execute: Execute,
    status: str,
    age: float,
    position: Position = OLDEST,
    batch: Batch = ALL_DUE,
) -> Part:
    """Look at a batch of the old jobs of a status; delete those that nothing needs."""
    text = sparing_referred(execute, "prune", "pgjobs_job", "job")
    parameters = {"status": status, "age": age, **position._asdict()}
    return read_part(execute(text, {**parameters, **batch.parameters()}), position)


def count_referred(execute: Execute, ages: dict[str, float | None]) -> dict[str, int]:
    """Count the old jobs to which tables of the project refer, by the tables' names."""
    limited = limited_ages(ages)
    arrays = {"statuses": list(limited), "ages": list(limited.values())}
    counted = {}
    for each in references_to(execute, "pgjobs_job"):
        text = statement("referred_jobs").replace("/*table*/", each.table)
        text = text.replace("/*column*/", each.column)
        ((number,),) = execute(text, arrays)
        if number:
            counted[each.table] = number
    return counted


def limited_ages(ages: dict[str, float | None]) -> dict[str, float]:
    """Return the ages of the statuses whose jobs are not kept for ever."""
    return {status: float(age) for status, age in ages.items() if age is not None}


def prune_batches(execute: Execute, after: int = 0) -> tuple[int, int | None]:
    """Look at some batches behind this id, and delete those that have lost all jobs.

    Returns how many were deleted and behind which id to go on, or None at the end.
    """
    text = sparing_referred(execute, "prune_batches", "pgjobs_batch", "seen")
    ((number, last),) = execute(text, {"after": after, "limit": BATCH})
    return number, last


def prune_left_rows(execute: Execute, after: int = 0) -> tuple[int, int | None]:
    """Look at some rows that belong to jobs, and delete those whose job is gone.

    Returns of how many jobs, and behind which job to go on, or None at the end.
    """
    parameters = {"after": after, "limit": BATCH}
    ((number, last),) = execute(statement("prune_left_rows"), parameters)
    return number, last


def suspects(execute: Execute, kind: str, batch: Batch, **parameters) -> list[int]:
    """Return the ids of jobs on which a statement of the upkeep may have failed."""
    text = statement(f"suspects_of_{kind}")
    return [id for (id,) in execute(text, {**batch.parameters(), **parameters})]


def fail(execute: Execute, id: int, reason: str) -> bool:
    """Fail a job with which a worker cannot go on; return whether that worked."""
    rows = execute(statement("fail"), {"ids": [id], "reason": reason})
    return bool(rows)


def forget_rates(execute: Execute) -> int:
    """Delete a batch of the rates that have all their tokens; return how many."""
    ((number,),) = execute(statement("forget_rates"), {"limit": BATCH})
    return number


def make_queues(execute: Execute, names: Iterable[str]) -> None:
    """Make the rows of queues that are used for the first time."""
    execute(statement("make_queues"), {"names": sorted(names)})


class Names(NamedTuple):
    """Behind which name and line to look for queues. None: all of them are seen."""

    after: str | None = ""
    after_line: str | None = ""


def make_waiting_queues(execute: Execute, names: Names) -> Names:
    """Make the rows of some queues that have jobs to run; return where to go on."""
    parameters = {**names._asdict(), "limit": BATCH}
    return Names._make(execute(statement("make_waiting_queues"), parameters)[0])
