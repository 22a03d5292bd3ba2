"""What the checker judges by: versions of jobs in commit order, journals, faults."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from typing import Any, NamedTuple

from chaos.journal import Transaction

FINISHED = ("SUCCESSFUL", "FAILED", "CANCELLED")
QUEUED = ("READY", "SCHEDULED", "WAITING")
EVERYBODY = "everybody"  # whom some faults meet
PRUNER = "chaos:pruner"  # a session that deletes what has ended
POISON = "chaos:poison"  # a session that inserts rows like no job


class Version(NamedTuple):
    """A job as one statement left it; the columns are those of the audit."""

    job_id: int
    status: str
    seq: int = 0
    moment: int = 0  # the same for all that one transaction wrote
    transaction: int = 0
    operation: str = "UPDATE"
    actor: str = "pgjobs:loop:a.1"
    began_at: float = 0.0  # the statement
    at: float = 0.0
    committed_at: float = 0.0
    task: str = "project.work"
    mark: str | None = None
    queue: str = "default"
    waiting_for: str | None = None
    run_after: Any = None
    attempts: int = 0
    failures: int = 0
    max_attempts: int = 3
    crashes: int = 0
    max_crashes: int = 3
    life: int = 1
    token: int = 0
    worker_id: int | None = None
    cancel_requested_at: Any = None
    finished_at: Any = None
    recorded_attempt: int | None = None
    reason: str = ""
    blocked_by_id: int | None = None
    lock: str | None = None
    is_ordered: bool = True
    limit_key: str | None = None
    max_running: int | None = None
    units: int = 1
    members: int = 1  # jobs of the call of this attempt
    is_companion: bool = False  # it shares the call of another job
    unique_key: str | None = None
    unique_for: str | None = None
    turn: int = 0  # of two jobs in one line the lower one is next
    priority: int = 0
    rate_key: str | None = None
    rate_seconds: float = 0.0  # its period, by `rate_number` jobs
    rate_number: int = 0
    rate_burst: int = 0
    attempted_at: float | None = None  # as the row says: its latest claim
    has_gone_on: bool = False  # as another job, by `continue_as`
    first_id: int | None = None  # which has gone on as this one
    seconds: float = 0.0  # for which its body sleeps
    keep: str | None = None

    @property
    def is_deleted_by_worker(self) -> bool:
        """Whether a worker deleted it, as one whose success need not stay."""
        by_worker = self.actor.startswith("pgjobs:loop:")
        return self.is_gone and by_worker and self.keep == "failed"

    @property
    def is_gone(self) -> bool:
        return self.operation == "DELETE"

    @property
    def is_running(self) -> bool:
        return self.status == "RUNNING" and not self.is_gone

    @property
    def is_finished(self) -> bool:
        return self.status in FINISHED and not self.is_gone

    @property
    def is_unfinished(self) -> bool:
        return self.status not in FINISHED and not self.is_gone


class WorkerRow(NamedTuple):
    """A worker that registered, or whose row went."""

    operation: str
    id: int
    name: str
    pid: int
    slots: int
    at: float
    queues: str = ""  # with commas between; all, if it is empty

    def serves(self, queue: str) -> bool:
        return not self.queues or queue in self.queues.split(",")

    def __str__(self) -> str:
        return f"{self.name} ({self.id})"


class Pause(NamedTuple):
    name: str
    is_paused: bool
    at: float


class EffectRow(NamedTuple):
    job_id: int
    life: int
    attempt: int
    what: str
    at: float = 0.0


class GiftRow(NamedTuple):
    """What was given to the job of a mark that waits: its kind, a space, its value."""

    mark: str
    value: str
    at: float = 0.0


class TickRow(NamedTuple):
    """A moment at which a schedule fired; `every` in seconds."""

    schedule: str
    task: str
    time: float
    job_id: int | None
    every: float
    next_run_at: float
    overlap: str = "allow"


class MoveRow(NamedTuple):
    """A schedule that was due at `begin`, and is due at `end` from now on."""

    schedule: str
    every: float
    overlap: str
    begin: float
    end: float


class DeliveryRow(NamedTuple):
    """An event, with one of its deliveries, or none."""

    event_id: int
    mark: str
    task: str | None
    job_id: int | None


class FaultRow(NamedTuple):
    kind: str
    began_at: float
    ended_at: float
    target: str = EVERYBODY
    pids: tuple[int, ...] = ()
    met: tuple[tuple[int, int], ...] = ()
    has_met_start: bool = False
    skipped: str = ""


class Rules(NamedTuple):
    """What the project's settings promised."""

    poll: float = 1.0
    heartbeat: float = 1.0
    lease: float = 6.0
    units: int = 100
    narrow: int = 2  # jobs of the queue "narrow" at a time
    prefetching: str = "epsilon"  # whose workers may prefetch jobs
    most_prefetched: int = 500


