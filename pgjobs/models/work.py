"""The transitions that a worker makes, one statement each.

Every function takes `execute`, which runs a statement on one of the worker's own
connections and returns its rows.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any, NamedTuple

from django.db import connections

from ..conf import settings
from ..sql import statement
from .transitions import announce_finished
from .worker import Worker

Execute = Callable[[str, dict], list[tuple]]
# Runs several statements in one round trip and one transaction.
Together = Callable[[Sequence[tuple[str, dict]]], list[list[tuple]]]

BATCH = 1_000  # rows that one statement of the maintenance touches
LONGEST_LOG = 64_000
MOST_TOO_HEAVY = 100  # jobs that a worker complains of
# The class of the advisory locks that tell which workers live ("pgjw" in ASCII).
LOCK_CLASS = 0x70676A77
# Of one admission: jobs and keys of each kind, and seconds.
MOST_ADMITTED = 250
ADMISSION_SECONDS = 0.02


class ClaimedJob(NamedTuple):
    """What a worker needs to know of a job that it claimed."""

    id: int
    task: str
    args: str  # JSON text: only the slot that runs the job decodes it
    kwargs: str
    queue_name: str
    priority: int
    attempt: int
    failures: int
    max_attempts: int
    crashes: int
    max_crashes: int
    timeout: float | None  # seconds; None: what the task or the settings say
    life: int
    lease_token: int
    enqueued_at: datetime
    is_keyed: bool  # other jobs may wait for its end
    is_tied: bool  # who inserted it knew what it depends on
    turn: int  # its place in line among those of its queue and priority

    @property
    def is_suspect(self) -> bool:
        """Whether one more crash would fail the job, so that it must run alone."""
        return self.crashes + 1 >= self.max_crashes


class Span(NamedTuple):
    """A part of a queue's line of READY jobs: some priorities, from a turn on."""

    queue_name: str
    highest: int
    lowest: int
    first_turn: int


Marks = dict[tuple[str, int], int]  # turns by queue and priority


class HostUnits(NamedTuple):
    """The process units of a worker's host."""

    host: str
    total: int  # that the jobs of all its workers may take at the same time


class HeavyJob(NamedTuple):
    """A job that takes more process units than its worker's host has at all."""

    id: int
    task: str
    queue_name: str
    units: int


class Success(NamedTuple):
    """A job whose task returned."""

    id: int
    lease_token: int
    return_value: str | None  # JSON text


class Completed(NamedTuple):
    """A job whose task recorded its success in its own transaction."""

    id: int
    lease_token: int


class Setback(NamedTuple):
    """A job whose attempt did not succeed, and what its task or worker said of it."""

    id: int
    lease_token: int
    verdict: str  # FAIL, RETRY, SNOOZE, RELEASE, UNKNOWN or CANCEL; see record.sql
    reason: str
    delay: float = 0.0  # seconds before the job may run again
    exception_class: str = ""
    message: str = ""
    traceback: str = ""
    dependencies: dict | None = None  # that the job's row is to have from now on


Outcome = Success | Completed | Setback


def release(job: ClaimedJob, reason: str) -> Setback:
    """Return the outcome of a job that goes back to the queue; nothing failed."""
    return Setback(job.id, job.lease_token, "RELEASE", reason, message=reason)


class Turn(NamedTuple):
    """What one turn brought."""

    recorded: set[int]  # lease tokens of the successes that were stored
    holds_back: bool  # other jobs may wait for the end of one of these
    next_due: float | None  # seconds until a scheduled job may run
    met_suspect: bool  # a job that must run alone stands in line
    # A READY job was passed over: another transaction holds it, or its queue is full.
    met_locked: bool
    met_expired: bool  # jobs came too late to be claimed: they are to be cancelled
    seconds: float  # that the server took to look for jobs
    claimed: list[ClaimedJob]


class Promoted(NamedTuple):
    number: int
    must_admit: bool  # some have to be admitted, or a rate has a token again


class Recorded(NamedTuple):
    lease_token: int
    status: str


