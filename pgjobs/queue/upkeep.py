"""What workers do for all jobs: promote, expire, rescue and prune."""

from collections.abc import Iterable, Sequence
from functools import cache, partial
from typing import NamedTuple

from ..sql import statement
from .references import sparing_referred
from .slices import OLDEST, Position, Slice, read_slice, sum_of_slices
from .statements import Execute, array

# The class of the advisory locks that living workers hold ("pgjw" in ASCII).
LOCK_CLASS = 0x70676A77
BATCH = 1_000  # rows that one statement touches
NO_QUESTION = "NULL /*questions*/"  # stands for those that the survey asks


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

    # By chore: the seconds until then, or None if nothing is known.
    answers: dict[str, float | None]
    has_ready: bool  # there are READY jobs in any queue
    next_due: float | None  # seconds until a scheduled job may run
    next_death_in: float | None  # seconds until a worker without its lock is dead


class Rescued(NamedTuple):
    id: int
    task: str
    queue_name: str
    status: str
    crashes: int


def promote(execute: Execute, batch: Batch = ALL_DUE) -> Promoted:
    """Make a batch of jobs READY whose time has come."""
    return Promoted._make(execute(statement("promote"), batch.parameters())[0])


def expire(execute: Execute, batch: Batch = ALL_DUE) -> list[int]:
    """Cancel a batch of the jobs that were not started in time; return their ids."""
    return [id for (id,) in execute(statement("expire"), batch.parameters())]


@cache
def survey(questions: tuple[str, ...]) -> str:
    """Return the statement that asks these questions."""
    return statement("chores").replace(NO_QUESTION, ",\n".join(questions))


def chores(
    execute: Execute,
    questions: dict[str, str],
    worker_id: int,
    with_ready: bool,
    leads_for: float,
) -> Chores:
    """Return which chores have something to do.

    - `questions`: what to ask for, by chore. The answers are seconds.
    - `with_ready`: ask for READY jobs, too.
    - `leads_for`: seconds for which the other workers leave the upkeep to this one.
    """
    parameters = {
        "worker_id": worker_id,
        "with_ready": with_ready,
        "leads_for": leads_for,
    }
    text = survey(tuple(questions.values()))
    answers, *others = execute(text, parameters)[0]
    return Chores(dict(zip(questions, answers, strict=True)), *others)


def resign(execute: Execute, worker_id: int) -> None:
    """Leave the upkeep to another worker, if the others have left it to this one."""
    execute(statement("resign"), {"worker_id": worker_id})


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
        number = sum(prune_status(execute, *aged) for aged in limited.items())
        total += number
    return total


def prune_status(execute: Execute, status: str, age: float) -> int:
    return sum_of_slices(partial(prune_slice, execute, status, age))


def prune_slice(
    execute: Execute,
    status: str,
    age: float,
    position: Position = OLDEST,
    batch: Batch = ALL_DUE,
) -> Slice:
    """Look at a batch of the old jobs of a status; delete those that nothing needs."""
    text = sparing_referred(execute, "prune", "pgjobs_job", "job")
    parameters = {"status": status, "age": age, **position._asdict()}
    return read_slice(execute(text, {**parameters, **batch.parameters()}), position)


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


def candidates(execute: Execute, kind: str, batch: Batch, **parameters) -> list[int]:
    """Return the ids of jobs on which a statement of the upkeep may have failed."""
    text = statement(f"candidates_of_{kind}")
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
