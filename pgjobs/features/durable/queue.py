"""The statements of waits, and of what ends them."""

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from ...base.plain_json import dump
from ...queue.statements import Execute, execute_on
from ...queue.upkeep import ALL_DUE, Batch
from ...queue.waiting import newest_of
from ...sql import statement
from ...tasks.hints import json_data

MOST_FOUND = 1_000  # events that one statement finds
MOST_BEFORE = 10_000  # jobs that are looked at for a circle
MOST_WOKEN = 100  # notes that one statement takes, and waits of an event


class TakenWait(NamedTuple):
    """What a wait has ended with, if it has ended."""

    state: str  # lost, done, open, offered, taken or over: see take_wait.sql
    stored: str | None  # by the step: JSON text
    answer: dict[str, Any] | None  # that is offered
    steps: dict[str, str | None] | None  # that were done before, if they were asked for


def take_wait(
    database: str,
    job_id: int,
    lease_token: int,
    name: str,
    ways: list[dict[str, Any]],
    accepted: int | None = None,
    reads_steps: bool = False,
) -> TakenWait:
    """Take what one of the ways of a wait waits for, if it is there.

    - `accepted`: the id of the answer that may be taken.
    - `reads_steps`: return the results of the steps that were done before, too.
    """
    parameters = {
        "job_id": job_id,
        "lease_token": lease_token,
        "name": name,
        "ways": json.dumps(ways),
        "accepted": accepted,
        "reads_steps": reads_steps,
    }
    (row,) = execute_on(database)(statement("take_wait"), parameters)
    state, stored, answer, steps = row
    return TakenWait(
        state, stored, answer and json.loads(answer), steps and json.loads(steps)
    )


class Woken(NamedTuple):
    """How many jobs were let go on."""

    number: int
    has_more: bool  # there is more to do at once
    are_keyed: bool  # an admission has to decide about some


def wake(execute: Execute) -> Woken:
    """Make jobs READY that may find what they wait for."""
    return Woken._make(execute(statement("wake"), {"limit": MOST_WOKEN})[0])


class FoundEvents(NamedTuple):
    """What a look at events without a note has found."""

    number: int  # at most MOST_FOUND
    further: int | None  # there are older events before this id
    known: str | None  # since when the tasks that wait for events are, as text


def find_awaited(
    execute: Execute, seconds: float, before: int | None = None
) -> FoundEvents:
    """Find events without a note: of the last seconds, and older ones before an id."""
    parameters = {"seconds": seconds, "limit": MOST_FOUND, "before": before}
    return FoundEvents._make(execute(statement("find_awaited"), parameters)[0])


def drop_answer(database: str, id: int) -> None:
    """Delete an answer that the task does not take."""
    execute_on(database)(statement("drop_answer"), {"id": id})


def answer(
    database: str,
    job_id: int,
    life: int | None,
    name: str,
    value: str,
    answered_by: str | None,
) -> bool:
    """Store an answer, JSON text, in the caller's transaction; return if it counts.

    `life`: the only one of the job in which it does. None: any.
    """
    parameters = {
        "job_id": job_id,
        "life": life,
        "name": name,
        "value": value,
        "answered_by": answered_by,
    }
    ((counts,),) = execute_on(database)(statement("answer"), parameters)
    return counts


def mark_step(database: str, job_id: int, name: str, value: str) -> bool:
    """Mark a step as done by hand; return whether that changed anything."""
    parameters = {"id": job_id, "name": name, "value": value}
    ((changed,),) = execute_on(database)(statement("mark_step_done"), parameters)
    return changed


def asked(database: str, job_id: int, name: str) -> dict[str, Any] | None:
    """Return what a job asks by this name now, or None if it does not."""
    rows = execute_on(database)(statement("asked"), {"job_id": job_id, "name": name})
    return json.loads(rows[0][0]) if rows else None


def asked_permissions(database: str) -> list[str]:
    """Return the permissions that open questions ask for, each once."""
    rows = execute_on(database)(statement("asked_permissions"), {})
    return [name for (name,) in rows]


def answerable(database: str, permissions: list[str], most: int) -> list[int]:
    """Return the ids of the oldest open questions that ask for these permissions."""
    parameters = {"permissions": permissions, "limit": most}
    return [id for (id,) in execute_on(database)(statement("answerable"), parameters)]


def link_state(
    database: str, job_id: int, life: int, name: str
) -> tuple[str, int | None, str | None]:
    """Return what the link to an answer leads to: see link_state.sql."""
    parameters = {"job_id": job_id, "life": life, "name": name}
    rows = execute_on(database)(statement("link_state"), parameters)
    return rows[0] if rows else ("gone", None, None)


def answer_faults(
    database: str, schema: dict[str, Any], value: dict[str, Any]
) -> dict[str, str]:
    """Return what is wrong with the fields of an answer, by their names."""
    parameters = {"schema": json.dumps(schema), "value": dump(json_data(value))}
    return dict(execute_on(database)(statement("answer_faults"), parameters))


def refused_jobs(database: str, job_id: int, ids: Iterable[int]) -> list[int]:
    """Return those of these jobs that wait for this one, or for its lock."""
    parameters = {"job_id": job_id, "ids": list(ids), "limit": MOST_BEFORE}
    return [id for (id,) in execute_on(database)(statement("refused_jobs"), parameters)]


def newest(database: str, job_id: int) -> int:
    """Return the id of the job as which a job goes on now, or its own."""
    return newest_of(execute_on(database), job_id)


def first_life(database: str, job_id: int, life: int) -> int:
    """Return the life of which this one has kept steps, or the life itself."""
    parameters = {"job_id": job_id, "life": life}
    ((first,),) = execute_on(database)(statement("first_life"), parameters)
    return first


def seconds_left(database: str, job_id: int) -> float | None:
    """Return the seconds until the deadline of a running job, if it has one."""
    ((seconds,),) = execute_on(database)(statement("seconds_left"), {"id": job_id})
    return seconds


def end_lives(execute: Execute, batch: Batch = ALL_DUE) -> list[int]:
    """Fail a batch of the jobs whose deadline is over; return their ids."""
    return [id for (id,) in execute(statement("end_lives"), batch.parameters())]


def version(database: str, job_id: int) -> int:
    """Return the version of its task with which a job was enqueued."""
    ((found,),) = execute_on(database)(statement("own_version"), {"id": job_id})
    return found
