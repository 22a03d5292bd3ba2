"""Fires schedules, and plans those again that a wrong clock has planned too far ahead.

Every worker does so; the database decides which one wins.
"""

import logging
from collections.abc import Sequence
from time import monotonic

import psycopg

from ...base.database_errors import is_lost, is_of_row
from ...base.texts import in_a_log, storable
from ...conf import settings
from ...tasks.sensitive import hiding_arguments
from ...worker.connections.connection import OwnConnection
from ...worker.slots.outcomes import traceback_text
from ...worker.upkeep.chore import NOTHING, RESCUE_PER_HEARTBEAT, Chore, Effects
from ..encryption.keyring import NoKey
from . import queue
from .declare import bind

logger = logging.getLogger("pgjobs.schedules")

# Until the next look while another transaction holds the schedule; it doubles.
SHORTEST_WAIT = 0.05  # seconds
LONGEST_WAIT = 1.0
REPLAN_SECONDS = 3_600.0
# 0 also if a run has ended from whose end the next one counts.
NEXT_RUN = """
CASE
    WHEN EXISTS (
        SELECT FROM pgjobs_schedule
        WHERE next_run_at IS NULL AND anchor = 'end' AND last_job_id IS NOT NULL
            AND error = '' AND NOT paused AND NOT orphaned
    )
    THEN 0
    ELSE (
        SELECT extract(epoch FROM next_run_at - clock_timestamp())
        FROM pgjobs_schedule
        WHERE next_run_at IS NOT NULL AND NOT paused AND NOT orphaned
        ORDER BY next_run_at LIMIT 1
    )
END
"""


class Scheduler(Chore):
    """Knows when the next schedule is due, and fires those that are."""

    name = "schedules"
    asks = NEXT_RUN
    makes_jobs = True

    def __init__(self) -> None:
        # People edit schedules, so it looks as often as a rescue does.
        super().__init__(settings.HEARTBEAT_INTERVAL * RESCUE_PER_HEARTBEAT)
        self.due = 0.0
        self.wait = SHORTEST_WAIT
        self.after = 0  # the id behind which it goes on to look for ends of runs

    def is_expecting(self, now: float) -> bool:
        return self.is_due(now)

    def run(self, connection: OwnConnection) -> Effects:
        """Fire a batch of what is due."""
        seconds, after = queue.next_fire(connection.execute, self.after)
        self.after = after or 0
        if seconds is None or seconds > 0:
            wait = self.interval if seconds is None else min(seconds, self.interval)
            self.due = monotonic() + (0.0 if self.after else wait)
            return NOTHING
        due = queue.due_schedules(connection.execute)
        won, jobs = fire(connection, [queue.plan(each) for each in due])
        if won:
            self.due, self.wait = monotonic(), SHORTEST_WAIT
        else:
            self.due = monotonic() + self.wait
            self.wait = min(2 * self.wait, LONGEST_WAIT)
        return Effects(ready=jobs > 0)


class Replanning(Chore):
    """Plans schedules again whose next run is too far away."""

    name = "replan"

    def __init__(self) -> None:
        super().__init__(REPLAN_SECONDS)
        self.due = 0.0
        self.after = 0  # the id behind which the next batch begins

    def run(self, connection: OwnConnection) -> Effects:
        replanned = queue.replan(connection.execute, self.after)
        self.after = replanned.after
        for name in replanned.names:
            logger.warning(
                "Schedule name=%s was planned too far ahead, as by a clock that was "
                "wrong, and is planned again",
                name,
            )
        self.done(monotonic(), again_at_once=self.after > 0)
        return NOTHING


CHORES = (Scheduler, Replanning)


def fire(connection: OwnConnection, plans: Sequence[queue.Plan]) -> tuple[int, int]:
    """Fire all in one transaction, or one by one if one of them fails."""
    if not plans:
        return 0, 0
    try:
        with connection.transaction():
            return queue.fire(connection.execute, plans, bind)
    except psycopg.errors.LockNotAvailable:
        return fire_one_by_one(connection, plans) if len(plans) > 1 else (0, 0)
    except NoKey as error:  # another worker may have the key, and fires it
        if len(plans) > 1:
            return fire_one_by_one(connection, plans)
        logger.warning("Schedule id=%s is not fired here: %s", plans[0].id, error)
        return 0, 0
    except Exception as error:
        if is_lost(error):
            raise
        if len(plans) > 1:
            return fire_one_by_one(connection, plans)
        if isinstance(error, psycopg.Error) and not is_of_row(error):
            raise  # all other schedules would fail as well
        return set_apart(connection, plans[0], error)


def set_apart(
    connection: OwnConnection, plan: queue.Plan, error: Exception
) -> tuple[int, int]:
    """Store in the schedule why it cannot be fired, so that it is due no more."""
    arguments = queue.arguments_of(connection.execute, plan.id)
    hide = hiding_arguments(*arguments) if arguments else str
    # As text, because an exception goes to Sentry as it is.
    text = in_a_log(f"\n{traceback_text(error, hide)}".rstrip("\n"))
    logger.error("Schedule id=%s cannot be fired%s", plan.id, text)
    reason = storable(hide(f"It could not be fired: {str(error).strip()}"), 1_000)
    failed = plan._replace(ticks=(), error=reason)
    with connection.transaction():
        return queue.fire(connection.execute, [failed], bind)


def fire_one_by_one(
    connection: OwnConnection, plans: Sequence[queue.Plan]
) -> tuple[int, int]:
    results = [fire(connection, [plan]) for plan in plans]
    return sum(won for won, _ in results), sum(jobs for _, jobs in results)
