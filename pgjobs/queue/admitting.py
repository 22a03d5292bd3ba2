"""Admission: jobs that wait become READY."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ..sql import statement
from .claiming import Claimed, claim_statement, read_claimed
from .recording import Success, success_parameters
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
    admitted: int | None  # jobs that are READY now; None: another worker admits
    ended: list[int]  # ids of the jobs that it ended, because of their predecessors
    has_more: bool  # there is more to do at once
    is_blocked: bool  # other transactions hold rows that it needs
    met_undecided: bool  # a worker must decide about dependencies
    position: Position


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


def admit(
    execute: Execute, position: Position = BEGINNING, sweeps: bool = False
) -> Admission:
    """Make a batch of jobs READY that wait for nothing any more.

    `sweeps`: look also at a batch of links, and of lines that nothing has touched.
    """
    recording = success_parameters(NO_WORKER, ())
    return read_admission(execute(*admit_statement(position, sweeps, recording)))


def admit_statement(
    position: Position,
    sweeps: bool,
    recording: dict,
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
    }


def read_admission(rows: list[tuple]) -> Admission:
    ((recorded, admitted, ended, has_more, is_blocked, met_undecided, *position),) = (
        rows
    )
    return Admission(
        set(recorded or ()),
        admitted,
        ended or [],
        bool(has_more),
        bool(is_blocked),
        bool(met_undecided),
        Position(*position),
    )
