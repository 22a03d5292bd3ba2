"""Claiming: one round trip that records successes and claims jobs."""

import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from ..conf import settings
from ..sql import statement
from .acts import announce_finished
from .statements import Client, DjangoClient, Statement, array
from .upkeep import expire

if TYPE_CHECKING:
    from ..models import Job

PRIORITIES = (100, -100)  # the highest and the lowest
# Rows beyond those that are wanted, because others may hold them: how many a fetch by
# queue lists, and one in claim order walks over. To walk costs less than to list, and a
# walk ends as soon as it has enough.
EXTRA = 40
EXTRA_WALK = 2_000
SCAN_GROWTH = 4
LONGEST_SCAN = 1_000_000


class Success(NamedTuple):
    """A job whose task returned."""

    id: int
    lease_token: int
    return_value: str | None  # JSON text


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
    turn: int  # its position among the jobs of its priority
    meta: str | None = None  # JSON text
    # Seconds from when it could run to the begin of the claim. None: unknown, as for a
    # job that was put back without a delay.
    waited: float | None = None
    keep: str | None = None  # see `Job.keep`
    # How jobs ended whose results it gets as arguments: JSON text of a feature.
    results: str | None = None
    # What a job that goes on has done before: JSON text of a feature.
    resumed: str | None = None

    @property
    def call(self) -> Any:
        """The call that it shares with others, if a feature lets jobs share one."""
        return None

    @property
    def is_last_chance(self) -> bool:
        """Whether one more crash would fail the job. Then it must run alone."""
        call = self.call
        return self.crashes + 1 >= self.max_crashes or bool(call and call.runs_alone)


class Range(NamedTuple):
    """A stretch of the claim order: some priorities, from a turn on."""

    highest: int
    lowest: int
    first_turn: int


class Fetch(NamedTuple):
    """How a statement fetches jobs: in claim order, or from each queue served."""

    scan_limit: int  # how many jobs it may walk over, or list
    by_queue: bool = False
    # In claim order, behind cursors. None: from the front.
    ranges: Sequence[Range] | None = None
    # In claim order, past all jobs of paused and limited queues, while fetches by queue
    # fail. Otherwise the first one of them ends the walk.
    skips_special: bool = False
    isolated: int = LONGEST_SCAN  # so many isolated jobs; 0: it passes over all
    # It does not report jobs that were not started in time, because cancelling them
    # fails at present.
    skips_expired: bool = False

    @property
    def is_complete(self) -> bool:
        """Whether the fetch sees all READY jobs unless it says that there are more."""
        return self.ranges is None and not self.skips_special

    def further(self) -> "Fetch":
        """Return the fetch by queue that follows one that was cut short."""
        longer = min(self.scan_limit * SCAN_GROWTH, LONGEST_SCAN)
        longer = max(self.scan_limit, longer)
        return self._replace(scan_limit=longer, by_queue=True)


def first_fetch(limit: int, by_queue: bool = False) -> Fetch:
    """Return a complete fetch for `limit` jobs."""
    if not limit:
        return Fetch(0)
    return Fetch(limit + (EXTRA if by_queue else EXTRA_WALK), by_queue)


def fetch_past() -> Fetch:
    """Return the fetch in claim order that passes all jobs of limited queues."""
    return Fetch(LONGEST_SCAN, skips_special=True)


class HostUnits(NamedTuple):
    """The process units of a worker's host."""

    host: str
    total: int  # for the jobs of all its workers together


class Claimed(NamedTuple):
    """The results of one round trip."""

    recorded: set[int]  # lease tokens of the successes that were stored
    has_keys: bool  # other jobs may wait for the end of one of them
    next_due: float | None  # seconds until a scheduled job may run
    met_last_chance: bool  # a job that must run alone is READY
    # A READY job was passed over: another transaction holds it, or its queue is full.
    met_locked: bool
    met_expired: bool  # jobs that were not started in time must be cancelled
    has_more: bool  # the fetch was cut short, so that more jobs may be READY
    # The fetch in claim order met fewer jobs than were wanted, even with those that
    # other transactions hold: jobs that the worker may not claim have cut it short.
    is_starved: bool
    seconds: float  # how long the server walked in claim order
    ids: Sequence[int]  # of the jobs that a fetch has only locked
    jobs: list[ClaimedJob]


