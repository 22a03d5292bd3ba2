"""Schedules whose next run is too far away.

A schedule that fires while the clock of the database is ahead gets its next run by that
clock. Once the clock is right again, it would stand still until then.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from ..sql import statement
from .schedules import DueSchedule
from .statements import Execute

BATCH = 200  # schedules that one statement reads


class Replanned(NamedTuple):
    """What a batch has done."""

    names: Sequence[str]  # of the schedules that got another next run
    after: int  # behind which id to go on; 0 after the last batch


def replan(execute: Execute, after: int = 0) -> Replanned:
    """Plan again what no schedule could have planned; look at a batch behind an id."""
    parameters = {"after": after, "limit": BATCH}
    rows = execute(statement("planned_schedules"), parameters)
    planned = [DueSchedule(*row) for row in rows]
    nearer = [(each, sooner) for each in planned if (sooner := nearer_run(each))]
    names: list[str] = []
    if nearer:
        columns = {
            "ids": [each.id for each, _ in nearer],
            "expected": [each.next_run_at for each, _ in nearer],
            "next_runs": [sooner for _, sooner in nearer],
        }
        names = [name for (name,) in execute(statement("replan"), columns)]
    return Replanned(names, planned[-1].id if len(planned) == BATCH else 0)


def nearer_run(planned: DueSchedule) -> datetime | None:
    """Return the next run of a schedule that is planned too late, and else None.

    The tick after the next one is not too late: the clock may have been a little ahead.
    """
    try:
        if planned.anchor == "end":
            assert planned.every is not None
            first = planned.now + planned.every
            second = first + planned.every
        else:
            timetable = planned.timetable
            first_or_none = timetable.after(planned.now)
            second_or_none = first_or_none and timetable.after(first_or_none)
            if first_or_none is None or second_or_none is None:
                return None
            first, second = first_or_none, second_or_none
    except Exception:  # noqa: BLE001  (it says why when it is due)
        return None
    return first if planned.next_run_at > second else None
