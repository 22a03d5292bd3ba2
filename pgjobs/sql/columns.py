"""The columns of a new job.

The statements and functions that insert jobs have marks such as `$columns` for the
lists that follow from this table. The buckets of figures are such a list, too, and so
are the sequences of the tables.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

BUCKETS = 28  # of a histogram: see features/desk/counting.py


class Column(NamedTuple):
    """A column of `pgjobs_job` that is filled from one parameter."""

    name: str  # of the column and of the parameter
    type: str  # of the parameter
    # Most calls have the same value for all jobs. Then it is sent once. Other columns
    # are not sent at all if they are NULL in all jobs.
    once: bool = False
    cast: str = ""  # to the column's own type
    # Whether a subscription has it, too, for the jobs of its handler.
    subscribed: bool = False


COLUMNS = (
    Column("task", "text", once=True, subscribed=True),
    Column("args", "text", once=True, cast="::jsonb"),
    Column("kwargs", "text", cast="::jsonb"),
    Column("queue_name", "text", once=True, subscribed=True),
    Column("priority", "smallint", once=True, subscribed=True),
    Column("max_attempts", "smallint", once=True, subscribed=True),
    Column("max_crashes", "smallint", once=True, subscribed=True),
    Column("timeout", "double precision", subscribed=True),
    Column("process_units", "bigint", subscribed=True),
    Column("dependencies", "jsonb"),
    Column("meta", "text", once=True, cast="::jsonb"),
    Column("keep", "text"),
)
# The columns whose values the statements compute.
COMPUTED = ("run_after", "expires_at", "keys")
UNIQUE = ("unique_key", "unique_for", "unique_until")
# The columns that the statements return of each new row. Rows that were inserted
# together may share the values of all but the first two.
RETURNED = (
    "id",
    "turn",
    "status",
    "run_after",
    "expires_at",
    "enqueued_at",
    "waiting_for",
    "line",
)


def array_of(column: Column) -> str:
    return f"%({column.name})s::{column.type}[]"


def parameter_of(column: Column) -> str:
    return f"%({column.name})s::{column.cast[2:] or column.type}"


def value_of(column: Column) -> str:
    """Return the value of one of several jobs.

    An array that is shorter than the others has one value for all.
    """
    value = column.name
    if column.once:
        value = f"coalesce({value}, ({array_of(column)})[1])"
    return value + column.cast


def sums_of(histogram: str) -> str:
    """Return the sum of each bucket of a column of pgjobs_figure."""
    numbers = range(1, BUCKETS + 1)  # a row of SQL may have fewer
    return listed(f"coalesce(sum({histogram}[{number}]), 0)" for number in numbers)


def listed(parts: Iterable[str]) -> str:
    return ", ".join(parts)


# The sequence of a table, and the highest number that a row has.
HIGHEST_ID = (
    "SELECT pg_get_serial_sequence('{0}', 'id')::regclass, (SELECT max(id) FROM {0})"
)
# The tables whose rows are numbered, but for those whose rows bring their numbers along
# when they move, and for parcels, whose rows are gone when their move is over.
NUMBERED = (
    "pgjobs_acknowledgement",
    "pgjobs_answer",
    "pgjobs_attempt",
    "pgjobs_auditentry",
    "pgjobs_codeversion",
    "pgjobs_endedworker",
    "pgjobs_figure",
    "pgjobs_note",
    "pgjobs_override",
    "pgjobs_predecessor",
    "pgjobs_prerequisite",
    "pgjobs_queue",
    "pgjobs_step",
    "pgjobs_subscription",
    "pgjobs_taskdefinition",
    "pgjobs_tick",
    "pgjobs_wait",
    "pgjobs_waitnote",
    "pgjobs_worker",
)
SUBSCRIBED = [column for column in COLUMNS if column.subscribed]
SHARED = [column for column in COLUMNS if column.name != "kwargs"]
DUE = """coalesce(%(run_after)s::timestamptz,
statement_timestamp() + make_interval(secs => %(delay)s::float8))"""
# The value of each column of a single job, by its name.
VALUES = {
    **{column.name: parameter_of(column) for column in COLUMNS},
    "run_after": DUE,
    "expires_at": f"""coalesce(%(expires_at)s::timestamptz,
coalesce({DUE}, statement_timestamp()) + make_interval(secs => %(expires_in)s::float8))
""",
    "keys": "%(keys)s::jsonb -> 0",
}
# The text for each mark.
MARKS = {
    **{name: VALUES[name] for name in COMPUTED[:2]},
    "shared_columns": listed(column.name for column in SHARED),
    "shared_parameters": listed(map(parameter_of, SHARED)),
    "subscribed_columns": listed(column.name for column in SUBSCRIBED),
    "columns": listed(column.name for column in COLUMNS),
    "all_columns": listed([*(column.name for column in COLUMNS), *COMPUTED, *UNIQUE]),
    "returned": listed(RETURNED),
    "shared_returned": listed(RETURNED[2:]),
    "arrays": listed(map(array_of, COLUMNS)),
    "values": listed(map(value_of, COLUMNS)),
    "run_times": sums_of("run_times"),
    "wait_times": sums_of("wait_times"),
    "highest_ids": " UNION ALL ".join(map(HIGHEST_ID.format, NUMBERED)),
}


def filled(text: str) -> str:
    """Fill in the marks. Other names with a dollar are variables of JSON paths."""
    return re.sub(r"\$([a-z]\w*)", lambda name: MARKS.get(name[1], name[0]), text)