def record_and_claim(
    client: Client,
    worker_id: int,
    *,
    successes: Sequence[Success] = (),
    limit: int = 0,
    fetch: Fetch | None = None,
    worker_name: str | None = None,
    **who: Any,
) -> Claimed:
    """Record successes and claim up to `limit` jobs, in one round trip.

    Without `fetch`, the claim walks in claim order. A fetch by queue that was cut short
    before it brought a job is followed by longer ones. See `claim_statement` for `who`.
    """
    fetch = fetch or first_fetch(limit)
    if not fetch.by_queue:
        query, parameters = claim_statement(
            worker_id, successes, limit, fetch, worker_name=worker_name, **who
        )
        return read_claimed(client.execute(query, parameters))
    statements = [claim_statement(worker_id, (), limit, fetch, **who)]
    if successes:
        statements.insert(0, record_statement(worker_id, successes, worker_name))
    *recorded, rows = client.together(statements)
    claimed = with_recorded(read_claimed(rows), recorded)
    while claimed.has_more and not claimed.jobs and fetch != fetch.further():
        fetch = fetch.further()
        (rows,) = client.together([claim_statement(worker_id, (), limit, fetch, **who)])
        claimed = with_recorded(read_claimed(rows), recorded)
    return claimed


def record_statement(
    worker_id: int, successes: Sequence[Success], worker_name: str | None = None
) -> Statement:
    parameters = success_parameters(worker_id, successes, worker_name)
    return statement("record_successes"), parameters


def claim_statement(
    worker_id: int,
    successes: Sequence[Success] = (),
    limit: int = 0,
    fetch: Fetch | None = None,
    *,
    worker_name: str | None = None,
    queues: Iterable[str] | None = None,
    excluded: Iterable[str] = (),
    is_idle: bool = False,
    units: HostUnits | None = None,
    prefetched: int = 0,
    claims: bool = True,
) -> Statement:
    """Return the statement of a fetch; one in claim order also records successes.

    - `worker_name`: stored with the successes.
    - `is_idle`: the worker runs nothing, so it may claim a job that must run alone.
    - `units`: claim only jobs for which the worker's host has room. None means that it
      has room for all. A fetch in claim order counts none.
    - `prefetched`: how many jobs may be claimed beyond the limit, to wait in the
      worker. Only a fetch in claim order does so.
    - `claims`: whether the jobs are claimed. Otherwise their rows are only locked.
    """
    fetch = fetch or first_fetch(limit)
    parameters = {
        "worker_id": worker_id,
        "limit": limit,
        "queues": None if queues is None else list(queues),
        "excluded": list(excluded),
        "is_idle": is_idle,
        "claims": claims,
    } | fetch_parameters(fetch)
    if fetch.by_queue:
        return statement("claim_by_queue"), parameters | unit_parameters(units)
    parameters |= {"limit": limit + prefetched, "slots": limit}
    parameters |= success_parameters(worker_id, successes, worker_name)
    return statement("record_and_claim"), parameters


def fetch_parameters(fetch: Fetch) -> dict[str, Any]:
    """Return the parameters that say how far a fetch goes, and where it begins."""
    parameters: dict[str, Any] = {
        "scan_limit": fetch.scan_limit,
        "is_complete": fetch.is_complete,
        "isolated": fetch.isolated,
        "skips_expired": fetch.skips_expired,
    }
    if not fetch.by_queue:
        ranges = fetch.ranges or [Range(*PRIORITIES, 0)]
        highest, lowest, first_turns = zip(*ranges, strict=True)
        parameters |= {
            "highest": array(highest),
            "lowest": array(lowest),
            "first_turns": array(first_turns),
            "skips_special": fetch.skips_special,
        }
    return parameters