class Chores(NamedTuple):
    """What there is to do for all workers."""

    rescue: bool
    admit: bool
    expire: bool
    deliver_late: bool
    next_fire: float | None  # seconds until a schedule has to be looked at
    has_ready: bool  # there are READY jobs, of whatever queue
    next_due: float | None  # seconds until a scheduled job may run


class Position(NamedTuple):
    """Where the next admission goes on: behind which queue, line and link."""

    queue: str = ""
    line: str = ""
    link: int = 0


class Admission(NamedTuple):
    """What an admission brought."""

    admitted: int | None  # jobs that are READY now; None: another worker admits
    ended: list[int]  # ids of the jobs that it ended, because of their predecessors
    has_more: bool  # there is more to do at once
    is_blocked: bool  # other transactions hold rows that it needs
    met_undecided: bool  # a worker has to look for dependencies
    position: Position


class Rescued(NamedTuple):
    id: int
    task: str
    queue_name: str
    status: str
    crashes: int


def turn(
    execute: Execute,
    worker_id: int,
    *,
    successes: Sequence[Success] = (),
    limit: int = 0,
    queues: Iterable[str] | None = None,
    excluded: Iterable[str] = (),
    is_idle: bool = False,
    units: HostUnits | None = None,
    spans: Sequence[Span] | None = None,
) -> Turn:
    """Record successes and claim up to `limit` jobs, in one statement.

    `is_idle`: the worker runs nothing, so a job that must run alone may be claimed.
    `units`: claim only what its host has room for; None: it has for all.
    `spans`: look nowhere else; None: look everywhere. Never with `units`.
    """
    sql, parameters = turn_statement(
        worker_id, successes, limit, queues, excluded, is_idle, units, spans
    )
    return read_turn(execute(sql, parameters))


def admitting_turn(
    together: Together,
    worker_id: int,
    position: Position,
    sweeps: bool,
    *,
    successes: Sequence[Success] = (),
    limit: int = 0,
    queues: Iterable[str] | None = None,
    excluded: Iterable[str] = (),
    **look: Any,
) -> tuple[Turn, Admission]:
    """Record successes, admit jobs that wait, and claim, in one round trip.

    So what the recorded jobs have left goes to the next ones in line, and may be
    claimed at once. See `admit`, and `turn` for the rest of the arguments.
    """
    statements = [
        admit_statement(position, sweeps, limit, queues, excluded),
        turn_statement(worker_id, (), limit, queues, excluded, **look),
    ]
    if successes:
        parameters = success_parameters(worker_id, successes)
        statements.insert(0, (statement("record_successes"), parameters))
    *recording, admitting, claiming = together(statements)
    recorded = {token for rows in recording for (token,) in rows}
    turn = read_turn(claiming)._replace(recorded=recorded)
    return turn, read_admission(admitting)


BEGINNING = Position()


def admit(
    execute: Execute, position: Position = BEGINNING, sweeps: bool = False
) -> Admission:
    """Make jobs READY that wait for nothing any more, a batch.

    `sweeps`: look also at lines that nothing has touched, and links, a batch.
    """
    return read_admission(execute(*admit_statement(position, sweeps)))


def admit_statement(
    position: Position,
    sweeps: bool,
    room: int = 0,
    queues: Iterable[str] | None = None,
    excluded: Iterable[str] = (),
) -> tuple[str, dict]:
    return statement("admit"), {
        "most": MOST_ADMITTED,
        "seconds": ADMISSION_SECONDS,
        "sweeps": sweeps,
        "after_queue": position.queue,
        "after_line": position.line,
        "after_link": position.link,
        "room": room,
        "queues": None if queues is None else list(queues),
        "excluded": list(excluded),
    }


def read_admission(rows: list[tuple]) -> Admission:
    ((admitted, ended, has_more, is_blocked, met_undecided, *position),) = rows
    return Admission(
        admitted,
        ended or [],
        bool(has_more),
        bool(is_blocked),
        bool(met_undecided),
        Position(*position),
    )


