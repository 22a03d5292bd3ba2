"""A new job: all values that its INSERT needs, in one flat tuple."""

from collections.abc import Sequence
from datetime import datetime
from operator import itemgetter
from typing import Any, NamedTuple

from ..base.plain_json import dump_checked
from ..sql.columns import COLUMNS


class NewJob(NamedTuple):
    """A job to insert: the values of its columns, or what these are computed from.

    It is a tuple, because often many are made at a time and then turned into arrays.
    Its first fields are those of STORED, in that order.
    """

    task: str
    args: str  # JSON text
    kwargs: str  # JSON text
    queue_name: str = "default"
    priority: int = 0
    max_attempts: int = 3
    max_crashes: int = 3
    timeout: float | None = None
    process_units: int | None = None
    # What must have succeeded before it, and what it provides for others: JSON text.
    dependencies: str | None = None
    # What it takes along from where it is enqueued: JSON text. See meta.py.
    meta: str | None = None
    keep: str | None = None  # all or failed; None leaves it to the setting
    unique_key: str | None = None
    unique_for: str | None = None
    # A moment, or seconds from the insertion.
    run_after: datetime | None = None
    delay: float | None = None
    # A moment, or seconds from when the job could run.
    expires_at: datetime | None = None
    expires_in: float | None = None
    unique_period: float | None = None  # seconds, with unique_for="period"
    # What happens if another job holds its unique key.
    on_conflict: str = "return"
    # The ids of predecessors whose rows may be deleted before this is committed.
    holds: tuple[int, ...] = ()
    # See `Job.keys`: its lock, limit and rate, its predecessors and its batch.
    keys: dict[str, Any] | None = None

    def with_columns(self, columns: dict[str, Any]) -> "NewJob":
        """Return the job with other columns; its keys stay beside new ones."""
        keys = {**(self.keys or {}), **columns.get("keys", {})}
        return self._replace(**columns | {"keys": keys or None})


LARGEST_ARRAY = 20_000_000  # characters; JSONB takes 256 MB
SENT_ONCE = frozenset(column.name for column in COLUMNS if column.once)
# The columns that get a value of NewJob as it is: those of its first fields.
STORED = (*(column.name for column in COLUMNS), "unique_key", "unique_for")
# What a row has that names nothing but its task, in the order of COLUMNS.
OF_TABLE = NewJob("", "[]", "", keep="worker")[: len(COLUMNS)]
TIMES = ("run_after", "delay", "expires_at", "expires_in")
times_of = itemgetter(*map(NewJob._fields.index, TIMES))


def parameters_of_one(job: NewJob) -> dict[str, Any]:
    """Return the parameters of the statement that inserts one job.

    What the table has by itself is not among them. Of the four times all are sent, or
    none: one is computed from others.
    """
    parameters = {
        name: value
        for name, value, default in zip(STORED, job, OF_TABLE, strict=False)
        if value != default
    }
    if job.keys:
        parameters["keys"] = dump_checked([job.keys])
    times = times_of(job)
    if any(each is not None for each in times):
        parameters |= zip(TIMES, times, strict=True)
    return parameters


def are_alike(jobs: Sequence[NewJob]) -> bool:
    """Whether jobs differ in `kwargs` and `keys` alone, and all have keys or none has.

    Both are sent as a JSON array. That of the arguments must not become too large.
    """
    first = jobs[0]
    start, others = first[:2], first[3:-1]
    have_keys = bool(first.keys)
    return sum(len(job.kwargs) for job in jobs) <= LARGEST_ARRAY and all(
        job[3:-1] == others and job[:2] == start and bool(job[-1]) is have_keys
        for job in jobs
    )


def parameters_of_alike(jobs: Sequence[NewJob]) -> dict[str, Any]:
    """Return the parameters of the statement that inserts jobs which are alike."""
    keys = [job.keys for job in jobs] if jobs[0].keys else None
    return {
        **jobs[0]._asdict(),
        "all_kwargs": f"[{','.join([job.kwargs for job in jobs])}]",
        "keys": dump_checked(keys) if keys else None,
    }


def parameters_of(jobs: Sequence[NewJob]) -> dict[str, Any]:
    """Return the jobs to insert as one array for each column.

    Sending a value takes longer than inserting it. So an array has only one value if
    all are equal and the column is sent once, and NULL stands for an array of NULLs.
    """
    columns = dict(zip(NewJob._fields, map(list, zip(*jobs, strict=True)), strict=True))
    keys = columns.pop("keys")
    return {
        **{name: shortest(name, values) for name, values in columns.items()},
        "keys": dump_checked([key or None for key in keys]) if any(keys) else None,
    }


def shortest(name: str, values: list) -> list | None:
    if values.count(None) == len(values):
        return None
    first = values[:1]
    is_one = name in SENT_ONCE and first * len(values) == values
    return first if is_one else values
