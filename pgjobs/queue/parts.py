"""Statements that look at a table part by part, in the order of a time and an id."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple


class Position(NamedTuple):
    """The row behind which such a statement continues."""

    after_time: datetime
    after_id: int


OLDEST = Position(datetime.min.replace(tzinfo=UTC), 0)


class Part(NamedTuple):
    """What it did with a part of the table."""

    number: int  # of the rows that went
    has_more: bool  # rows may follow the part
    position: Position  # behind the part


def read_part(rows: Sequence[tuple], position: Position) -> Part:
    """Return what a statement that began at this position has done."""
    ((number, has_more, time, id),) = rows
    return Part(number, has_more, position if id is None else Position(time, id))