def turn_statement(
    worker_id: int,
    successes: Sequence[Success] = (),
    limit: int = 0,
    queues: Iterable[str] | None = None,
    excluded: Iterable[str] = (),
    is_idle: bool = False,
    units: HostUnits | None = None,
    spans: Sequence[Span] | None = None,
) -> tuple[str, dict]:
    return statement("turn", variant="units" if units else "spans" if spans else ""), {
        **success_parameters(worker_id, successes),
        "limit": limit,
        "queues": None if queues is None else list(queues),
        "excluded": list(excluded),
        "is_idle": is_idle,
        **(unit_parameters(units) if units else {}),
        **(span_parameters(spans) if spans else {}),
    }


def success_parameters(worker_id: int, successes: Sequence[Success]) -> dict:
    in_order = sorted(successes)  # by id, as all do who lock several jobs
    ids, lease_tokens, values = zip(*in_order, strict=True) if in_order else ([],) * 3
    return {
        "worker_id": worker_id,
        "ids": array(ids),
        "lease_tokens": array(lease_tokens),
        # Most tasks return nothing.
        "return_values": list(values) if any(values) else None,
    }


def read_turn(rows: list[tuple]) -> Turn:
    claimed = []
    for row in rows:
        if row[7] is None:
            recorded, holds_back, next_due, suspect, locked, expired, seconds = row[:7]
        else:
            claimed.append(ClaimedJob._make(row[7:]))
    claimed.sort(key=attrgetter("turn"))
    claimed.sort(key=attrgetter("priority"), reverse=True)
    return Turn(
        recorded=set(recorded or ()),
        holds_back=bool(holds_back),
        next_due=next_due,
        met_suspect=bool(suspect),
        met_locked=locked,
        met_expired=bool(expired),
        seconds=seconds,
        claimed=claimed,
    )


def unit_parameters(units: HostUnits) -> dict:
    return {**units._asdict(), "patience": settings.UNITS_PATIENCE}


def span_parameters(spans: Sequence[Span]) -> dict:
    names, highest, lowest, first_turns = zip(*spans, strict=True)
    return {
        "names": list(names),
        "highest": array(highest),
        "lowest": array(lowest),
        "first_turns": array(first_turns),
    }


def look_back(execute: Execute, marks: Marks) -> tuple[Marks, float]:
    """Return where READY jobs stand before the marks, and in queues without any.

    And how many seconds the server took to look.
    """
    ((names, priorities, turns, seconds),) = execute(
        statement("look_back"),
        {
            "names": [queue_name for queue_name, _ in marks],
            "priorities": array(priority for _, priority in marks),
            "turns": array(marks.values()),
        },
    )
    if names is None:
        return {}, seconds
    places = zip(names, priorities, strict=True)
    return dict(zip(places, turns, strict=True)), seconds


def too_heavy(
    execute: Execute, total: int, queues: Iterable[str] | None, excluded: Iterable[str]
) -> list[HeavyJob]:
    """Return some READY jobs of these queues that take more units than this total."""
    rows = execute(
        statement("too_heavy"),
        {
            "total": total,
            "queues": None if queues is None else list(queues),
            "excluded": list(excluded),
            "limit": MOST_TOO_HEAVY,
        },
    )
    return [HeavyJob._make(row) for row in rows]


def locked(execute: Execute, worker_id: int, ids: Iterable[int]) -> set[int]:
    """Return the lease tokens of those jobs whose rows another transaction holds."""
    parameters = {"worker_id": worker_id, "ids": array(ids)}
    return {token for (token,) in execute(statement("locked"), parameters)}


def record(
    execute: Execute, worker_id: int, worker_name: str, setbacks: Sequence[Setback]
) -> list[Recorded]:
    """Record attempts that did not succeed; return what became of their jobs."""
    rows = execute(
        statement("record"),
        {
            "worker_id": worker_id,
            "worker_name": worker_name,
            "outcomes": json.dumps([each._asdict() for each in setbacks]),
            "unknown_task_grace": settings.UNKNOWN_TASK_GRACE,
        },
    )
    return [Recorded._make(row) for row in rows]


def recorded_before(execute: Execute, outcomes: Sequence[Outcome]) -> list[Recorded]:
    """Return which outcomes were stored although the answer got lost."""
    rows = execute(
        statement("in_doubt"),
        {
            "ids": array(each.id for each in outcomes),
            "lease_tokens": array(each.lease_token for each in outcomes),
        },
    )
    return [Recorded._make(row) for row in rows]


