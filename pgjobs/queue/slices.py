"""Statements that look at a table slice by slice, in the order of a time and an id."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple


class Position(NamedTuple):
    """The row behind which such a statement continues."""

    after_time: datetime
    after_id: int


OLDEST = Position(datetime.min.replace(tzinfo=UTC), 0)


class Slice(NamedTuple):
    """What such a statement did with a slice of the table."""

    number: int  # of the rows that went, or were counted
    has_more: bool  # rows may follow the slice
    position: Position  # behind the slice


def read_slice(rows: Sequence[tuple], position: Position) -> Slice:
    """Return what a statement that began at this position has done."""
    ((number, has_more, time, id),) = rows
    return Slice(number, has_more, position if id is None else Position(time, id))


def sum_of_slices(look: Callable[[Position], Slice]) -> int:
    """Look at slice after slice, from the oldest row on; return the sum of numbers."""
    total, position, has_more = 0, OLDEST, True
    while has_more:
        number, has_more, position = look(position)
        total += number
    return total
