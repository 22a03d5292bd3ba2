"""Schedules: which are due, which of their ticks get jobs, and the jobs.

The functions that take `execute` run statements on one of the worker's own
connections. `fire` does so inside a transaction of the caller's.
"""

import logging
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db import connections

from ...base.moments import instant
from ...base.plain_json import dump
from ...base.texts import in_a_log
from ...queue.inserting import insert_free
from ...queue.new_job import NewJob
from ...queue.statements import Execute
from ...sql import statement
from .timetable import Timetable

logger = logging.getLogger("pgjobs.schedules")

BATCH = 200  # schedules that one transaction fires, or one statement plans again
MOST_AWAITING = 1_000  # schedules that wait for the end of their run
LONGEST_ERROR = 1_000
MOST_CAUGHT_UP = 1_000  # missed ticks for which catch_up="all" makes jobs at a time
PUNCTUAL = timedelta(seconds=60)  # a tick fired later counts as missed

# How long to wait for a job that is not committed yet and has the same unique key.
SHORT_WAIT = "SET LOCAL lock_timeout = '10ms'"
INSERT_TICK = """
INSERT INTO pgjobs_tick (schedule_id, time)
VALUES (%(schedule)s, clock_timestamp()) RETURNING id
"""


class DueSchedule(NamedTuple):
    """A due schedule, as the worker has read it."""

    id: int
    name: str
    every: timedelta | None
    cron: str
    timezone: str
    origin: datetime
    start: datetime | None
    end: datetime | None
    anchor: str
    overlap: str
    catch_up: str
    next_run_at: datetime
    is_unfinished: bool  # its last run
    now: datetime  # by the clock of the database
    last_job_id: int | None = None

    @property
    def timetable(self) -> Timetable:
        return Timetable(
            every=self.every,
            cron=self.cron,
            timezone=self.timezone,
            origin=self.origin,
            start=self.start,
            end=self.end,
        )


class Plan(NamedTuple):
    """The next state of a due schedule, and its ticks that get jobs."""

    id: int
    expected: datetime  # its next run before this plan
    next_run_at: datetime | None
    ticks: Sequence[datetime] = ()  # the ticks that get a job
    skips: int = 0
    error: str = ""
    after: int | None = None  # the job whose end those of the ticks wait for


class NextFire(NamedTuple):
    """When the next schedule is due, as far as it is known."""

    seconds: float | None  # from now. None if no schedule will be due.
    after: int | None  # behind which id to go on. None after the last part.


class Fired(NamedTuple):
    """A tick of a schedule that this worker has won.

    Without a tick the schedule was only moved on.
    """

    schedule_id: int
    tick_id: int | None
    task: str
    args: str
    kwargs: str
    jitter: float  # seconds
    name: str  # of the schedule


class Replanned(NamedTuple):
    """What a batch of `replan` has done."""

    names: Sequence[str]  # of the schedules that got another next run
    after: int  # behind which id to go on; 0 after the last batch


def arguments_of(execute: Execute, id: int) -> tuple[str, str, str] | None:
    """Return the task and the arguments of a schedule, if there still is one."""
    rows = execute(statement("arguments_of_schedule"), {"id": id})
    return rows[0] if rows else None


def next_fire(execute: Execute, after: int = 0) -> NextFire:
    """Return when the next schedule is due.

    Of the schedules that count from the end of their run, a batch behind this id is
    looked at.
    """
    parameters = {"after": after, "limit": MOST_AWAITING}
    return NextFire._make(execute(statement("next_fire"), parameters)[0])


def due_schedules(execute: Execute) -> list[DueSchedule]:
    """Return a batch of the schedules that are due."""
    rows = execute(statement("due_schedules"), {"limit": BATCH})
    return [DueSchedule(*row) for row in rows]


def plan(due: DueSchedule) -> Plan:
    """Decide which ticks get a job, and when the schedule is due again."""
    try:
        return plan_from_end(due) if due.anchor == "end" else plan_fixed(due)
    except Exception as error:
        # SQL has stored an unknown time zone or a wrong cron expression.
        logger.exception("Schedule name=%s cannot fire", in_a_log(due.name))
        return Plan(due.id, due.next_run_at, None, error=cannot_fire(error))