def orphans(
    execute: Execute, worker_id: int, lease_tokens: Iterable[int]
) -> list[Setback]:
    """Return the releases of jobs that the worker owns without knowing of them."""
    rows = execute(
        statement("orphans"),
        {"worker_id": worker_id, "lease_tokens": array(lease_tokens)},
    )
    reason = "Released: the answer to its claim was lost."
    return [Setback(id, token, "RELEASE", reason, message=reason) for id, token in rows]


def cancel_requests(execute: Execute, worker_id: int) -> list[int]:
    """Return the lease tokens of the worker's jobs that were asked to stop."""
    rows = execute(statement("cancel_requests"), {"worker_id": worker_id})
    return [token for (token,) in rows]


def still_owned(database: str, id: int, lease_token: int) -> bool:
    """Whether the job still belongs to who claimed it; asked on Django's connection."""
    with connections[database].cursor() as cursor:
        cursor.execute(statement("still_owned"), {"id": id, "lease_token": lease_token})
        return cursor.fetchone()[0]


def promote(execute: Execute) -> Promoted:
    """Let the jobs go whose time has come, a batch."""
    return Promoted._make(execute(statement("promote"), {"limit": BATCH})[0])


def expire(execute: Execute) -> list[int]:
    """Cancel a batch of the jobs that were not started in time; return their ids."""
    return [id for (id,) in execute(statement("expire"), {"limit": BATCH})]


def chores(execute: Execute, worker_id: int, looks: bool) -> Chores:
    """Return what there is to do for all; `looks`: look for READY jobs, too."""
    parameters = {"worker_id": worker_id, "looks": looks}
    return Chores._make(execute(statement("chores"), parameters)[0])


def rescue(execute: Execute, worker_id: int) -> list[Rescued]:
    """Take back a batch of the jobs whose worker is dead."""
    rows = execute(
        statement("rescue"),
        {"worker_id": worker_id, "lock_class": LOCK_CLASS, "limit": BATCH},
    )
    return [Rescued._make(row) for row in rows]


def prune(execute: Execute, ages: dict[str, float | None]) -> int:
    """Delete a batch of the jobs finished longer ago than their status's age."""
    limited = {status: age for status, age in ages.items() if age is not None}
    if not limited:
        return 0
    rows = execute(
        statement("prune"),
        {
            "statuses": list(limited),
            "ages": [float(age) for age in limited.values()],
            "limit": BATCH,
        },
    )
    return rows[0][0]


def forget_rates(execute: Execute) -> None:
    """Delete a batch of the rates that nothing has to remember."""
    execute(statement("forget_rates"), {"limit": BATCH})


def make_queues(execute: Execute, names: Iterable[str]) -> None:
    """Make the rows of queues that are used for the first time."""
    execute(statement("make_queues"), {"names": sorted(names)})


def report(execute: Execute, worker_id: int, reports: Sequence[dict]) -> set[int]:
    """Store progress and log lines of running jobs; return the ids of those jobs."""
    rows = execute(
        statement("report"),
        {
            "worker_id": worker_id,
            "reports": json.dumps(reports),
            "longest_log": LONGEST_LOG,
        },
    )
    return {id for (id,) in rows}


def array(numbers: Iterable[int]) -> str:
    """Return an array literal: unlike a list's, its type is always the same."""
    return "{" + ",".join(map(str, numbers)) + "}"


def claim(model, database: str, worker: Worker, limit: int, queues) -> list:
    """Claim jobs for a worker on Django's connection; return them as instances."""

    def execute(sql: str, parameters: dict) -> list[tuple]:
        with connections[database].cursor() as cursor:
            cursor.execute(sql, parameters)
            return cursor.fetchall()

    units = None if worker.units is None else HostUnits(worker.host, worker.units)
    brought = turn(
        execute, worker.pk, limit=limit, queues=queues, is_idle=True, units=units
    )
    if brought.met_expired:
        announce_finished(model, database, expire(execute))
    jobs = model.objects.using(database).in_bulk([job.id for job in brought.claimed])
    return [jobs[job.id] for job in brought.claimed]
