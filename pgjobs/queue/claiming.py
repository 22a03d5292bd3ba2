"""Claiming: one statement that records successes and claims jobs."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from ..conf import settings
from ..sql import statement
from .acts import announce_finished
from .recording import Success, success_parameters
from .statements import Execute, array, execute_on
from .upkeep import expire

if TYPE_CHECKING:
    from ..models import Job


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
    skips_expired: bool = False,
) -> Turn:
    """Record successes and claim up to `limit` jobs, in one statement.

    `is_idle`: the worker runs nothing, so a job that must run alone may be claimed.
    `units`: claim only what its host has room for; None: it has for all.
    `spans`: look nowhere else; None: look everywhere. Never with `units`.
    `skips_expired`: without those that come too late. Not with `units` or `spans`.
    """
    sql, parameters = turn_statement(
        worker_id,
        successes,
        limit,
        queues,
        excluded,
        is_idle,
        units,
        spans,
        skips_expired,
    )
    return read_turn(execute(sql, parameters))


def turn_statement(
    worker_id: int,
    successes: Sequence[Success] = (),
    limit: int = 0,
    queues: Iterable[str] | None = None,
    excluded: Iterable[str] = (),
    is_idle: bool = False,
    units: HostUnits | None = None,
    spans: Sequence[Span] | None = None,
    skips_expired: bool = False,
) -> tuple[str, dict]:
    variant = "units" if units else "skips" if skips_expired else ""
    return statement("turn", variant or ("spans" if spans else "")), {
        **success_parameters(worker_id, successes),
        "limit": limit,
        "queues": None if queues is None else list(queues),
        "excluded": list(excluded),
        "is_idle": is_idle,
        **(unit_parameters(units) if units else {}),
        **(span_parameters(spans) if spans else {}),
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


def claim(
    model: "type[Job]",
    database: str,
    worker: Any,  # one of the model
    limit: int,
    queues: Iterable[str] | None,
) -> "list[Job]":
    """Claim jobs for a worker on Django's connection; return them as instances."""
    execute = execute_on(database)
    units = None if worker.units is None else HostUnits(worker.host, worker.units)
    brought = turn(
        execute, worker.pk, limit=limit, queues=queues, is_idle=True, units=units
    )
    if brought.met_expired:
        announce_finished(model, database, expire(execute))
    jobs = model.objects.using(database).in_bulk([job.id for job in brought.claimed])
    return [jobs[job.id] for job in brought.claimed]