def plan_fixed(due: DueSchedule) -> Plan:
    timetable = due.timetable
    next_run_at = timetable.after(due.now)
    passed = timetable.latest(due.next_run_at, due.now, MOST_CAUGHT_UP) or [
        due.next_run_at
    ]
    ticks = passed if due.catch_up == "all" else passed[-1:]
    if due.is_unfinished and due.overlap == "skip":
        # While workers live, one tick passes at a time, and a worker sees it in time.
        # Otherwise ticks were missed, and the last run began before them: its worker is
        # gone, or none has begun it.
        is_punctual = len(passed) == 1 and not is_late(due, passed[-1])
        if is_punctual or due.catch_up == "none":
            return Plan(due.id, due.next_run_at, next_run_at, skips=len(passed))
        return Plan(due.id, due.next_run_at, next_run_at, ticks, after=due.last_job_id)
    if is_missed(due, passed[-1]):
        return Plan(due.id, due.next_run_at, next_run_at, skips=len(passed))
    return Plan(due.id, due.next_run_at, next_run_at, ticks)


def plan_from_end(due: DueSchedule) -> Plan:
    """Plan a schedule whose next run is known only at the end of this one."""
    assert due.every is not None
    if due.is_unfinished:
        return Plan(due.id, due.next_run_at, None, skips=1)
    if is_missed(due, due.next_run_at):
        return Plan(due.id, due.next_run_at, instant(due.now) + due.every)
    return Plan(due.id, due.next_run_at, None, [due.next_run_at])


def is_missed(due: DueSchedule, tick: datetime) -> bool:
    """Whether the tick is skipped because no worker fired it in time."""
    return due.catch_up == "none" and is_late(due, tick)


def is_late(due: DueSchedule, tick: datetime) -> bool:
    return instant(due.now) - instant(tick) > PUNCTUAL


def fire(
    execute: Execute,
    plans: Sequence[Plan],
    bind: Callable[[Fired], NewJob],
) -> tuple[int, int]:
    """Carry out plans; return how many were won, and how many jobs they made.

    `bind` returns the new job of a tick. Of several workers with the same plan one
    wins. A tick is skipped if another job holds the unique key of its job. Raises
    psycopg's LockNotAvailable while the transaction of that other job is not committed.
    """
    won = [Fired._make(row) for row in execute(statement("fire"), columns(plans))]
    fired = [each for each in won if each.tick_id is not None]
    after = {each.id: each.after for each in plans}
    ids: list[int | None] = []
    if fired:
        new_jobs = [
            behind(after[run.schedule_id], with_name(bind(run), run.name))
            for run in fired
        ]
        if any(new_job.unique_key for new_job in new_jobs):
            execute(SHORT_WAIT, {})
        ids = insert_free(execute, new_jobs)
        ticks = [run.tick_id for run in fired]
        execute(statement("link_ticks"), {"ticks": ticks, "jobs": ids})
    made = [id for id in ids if id is not None]
    return len({each.schedule_id for each in won}), len(made)


def with_name(new_job: NewJob, name: str) -> NewJob:
    """Return a new job that says in its `meta` which schedule made it."""
    return new_job._replace(meta=dump({"schedule": name}))


def behind(job_id: int | None, new_job: NewJob) -> NewJob:
    """Return a new job that waits for the end of another one, if there is one."""
    if job_id is None:
        return new_job
    keys = {**(new_job.keys or {}), "after": [job_id], "needs": "end"}
    return new_job._replace(keys=keys)


def store_run(database: str, schedule_id: int, job_id: int) -> None:
    """Note, in the caller's transaction, a run that a person has asked for."""
    with connections[database].cursor() as cursor:
        cursor.execute(INSERT_TICK, {"schedule": schedule_id})
        parameters = {"ticks": [cursor.fetchone()[0]], "jobs": [job_id]}
        cursor.execute(statement("link_ticks"), parameters)


def columns(plans: Sequence[Plan]) -> dict[str, list]:
    ticks = [(each.id, tick) for each in plans for tick in each.ticks]
    return {
        "ids": [each.id for each in plans],
        "expected": [each.expected for each in plans],
        "next_runs": [each.next_run_at for each in plans],
        "skips": [each.skips for each in plans],
        "errors": [each.error for each in plans],
        "tick_schedules": [id for id, _ in ticks],
        "tick_times": [time for _, time in ticks],
    }


def cannot_fire(error: Exception) -> str:
    """Return the text for a schedule's row about the error that stops it."""
    reason = f"It cannot fire: {type(error).__name__}: {error}"
    return reason[:LONGEST_ERROR]


# Schedules whose next run is too far away. A schedule that fires while the clock of the
# database is ahead gets its next run by that clock. Once the clock is right again, it
# would stand still until then.


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
