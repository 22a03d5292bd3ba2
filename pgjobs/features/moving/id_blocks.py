"""Blocks of ids: each of several databases numbers its rows in a range of its own.

Then a job keeps its id when it moves to another database, and an id that a log or a
customer names is that of one job only.
"""

from typing import NamedTuple

from ...queue.statements import execute_on

SIZE = 10**12  # ids of a block: a thousand jobs a second for thirty years
MOST_BLOCKS = 9_000  # beyond them JavaScript cannot tell two ids apart
NUMBERED = ("pgjobs_job", "pgjobs_event", "pgjobs_batch", "pgjobs_schedule")
# A sequence that was never used has no last value. Before PostgreSQL 18 it is an error
# to ask for that of one which the role may not read.
LAST = """
SELECT coalesce(CASE
    WHEN has_sequence_privilege(seqrelid, 'USAGE, SELECT')
        THEN pg_sequence_last_value(seqrelid)
END, seqstart)
FROM pg_sequence WHERE seqrelid = pg_get_serial_sequence(%(table)s, 'id')::regclass
"""
# Of the sequences that the role may read. It reads no table.
FIRST_AND_LAST = """
SELECT min(last), max(last) FROM (
    SELECT coalesce(pg_sequence_last_value(seqrelid), seqstart) AS last
    FROM unnest(%(tables)s::text[]) AS numbered (name)
    JOIN pg_sequence ON seqrelid = pg_get_serial_sequence(name, 'id')::regclass
    WHERE has_sequence_privilege(seqrelid, 'USAGE, SELECT')
) AS sequence
"""
RESTART = """
SELECT setval(pg_get_serial_sequence(%(table)s, 'id'), %(last)s)
"""


class Use(NamedTuple):
    """How much of its block a database has used: more than 1 is beyond its end."""

    block: int
    share: float


class SameBlock(Exception):
    """Two databases draw their ids from the same block."""


def block_of(database: str) -> int:
    """Return the number of the block from which the next job gets its id."""
    ((last,),) = execute_on(database)(LAST, {"table": "pgjobs_job"})
    return last // SIZE


def use_of_block(database: str) -> Use:
    """Return the use of the block by the table that has drawn most ids."""
    ((first, last),) = execute_on(database)(FIRST_AND_LAST, {"tables": [*NUMBERED]})
    # A table that is beyond the end is in another block than the others.
    block = (first or 0) // SIZE
    return Use(block, ((last or 0) - block * SIZE) / SIZE)


def begin_block(database: str, number: int) -> None:
    """Let the ids of new rows begin with this block, unless they are in it already."""
    if not 0 <= number <= MOST_BLOCKS:
        raise ValueError(f"A block must be from 0 to {MOST_BLOCKS}, got {number}.")
    execute = execute_on(database)
    for table in NUMBERED:
        ((last,),) = execute(LAST, {"table": table})
        if last // SIZE > number:
            raise ValueError(
                f"The ids of {database!r} are in block {last // SIZE} already, and "
                f"would fall back to {number}."
            )
        if last // SIZE < number:
            execute(RESTART, {"table": table, "last": number * SIZE})


def refuse_same_block(one: str, other: str) -> None:
    """Raise SameBlock if ids of the two databases could be the same."""
    if block_of(one) == block_of(other):
        raise SameBlock(
            f"The databases {one!r} and {other!r} draw their ids from the same block, "
            f"{block_of(one)}. Give the newer one another: "
            f"'manage.py shardids --database {other} --block {block_of(one) + 1}'."
        )
