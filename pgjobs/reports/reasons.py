"""Why unfinished jobs do not run, in words, and the page that shows the cause."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, Q
from django.utils.translation import gettext, ngettext

from ..base.moments import instant
from ..base.queue_database import database_time
from ..models.job import Job
from ..models.job_choices import QUEUED, Status
from ..models.queue import Queue
from ..models.worker import Worker
from .obstacles import Obstacle, described, moment, obstacles
from .pauses import with_person
from .remarks import PATIENCE, Remark
from .status import living_workers
from .units import described_shortage, units_in_use

MOST_BEFORE = 1_000  # jobs ahead that are counted


@dataclass
class Situation:
    """What the reasons of several jobs depend on, read once for all."""

    workers: list[Worker]  # alive
    queues: dict[str, Queue]  # of these jobs, by name
    running: dict[str, int]  # jobs of limited queues, by name
    units: dict[str, int]  # in use, by host
    obstacles: dict[int, Obstacle]  # of the waiting jobs
    now: datetime | None  # None if no job is scheduled

    def reason(self, job: Job) -> Remark | None:
        match job.status:
            case "READY":
                return self.queue_reason(job.queue_name) or self.shortage(job)
            case "WAITING":
                return self.obstacle(job)
            case "SCHEDULED" if self.is_late(job):
                text = gettext("was due %(time)s; a worker lets it run in a moment")
                late = Remark(text % {"time": moment(job.run_after)})
                return self.queue_reason(job.queue_name) or late
            case "RUNNING" if all(each.pk != job.worker_id for each in self.workers):
                text = gettext("its worker is lost; another one will rescue the job")
                return Remark(text, "worker")
        return None

    def is_late(self, job: Job) -> bool:
        if job.run_after is None or self.now is None:
            return False
        return instant(job.run_after) < self.now - PATIENCE

    def queue_reason(self, name: str) -> Remark | None:
        """Return what holds back all jobs of a queue."""
        queue = self.queues.get(name)
        if queue and queue.paused_at is not None:
            return Remark(described_pause(queue), "queue", queue.pk)
        if not self.workers:
            text = gettext("no worker is alive: start one with 'manage.py runjobs'")
            return Remark(text, "worker")
        if not any(worker.serves(name) for worker in self.workers):
            text = gettext("no worker serves the queue %(queue)s")
            return Remark(text % {"queue": name}, "worker")
        if queue and queue.max_running and self.running[name] >= queue.max_running:
            text = ngettext(
                "the queue %(queue)s runs %(number)d job already, which is its limit",
                "the queue %(queue)s runs %(number)d jobs already, which is its limit",
                queue.max_running,
            )
            values = {"queue": name, "number": queue.max_running}
            return Remark(text % values, "queue", queue.pk)
        return None

    def shortage(self, job: Job) -> Remark | None:
        if job.process_units is None:
            return None
        text = described_shortage(job, self.workers, self.units)
        return Remark(text, "worker") if text else None

    def obstacle(self, job: Job) -> Remark | None:
        obstacle = self.obstacles.get(job.pk)
        if obstacle is None:
            return None
        if obstacle.waiting_for in ("arrived", "unserved"):
            of_queue = self.queue_reason(job.queue_name)
            if of_queue is not None:
                return of_queue
        text = described(obstacle, self.workers)
        if obstacle.blocker_id is not None:
            return Remark(text, "job", obstacle.blocker_id)
        if obstacle.batch_id is not None:
            return Remark(text, "batch", obstacle.batch_id)
        return Remark(text)


def reasons(database: str, jobs: Iterable[Job]) -> dict[int, Remark]:
    """Return why these jobs do not run, or no longer; others are missing.

    It takes at most six queries, however many jobs there are.
    """
    queued = [job for job in jobs if job.status in (*QUEUED, Status.RUNNING)]
    if not queued:
        return {}
    situation = look(database, queued)
    reasons_by_id = ((job.pk, situation.reason(job)) for job in queued)
    return {id: reason for id, reason in reasons_by_id if reason is not None}


def look(database: str, jobs: list[Job]) -> Situation:
    names = {job.queue_name for job in jobs}
    queues = with_person(Queue.objects.using(database).filter(name__in=names))
    by_name = {queue.name: queue for queue in queues}
    limited = [name for name, queue in by_name.items() if queue.max_running]
    are_heavy = any(job.process_units is not None for job in jobs)
    waiting = [job.pk for job in jobs if job.status == Status.WAITING]
    are_scheduled = any(job.status == Status.SCHEDULED for job in jobs)
    return Situation(
        workers=living_workers(database),
        queues=by_name,
        running=running_jobs(database, limited),
        units=units_in_use(database) if are_heavy else defaultdict(int),
        obstacles=obstacles(database, waiting),
        now=database_time(database) if are_scheduled else None,
    )


def running_jobs(database: str, names: list[str]) -> dict[str, int]:
    """Return how many jobs of each of these queues run."""
    if not names:
        return {}
    running = Job.objects.using(database).running().filter(queue_name__in=names)
    rows = running.order_by().values_list("queue_name").annotate(Count("pk"))
    return dict.fromkeys(names, 0) | dict(rows)


def described_pause(queue: Queue) -> str:
    text = gettext("its queue has been paused since %(time)s")
    if queue.paused_by:
        text = gettext("its queue has been paused since %(time)s by %(person)s")
    text %= {"time": moment(queue.paused_at), "person": queue.paused_by}
    return f"{text} ({queue.note})" if queue.note else text


def turn_of(database: str, job: Job) -> Remark | None:
    """Return what a job without an obstacle waits for: its time, or a slot."""
    if job.status == Status.SCHEDULED:
        text = gettext("waits for its time: %(time)s")
        return Remark(text % {"time": moment(job.run_after)})
    if job.status != Status.READY:
        return None
    of_queue = Job.objects.using(database).ready().filter(queue_name=job.queue_name)
    earlier = of_queue.filter(
        Q(priority__gt=job.priority) | Q(priority=job.priority, turn__lt=job.turn)
    )
    number = earlier.order_by().values("pk")[:MOST_BEFORE].count()
    if number == 0:
        return Remark(gettext("waits for a free slot; it is the next of its queue"))
    text = ngettext(
        "waits for a free slot; %(number)s job of its queue comes first",
        "waits for a free slot; %(number)s jobs of its queue come first",
        number,
    )
    shown = f"{number}+" if number == MOST_BEFORE else number
    return Remark(text % {"number": shown})
