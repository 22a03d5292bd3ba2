"""Admission: jobs that wait become READY."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from ..sql import statement
from .claiming import (
    Claimed,
    ClaimedJob,
    Success,
    claim_statement,
    in_claim_order,
    read_claimed,
    success_parameters,
)
from .statements import Execute, Statement, Together

# Limits of one admission: jobs and keys of each kind, and seconds.
MOST_ADMITTED = 250
ADMISSION_SECONDS = 0.02


class Position(NamedTuple):
    """The queue, line and link behind which the next admission goes on."""

    queue: str = ""
    line: str = ""
    link: int = 0


BEGINNING = Position()
NO_WORKER = 0


class Admission(NamedTuple):
    """What an admission did."""

    recorded: set[int]  # lease tokens of the successes that it stored
    admitted: int | None  # jobs that are READY now. None if another worker admits
    ended: list[int]  # ids of the jobs that it ended, because of their predecessors
    has_more: bool  # there is more to do at once
    is_blocked: bool  # other transactions hold rows that it needs
    met_undecided: bool  # a worker must decide about dependencies
    position: Position
    claimed: Sequence[ClaimedJob] = ()  # jobs that it claimed for its worker


def admit_and_claim(
    together: Together,
    worker_id: int,
    position: Position,
    sweeps: bool,
    *,
    successes: Sequence[Success] = (),
    limit: int = 0,
    queues: Iterable[str] | None = None,
    excluded: Iterable[str] = (),
    **how: Any,
) -> tuple[Claimed, Admission]:
    """Record successes, admit jobs that wait, and claim, in one round trip.

    So the keys of the recorded jobs go to the next jobs in line, which the claim may
    take at once. See `admit`, and `record_and_claim` for the other arguments.
    """
    recording = success_parameters(worker_id, successes)
    serving: dict[str, Any] = {"limit": limit, "queues": queues, "excluded": excluded}
    admitted, rows = together(
        [
            admit_statement(position, sweeps, recording, **serving),
            claim_statement(worker_id, **serving, **how),
        ]
    )
    admission = read_admission(admitted)
    return read_claimed(rows)._replace(recorded=admission.recorded), admission


def record_and_admit(
    execute: Execute,
    worker_id: int,
    position: Position,
    sweeps: bool,
    *,
    successes: Sequence[Success] = (),
    claims: bool = False,
    **serving: Any,
) -> Admission:
    """Record successes and admit jobs that wait, without a fetch for READY jobs.

    `claims`: no job is READY, so this may claim jobs as it admits them, up to `limit`.
    """
    recording = success_parameters(worker_id, successes)
    query, parameters = admit_statement(position, sweeps, recording, claims, **serving)
    return read_admission(execute(query, parameters))


def admit(
    execute: Execute, position: Position = BEGINNING, sweeps: bool = False
) -> Admission:
    """Make a batch of jobs READY that wait for nothing any more.

    `sweeps`: look also at a batch of links, and of lines whose keys nothing has freed.
    """
    recording = success_parameters(NO_WORKER, ())
    return read_admission(execute(*admit_statement(position, sweeps, recording)))


def admit_statement(
    position: Position,
    sweeps: bool,
    recording: dict,
    claims: bool = False,
    limit: int = 0,
    queues: Iterable[str] | None = None,
    excluded: Iterable[str] = (),
) -> Statement:
    return statement("admit"), {
        **recording,
        "most": MOST_ADMITTED,
        "seconds": ADMISSION_SECONDS,
        "sweeps": sweeps,
        "after_queue": position.queue,
        "after_line": position.line,
        "after_link": position.link,
        "room": limit,
        "queues": None if queues is None else list(queues),
        "excluded": list(excluded),
        "claims": claims,
    }


def read_admission(rows: list[tuple]) -> Admission:
    ((recorded, admitted, ended, has_more, is_blocked, met_undecided, *rest),) = rows
    *position, claimed = rest
    return Admission(
        set(recorded or ()),
        admitted,
        ended or [],
        bool(has_more),
        bool(is_blocked),
        bool(met_undecided),
        Position(*position),
        in_claim_order([read_job(row) for row in claimed or ()]),
    )


def read_job(values: list) -> ClaimedJob:
    """Return a claimed job that came as JSON, which has no times.

    It names no results, for which it would have had to become READY.
    """
    job = ClaimedJob(*values)
    return job._replace(enqueued_at=datetime.fromisoformat(str(job.enqueued_at)))
