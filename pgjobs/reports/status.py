"""The state of the queue: counts, ages and workers, without reading finished jobs."""

from dataclasses import dataclass, field
from datetime import datetime

from django.db.models import Count
from django.db.models.functions import Now

from ..base.moments import instant
from ..base.queue_database import database_time
from ..features import entries
from ..models.job import Job
from ..models.job_choices import Status
from ..models.queue import Queue
from ..models.worker import Worker
from .obstacles import described, lines, obstacles
from .pauses import with_person
from .reading import rows_of, rows_with_keys
from .remarks import Remark, Seen
from .units import units_in_use

MOST_COUNTED = 10_000  # finished jobs; "10000+" says enough
MOST_QUEUES = 1_000
QUEUE_STATES = {"most": MOST_COUNTED, "most_queues": MOST_QUEUES, "queues": None}
LINKED = {"most": MOST_COUNTED}

LIVE = (Status.READY, Status.SCHEDULED, Status.WAITING, Status.RUNNING)


@dataclass
class QueueStatus:
    name: str
    ready: int = 0
    scheduled: int = 0
    waiting: int = 0
    running: int = 0
    oldest_ready_seconds: float | None = None
    # Jobs that no admission has looked at, or will, until a worker serves their queue.
    arrived: int = 0
    oldest_arrived_seconds: float | None = None
    paused_seconds: float | None = None
    paused_by: str = ""  # a person; empty if code has paused it
    max_running: int | None = None
    note: str = ""
    id: int | None = None  # None until a worker has claimed from the queue
    # The columns above of which there are more jobs than were counted.
    capped: list[str] = field(default_factory=list)

    def shown(self, status: str) -> str:
        """Return how many jobs there are of a status, as text."""
        number = f"{getattr(self, status):,}"
        return f"{number}+" if status in self.capped else number


@dataclass
class WorkerStatus:
    id: int
    name: str
    queues: str
    slots: int
    running: int
    units: int | None  # of the host, for all its workers
    units_in_use: int  # by the jobs of these workers
    heartbeat_seconds: float
    is_alive: bool
    memory: int | None  # bytes, as the worker measured them; None before its first beat
    wanted: str = ""  # quiet or stop, if operators have said so


@dataclass
class WaitingStatus:
    """Jobs that wait for one lock, limit or rate, or for their predecessors."""

    kind: str  # lock, limit, rate, predecessor or dependency
    key: str  # empty unless it is a lock, limit or rate
    number: int  # at most MOST_COUNTED of obstacles.py
    first: str  # what the first of them waits for, in words
    first_id: int | None = None  # the first of them
    blocker_id: int | None = None  # the job for which it waits


@dataclass
class Overview:
    queues: list[QueueStatus] = field(default_factory=list)
    workers: list[WorkerStatus] = field(default_factory=list)
    waiting: list[WaitingStatus] = field(default_factory=list)  # some of them
    finished: dict[str, int] = field(default_factory=dict)  # MOST_COUNTED at most
    problems: list[str] = field(default_factory=list)
    remarks: list[Remark] = field(default_factory=list)  # and all else to be said


def overview(database: str, seen: Seen | None = None) -> Overview:
    """Return the state of the queue in this database, by what was `seen` already."""
    jobs, seen = Job.objects.using(database), seen or seen_in(database)
    queues = queue_statuses(database, seen.now)
    remarks = [each for look in entries("remarks", "LOOKS") for each in look(seen)]
    return Overview(
        queues=add_known(queues, Queue.objects.using(database), seen.now),
        workers=worker_statuses(jobs, seen.workers, seen.now),
        waiting=waiting_statuses(database, seen.alive),
        finished=dict(rows_of(database, "ended_counts", {"most": MOST_COUNTED})),
        problems=[remark.text for remark in remarks if remark.is_problem],
        remarks=remarks,
    )


def seen_in(database: str) -> Seen:
    """Return the time of the database, and its workers."""
    now = database_time(database)
    workers = list(Worker.objects.using(database).order_by("name", "pk"))
    alive = [worker for worker in workers if instant(worker.lease_until) > now]
    return Seen(database, now, alive, workers)


def queue_statuses(
    database: str, now: datetime, names: list[str] | None = None
) -> list[QueueStatus]:
    """Return the queues that have unfinished jobs, or those of these names."""
    limits = QUEUE_STATES | {"queues": names}
    rows = rows_with_keys(database, "queue_states", limits)
    queues: dict[str, QueueStatus] = {}
    for name, state, number, since, is_capped in rows:
        if names is not None and name not in names:
            continue
        queue = queues.setdefault(name, QueueStatus(name))
        setattr(queue, state.lower(), int(number))
        if is_capped:
            queue.capped.append(state.lower())
        if since is not None:
            column = f"oldest_{state.lower()}_seconds"
            setattr(queue, column, (now - instant(since)).total_seconds())
    return [queues[name] for name in sorted(queues)]


def living_workers(database: str) -> list[Worker]:
    """Return the workers whose lease has not run out."""
    alive = Worker.objects.using(database).filter(lease_until__gt=Now())
    return list(alive)


def waiting_statuses(database: str, alive: list[Worker]) -> list[WaitingStatus]:
    return linked_statuses(database, alive) + [
        WaitingStatus(
            kind=obstacle.waiting_for,
            key=obstacle.key or "",
            number=number,
            first=described(obstacle, alive),
            first_id=obstacle.job_id,
            blocker_id=obstacle.blocker_id,
        )
        for obstacle, number in lines(database)
        if obstacle.waiting_for is not None
    ]


def linked_statuses(database: str, alive: list[Worker]) -> list[WaitingStatus]:
    """Return how many jobs wait for predecessors, and for dependencies."""
    found = rows_with_keys(database, "linked", LINKED)
    now = obstacles(database, [first for _, _, first in found])
    return [
        WaitingStatus(
            kind, "", number, described(now[first], alive), first, now[first].blocker_id
        )
        for kind, number, first in found
        if first in now
    ]


def add_known(found: list[QueueStatus], known, now: datetime) -> list[QueueStatus]:
    """Add what operators decided about the queues.

    Queues without jobs are added if they are paused or limited.
    """
    queues = {queue.name: queue for queue in found}
    for row in with_person(known):
        if row.name not in queues and row.paused_at is None and not row.max_running:
            continue
        queue = queues.setdefault(row.name, QueueStatus(row.name))
        queue.id, queue.max_running, queue.note = row.pk, row.max_running, row.note
        if row.paused_at is not None:
            queue.paused_seconds = (now - instant(row.paused_at)).total_seconds()
            queue.paused_by = row.paused_by
    return [queues[name] for name in sorted(queues)]


def worker_statuses(jobs, workers, now: datetime) -> list[WorkerStatus]:
    rows = jobs.running().values("worker_id").annotate(number=Count("pk"))
    running = {row["worker_id"]: row["number"] for row in rows.order_by()}
    in_use = units_in_use(jobs.db)
    return [
        WorkerStatus(
            id=worker.pk,
            name=worker.name,
            queues=worker.described_queues,
            slots=worker.slots,
            running=running.get(worker.pk, 0),
            units=worker.units,
            units_in_use=in_use[worker.host],
            heartbeat_seconds=(now - instant(worker.heartbeat_at)).total_seconds(),
            is_alive=instant(worker.lease_until) > now,
            memory=worker.memory,
            wanted=worker.wanted,
        )
        for worker in workers
    ]


def capped(number: int) -> str:
    return f"{MOST_COUNTED}+" if number == MOST_COUNTED else str(number)