def success_parameters(
    worker_id: int, successes: Sequence[Success], worker_name: str | None = None
) -> dict:
    # By id, as every statement that locks several jobs does.
    in_order = sorted(successes)
    ids, lease_tokens, values = (
        zip(*in_order, strict=True) if in_order else ((), (), ())
    )
    return {
        "worker_id": worker_id,
        "worker_name": worker_name,
        "ids": array(ids),
        "lease_tokens": array(lease_tokens),
        # Most tasks return nothing.
        "return_values": list(values) if any(values) else None,
    }


def unit_parameters(units: HostUnits | None) -> dict:
    host, total = units or (None, None)
    return {
        "host": host,
        "total": total,
        "patience": settings.UNITS_PATIENCE,
        "beyond": sys.maxsize,  # more units than a job can take
        "behind": PRIORITIES[1] - 1,
    }


def with_recorded(claimed: Claimed, results: Sequence[list[tuple]]) -> Claimed:
    """Add the rows of `record_successes`, if that statement ran before the claim."""
    rows = [row for rows in results for row in rows]
    return claimed._replace(
        recorded={token for token, _ in rows},
        has_keys=any(has_keys for _, has_keys in rows),
    )


def read_claimed(rows: list[tuple]) -> Claimed:
    """Return what the rows say: one sums up the fetch, the others are jobs."""
    width = len(Claimed._fields) - 1
    jobs: list[ClaimedJob] = []
    summary: tuple = ()
    for row in rows:
        if row[width] is None:
            summary = row[:width]
        else:
            jobs.append(ClaimedJob._make(row[width:]))
    claimed = Claimed._make([*summary, in_claim_order(jobs)])
    return claimed._replace(
        recorded=set(claimed.recorded or ()),
        has_keys=bool(claimed.has_keys),
        # Nothing may be claimed now behind a job that has to run alone.
        has_more=claimed.has_more and bool(jobs or not claimed.met_last_chance),
        ids=claimed.ids or (),
    )


def in_claim_order(jobs: list[ClaimedJob]) -> list[ClaimedJob]:
    jobs.sort(key=attrgetter("turn"))
    jobs.sort(key=attrgetter("priority"), reverse=True)
    return jobs


def claim_all(
    client: Client,
    worker_id: int,
    limit: int,
    expired: Callable[[list[int]], None],
    **who: Any,
) -> list[ClaimedJob]:
    """Claim up to `limit` jobs of an idle worker, by fetches into each queue.

    `expired` is called with the ids of jobs that it met and cancelled, because they
    were not started in time.
    """
    jobs: list[ClaimedJob] = []
    has_more = True
    while has_more and len(jobs) < limit:
        left = limit - len(jobs)
        brought = record_and_claim(
            client,
            worker_id,
            limit=left,
            fetch=first_fetch(left, by_queue=True),
            is_idle=not jobs,
            **who,
        )
        if brought.met_expired:
            expired(expire(client.execute))
        jobs += brought.jobs
        has_more = brought.has_more and bool(brought.jobs or brought.met_expired)
    return jobs


def claim(
    model: "type[Job]",
    database: str,
    worker: Any,  # an instance of the model
    limit: int,
    queues: Iterable[str] | None,
) -> "list[Job]":
    """Claim jobs for a worker on Django's connection; return them as instances."""
    jobs = claim_all(
        DjangoClient(database),
        worker.pk,
        limit,
        partial(announce_finished, model, database),
        queues=None if queues is None else list(queues),
        units=None if worker.units is None else HostUnits(worker.host, worker.units),
    )
    instances = model.objects.using(database).in_bulk([job.id for job in jobs])
    return [instances[job.id] for job in jobs]
