"""Where a claim looks for jobs."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from .statements import array

HIGHEST_PRIORITY, LOWEST_PRIORITY = 100, -100
# How many jobs to spare a look lists. Few at first, because each costs time.
SPARE, MANY_SPARE = 2, 40
REACH_GROWTH = 4
LONGEST_REACH = 1_000_000
OVERDUE_SECONDS = 1.0  # a look at cursors does not report jobs due for longer
EVER = 1e9  # seconds


class Range(NamedTuple):
    """A part of the line of READY jobs: some priorities, and some of their turns."""

    highest: int
    lowest: int
    first_turn: int
    last_turn: int | None = None  # of one priority alone. None: no end.


EVERYWHERE = (Range(HIGHEST_PRIORITY, LOWEST_PRIORITY, 0),)


class Look(NamedTuple):
    """How a claim looks for jobs: along the line, or into each queue that it serves."""

    reach: int  # length of the longest list of jobs
    by_queue: bool = False
    ranges: Sequence[Range] = EVERYWHERE  # only along the line
    is_long: bool = False  # along the line, with many jobs to spare
    is_plain: bool = False  # for plain jobs alone, while looks by queue fail
    is_part: bool = False  # of several looks that are as good as a complete one
    sees_overdue: bool = False  # it reports scheduled jobs, however long they are due

    @property
    def is_along_line(self) -> bool:
        """Whether its statement also records successes, and may claim ahead."""
        return not (self.by_queue or self.is_plain)

    @property
    def is_complete(self) -> bool:
        """Whether the look sees all READY jobs unless it says that there are more."""
        return self.by_queue or (self.is_along_line and self.ranges is EVERYWHERE)

    def further(self) -> "Look":
        """Return the look that follows one that was cut short."""
        if self.by_queue:
            longer = min(self.reach * REACH_GROWTH, max(self.reach, LONGEST_REACH))
            return self._replace(reach=longer)
        if self.is_long:
            return Look(self.reach, by_queue=True)
        return self._replace(reach=self.reach + MANY_SPARE, is_long=True)


def first_look(limit: int, by_queue: bool = False, is_long: bool = False) -> Look:
    """Return a complete look for `limit` jobs."""
    if not limit:
        return Look(0)
    return Look(limit + (MANY_SPARE if is_long else SPARE), by_queue, is_long=is_long)


def plain_look(limit: int) -> Look:
    """Return the look that brings plain jobs, with a statement of its own."""
    return Look(limit + MANY_SPARE, is_plain=True)


def look_parameters(look: Look) -> dict[str, Any]:
    """Return the parameters that tell the statement of a look where to look."""
    sees_overdue = look.is_complete or look.sees_overdue
    parameters: dict[str, Any] = {
        "reach": look.reach,
        "overdue": EVER if sees_overdue else OVERDUE_SECONDS,
    }
    if look.is_along_line:
        # Once for the jobs that no transaction holds, and once for the others.
        highest, lowest, first_turns, last_turns = zip(
            *look.ranges, *look.ranges, strict=True
        )
        number = len(look.ranges)
        parameters |= {
            "are_held": array([False] * number + [True] * number),
            "highest": array(highest),
            "lowest": array(lowest),
            "first_turns": array(first_turns),
        }
        if look.is_part:
            ends = ["NULL" if turn is None else turn for turn in last_turns]
            parameters["last_turns"] = array(ends)
    return parameters