class Period(NamedTuple):
    """A time in which a job was like this; `end` is the version that ended it."""

    begin: Version
    end: Version | None


def with_ends(versions: Iterable[Version]) -> Iterator[Version]:
    """Yield versions, with the successes that a worker deletes in place of storing."""
    for version in versions:
        if version.is_deleted_by_worker and version.status == "RUNNING":
            version = version._replace(status="SUCCESSFUL", finished_at=version.at)
            yield version._replace(operation="UPDATE", worker_id=None)
        yield version


@dataclass
class Evidence:
    versions: list[Version]
    transactions: list[Transaction] = field(default_factory=list)
    effects: list[EffectRow] = field(default_factory=list)
    gifts: list[GiftRow] = field(default_factory=list)
    workers: list[WorkerRow] = field(default_factory=list)
    pauses: list[Pause] = field(default_factory=list)
    ticks: list[TickRow] = field(default_factory=list)
    moves: list[MoveRow] = field(default_factory=list)
    deliveries: list[DeliveryRow] = field(default_factory=list)
    faults: list[FaultRow] = field(default_factory=list)
    subscribers: tuple[str, ...] = ()
    schedules: tuple[str, ...] = ()
    rules: Rules = field(default_factory=Rules)
    ended_at: float = 0.0

    @cached_property
    def by_job(self) -> dict[int, list[Version]]:
        """The versions of each job, in the order of their commits."""
        found = defaultdict(list)
        for version in self.versions:
            found[version.job_id].append(version)
        return dict(found)

    @cached_property
    def honest(self) -> dict[int, list[Version]]:
        """The jobs that were not inserted as poison."""
        return {
            job_id: versions
            for job_id, versions in self.by_job.items()
            if versions[0].actor != POISON
        }

    def moments(self) -> Iterator[list[Version]]:
        """Yield what each transaction changed, each job as it left it."""
        for _, group in groupby(self.versions, lambda version: version.moment):
            yield list({version.job_id: version for version in group}.values())

    def periods(self, job_id: int, condition) -> Iterator[Period]:
        """Yield the times in which a job met a condition."""
        begin = None
        for version in self.by_job[job_id]:
            is_met = condition(version)
            if is_met and begin is None:
                begin = version
            elif not is_met and begin is not None:
                yield Period(begin, version)
                begin = None
        if begin is not None:
            yield Period(begin, None)

    @cached_property
    def worker_names(self) -> dict[int, str]:
        return {worker.id: worker.name for worker in self.workers}

    @cached_property
    def worker_pids(self) -> dict[int, int]:
        return {worker.id: worker.pid for worker in self.workers}

    def faults_of_worker(self, worker_id: int | None) -> list[FaultRow]:
        """Return the faults that met a worker, among them those that met all."""
        pid = self.worker_pids.get(worker_id or 0)
        return [
            fault
            for fault in self.faults
            if not fault.skipped and (fault.target == EVERYBODY or pid in fault.pids)
        ]


class Violation(NamedTuple):
    """What broke a promise, with the jobs whose versions show it."""

    text: str
    job_ids: tuple[int, ...] = ()
