"""The columns of a new job that are filled from one parameter each.

The statements that insert jobs have marks such as `$columns` for the lists that follow
from this table. Columns that are computed from several parameters stand in the
statements. The buckets of figures are such a list, too.
"""

from collections.abc import Iterable
from typing import NamedTuple

BUCKETS = 28  # of a histogram: see queue/figures.py


class Column(NamedTuple):
    """A column of `pgjobs_job` that an application fills."""

    name: str  # of the column and of the parameter
    type: str  # of the parameter
    # Most calls have the same value for all jobs. Then it is sent once. Other columns
    # are not sent at all if they are NULL in all jobs.
    once: bool = False
    cast: str = ""  # to the column's own type


COLUMNS = (
    Column("task", "text", once=True),
    Column("args", "text", once=True, cast="::jsonb"),
    Column("kwargs", "text", cast="::jsonb"),
    Column("queue_name", "text", once=True),
    Column("priority", "smallint", once=True),
    Column("max_attempts", "smallint", once=True),
    Column("max_crashes", "smallint", once=True),
    Column("timeout", "double precision"),
    Column("process_units", "bigint"),
    Column("dependencies", "jsonb"),
    Column("meta", "text", once=True, cast="::jsonb"),
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
    return listed(f"sum({histogram}[{number}])" for number in range(1, BUCKETS + 1))


def listed(parts: Iterable[str]) -> str:
    return ", ".join(parts)


SHARED = [column for column in COLUMNS if column.name != "kwargs"]
# The text for each mark.
MARKS = {
    "shared_columns": listed(column.name for column in SHARED),
    "shared_parameters": listed(map(parameter_of, SHARED)),
    "columns": listed(column.name for column in COLUMNS),
    "parameters": listed(map(parameter_of, COLUMNS)),
    "arrays": listed(map(array_of, COLUMNS)),
    "values": listed(map(value_of, COLUMNS)),
    "run_times": sums_of("run_times"),
    "wait_times": sums_of("wait_times"),
}
