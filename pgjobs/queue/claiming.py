"""Claiming: one round trip that records successes and claims jobs."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from ..conf import settings
from ..sql import statement
from .acts import announce_finished
from .looks import Look, first_look, look_parameters
from .recording import Success, success_parameters
from .statements import Client, DjangoClient, Statement, array
from .upkeep import expire

if TYPE_CHECKING:
    from ..models import Job


class ClaimedJob(NamedTuple):
    """A claimed job, as far as the worker needs it."""

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
    timeout: float | None  # seconds. None leaves it to the task or the settings.
    life: int
    lease_token: int
    enqueued_at: datetime
    is_keyed: bool  # other jobs may wait for its end
    has_dependencies: bool  # stored with the job; SQL inserts stored none
    turn: int  # its place in line among the jobs of its priority
    meta: str | None = None  # JSON text
    # Seconds from when it could run to the begin of the claim. None: unknown, as for a
    # job that was put back without a delay.
    waited: float | None = None

    @property
    def is_suspect(self) -> bool:
        """Whether one more crash would fail the job. Then it must run alone."""
        return self.crashes + 1 >= self.max_crashes


class HostUnits(NamedTuple):
    """The process units of a worker's host."""

    host: str
    total: int  # for the jobs of all its workers together


class Ahead(NamedTuple):
    """What a claim may take beyond its limit, for slots that will soon be free."""

    most: int  # jobs
    seconds: float  # of the slots, for all jobs that are claimed
    costs: dict[str, float]  # seconds of a slot, by task; no other task may wait


class Claimed(NamedTuple):
    """The results of one round trip."""

    recorded: set[int]  # lease tokens of the successes that were stored
    has_keys: bool  # other jobs may wait for the end of one of them
    next_due: float | None  # seconds until a scheduled job may run
    met_suspect: bool  # a job that must run alone stands in line
    # A READY job was passed over: another transaction holds it, or its queue is full.
    met_locked: bool
    met_expired: bool  # jobs that were not started in time must be cancelled
    has_more: bool  # the look was cut short, so that more jobs may be READY
    seconds: float  # how long the server looked for jobs
    at: datetime  # the end of the look, by the server's clock
    jobs: list[ClaimedJob]
    # The look along the line listed fewer jobs than were wanted, even with those that
    # other transactions hold: jobs that the worker may not claim filled the list.
    is_crowded: bool = False


def record_and_claim(
    client: Client,
    worker_id: int,
    *,
    successes: Sequence[Success] = (),
    limit: int = 0,
    look: Look | None = None,
    worker_name: str | None = None,
    **who: Any,
) -> Claimed:
    """Record successes and claim up to `limit` jobs, in one round trip.

    Without `look`, the claim takes the cheapest one. See `claim_statement` for `who`.
    """
    look = look or first_look(limit)
    if look.is_along_line:
        query, parameters = claim_statement(
            worker_id, successes, limit, look, worker_name=worker_name, **who
        )
        return read_claimed(client.execute(query, parameters))
    statements = [claim_statement(worker_id, (), limit, look, **who)]
    if successes:
        statements.insert(0, record_statement(worker_id, successes, worker_name))
    *recorded, rows = client.together(statements)
    return with_recorded(read_claimed(rows), recorded)


def record_statement(
    worker_id: int, successes: Sequence[Success], worker_name: str | None = None
) -> Statement:
    parameters = success_parameters(worker_id, successes, worker_name)
    return statement("record_successes"), parameters


def claim_statement(
    worker_id: int,
    successes: Sequence[Success] = (),
    limit: int = 0,
    look: Look | None = None,
    *,
    worker_name: str | None = None,
    queues: Iterable[str] | None = None,
    excluded: Iterable[str] = (),
    is_idle: bool = False,
    units: HostUnits | None = None,
    skips_expired: bool = False,
    ahead: Ahead | None = None,
) -> Statement:
    """Return the statement of a look; one along the line also records successes.

    - `worker_name`: stored with the successes.
    - `is_idle`: the worker runs nothing, so it may claim a job that must run alone.
    - `units`: claim only jobs for which the worker's host has room. None means that it
      has room for all. A look along the line counts none.
    - `skips_expired`: do not report jobs that were not started in time, because
      cancelling them fails at present.
    - `ahead`: what may be claimed beyond the limit. Only a look along the line does so.
    """
    look = look or first_look(limit)
    parameters = {
        "worker_id": worker_id,
        "limit": limit,
        "queues": None if queues is None else list(queues),
        "excluded": list(excluded),
        "is_idle": is_idle,
        "skips_expired": skips_expired,
    } | look_parameters(look)
    if not look.is_along_line:
        name = "claim_by_queue" if look.by_queue else "claim_plain"
        return statement(name), parameters | unit_parameters(units)
    parameters |= success_parameters(worker_id, successes, worker_name)
    name = "record_and_claim_part" if look.is_part else "record_and_claim"
    if ahead is not None:
        return statement(f"{name}_ahead"), parameters | {
            "most_ahead": ahead.most,
            "seconds": ahead.seconds,
            "tasks": list(ahead.costs),
            "costs": array(ahead.costs.values()),
        }
    return statement(name), parameters


def unit_parameters(units: HostUnits | None) -> dict:
    host, total = units or (None, None)
    return {"host": host, "total": total, "patience": settings.UNITS_PATIENCE}


def with_recorded(claimed: Claimed, results: Sequence[list[tuple]]) -> Claimed:
    """Add the rows of `record_successes`, if that statement ran before the claim."""
    rows = [row for rows in results for row in rows]
    return claimed._replace(
        recorded={token for token, _ in rows},
        has_keys=any(has_keys for _, has_keys in rows),
    )


def read_claimed(rows: list[tuple]) -> Claimed:
    jobs = []
    for row in rows:
        if row[10] is None:
            recorded, has_keys, next_due, suspect, locked, expired, more = row[:7]
            is_crowded, seconds, at = row[7:10]
        else:
            jobs.append(ClaimedJob._make(row[10:]))
    return Claimed(
        recorded=set(recorded or ()),
        has_keys=bool(has_keys),
        next_due=next_due,
        met_suspect=suspect,
        met_locked=locked,
        met_expired=expired,
        # Nothing may be claimed now behind a job that has to run alone.
        has_more=more and bool(jobs or not suspect),
        seconds=seconds,
        at=at,
        jobs=in_claim_order(jobs),
        is_crowded=is_crowded,
    )


def in_claim_order(jobs: list[ClaimedJob]) -> list[ClaimedJob]:
    jobs.sort(key=attrgetter("turn"))
    jobs.sort(key=attrgetter("priority"), reverse=True)
    return jobs


def claim(
    model: "type[Job]",
    database: str,
    worker: Any,  # an instance of the model
    limit: int,
    queues: Iterable[str] | None,
) -> "list[Job]":
    """Claim jobs for a worker on Django's connection; return them as instances."""
    client = DjangoClient(database)
    units = None if worker.units is None else HostUnits(worker.host, worker.units)
    queues = None if queues is None else list(queues)
    look, has_more = first_look(limit, by_queue=True), True
    jobs: list[ClaimedJob] = []
    while has_more and len(jobs) < limit:
        brought = record_and_claim(
            client,
            worker.pk,
            limit=limit - len(jobs),
            look=look,
            queues=queues,
            is_idle=not jobs,
            units=units,
        )
        if brought.met_expired:
            announce_finished(model, database, expire(client.execute))
        jobs += brought.jobs
        look, has_more = look.further(), brought.has_more
    instances = model.objects.using(database).in_bulk([job.id for job in jobs])
    return [instances[job.id] for job in jobs]
