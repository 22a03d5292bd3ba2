"""The kinds of remarks about workers, queues and tasks. See `Alert`.

Each statement reads by an index, and no more than a fixed number of rows.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import lru_cache

from django.utils.translation import gettext, ngettext, pgettext

from ...base.moments import instant
from ...conf import positive_seconds, whole_number
from ...models.job import Job
from ...models.queue import Queue
from ...reports.durations import seconds_in_words
from ...reports.reading import rows_of, rows_with_keys
from ...reports.remarks import PATIENCE, REMARK, Alert, Remark, Seen
from ...reports.texts import one_line
from .limits import share

MOST_NAMED = 5  # of a kind; what is beyond gets one sentence
MOST_COUNTED = 1_000
MOST_QUEUES = 1_000  # that are looked at
MOST_READY = 1_000  # jobs
LEAST_ENDED = 10  # jobs of a task, before their failures say anything
LATEST_FAILED = 5_000  # jobs that are looked at
SUSPECTS = 50  # tasks
PLACES = 100  # queues and tasks
LOST_NAMED = 100
NO_WORKER = {"patience": PATIENCE.total_seconds(), "most": MOST_READY}
UNSERVED_QUEUES = {
    "patience": PATIENCE.total_seconds(),
    "most_queues": MOST_QUEUES,
    "most_jobs": MOST_COUNTED,
    "most": MOST_QUEUES,
}


def no_worker(seen: Seen, patience: float) -> Iterable[Remark]:
    """Say that no worker is alive, and how the last one ended."""
    if seen.alive:
        return
    limits = {**NO_WORKER, "patience": patience}
    for name, at, how in rows_with_keys(seen.database, "no_worker", limits):
        if name is None:
            text = gettext("No worker is alive. Start one with: manage.py runjobs")
        else:
            age = (seen.now - instant(at)).total_seconds()
            text = gettext("No worker is alive. The last one, %(name)s, %(end)s.") % {
                "name": one_line(name),
                "end": end_in_words(how, age),
            }
        yield Remark(text, "worker")


def end_in_words(how: str, age: float) -> str:
    """Return how a worker ended, and how long ago."""
    texts = {
        "lost": pgettext("worker", "was lost %(time)s ago"),
        "asked": pgettext("worker", "was asked to stop %(time)s ago"),
        "memory": pgettext("worker", "stopped %(time)s ago, for its memory"),
        "limit": pgettext("worker", "reached its limit %(time)s ago"),
        "drained": pgettext("worker", "had nothing left to do %(time)s ago"),
    }
    text = texts.get(how, pgettext("worker", "ended %(time)s ago"))
    return text % {"time": seconds_in_words(max(age, 0))}


@lru_cache(maxsize=8)
def lost_workers(database: str, now: datetime) -> list[tuple]:
    """Return the workers that were lost in the hour before; two kinds ask for them."""
    return rows_of(database, "lost_workers", {"most": LOST_NAMED})


def workers_lost(seen: Seen, most: int) -> Iterable[Remark]:
    """Say that so many workers were lost in the last hour."""
    lost = lost_workers(seen.database, seen.now)
    if len(lost) >= most:
        yield lost_in_words(lost)


def worker_lost(seen: Seen, _) -> Iterable[Remark]:
    if lost := lost_workers(seen.database, seen.now):
        yield lost_in_words(lost)


def lost_in_words(lost: list[tuple]) -> Remark:
    text = ngettext(
        "%(number)d worker was lost in the last hour: %(names)s.",
        "%(number)d workers were lost in the last hour: %(names)s.",
        len(lost),
    )
    names = [one_line(name) for name, _ in lost[:MOST_NAMED]]
    if len(lost) > MOST_NAMED:
        names.append("...")
    return Remark(text % {"number": len(lost), "names": ", ".join(names)}, "worker")


def failing_tasks(seen: Seen, part: float) -> Iterable[Remark]:
    """Name the tasks of whose jobs a large share failed in the last hour."""
    limits = {
        "share": part,
        "least": LEAST_ENDED,
        "latest": LATEST_FAILED,
        "suspects": SUSPECTS,
        "places": PLACES,
        "most": SUSPECTS,
    }
    rows = rows_of(seen.database, "failing_tasks", limits)
    for task, ended, failed in rows[:MOST_NAMED]:
        text = gettext(
            "Task %(task)s: %(failed)s of %(ended)s jobs that ended in the last hour "
            "have failed (%(share)s)."
        )
        values = {
            "task": one_line(task),
            "failed": f"{failed:,}",
            "ended": f"{ended:,}",
            "share": f"{failed / ended:.0%}",
        }
        filters = {"task": task, "status": "FAILED"}
        yield Remark(text % values, "job", filters=filters, subject=task)
    if (more := len(rows) - MOST_NAMED) > 0:
        text = ngettext(
            "%d more task fails as often.", "%d more tasks fail as often.", more
        )
        yield Remark(text % more, "job", filters={"status": "FAILED"})


def unserved_queues(seen: Seen, patience: float) -> Iterable[Remark]:
    """Name the queues with jobs to run that no worker serves."""
    limits = {**UNSERVED_QUEUES, "patience": patience}
    rows = rows_with_keys(seen.database, "unserved_queues", limits)
    for queue, number, _since in rows[:MOST_NAMED]:
        text = ngettext(
            "Queue %(queue)s has %(number)d job to run, but no worker serves it.",
            "Queue %(queue)s has %(number)d jobs to run, but no worker serves it.",
            number,
        )
        values = {"queue": one_line(queue), "number": number}
        yield Remark(text % values, "worker", subject=queue)
    if (more := len(rows) - MOST_NAMED) > 0:
        text = ngettext(
            "%d more queue has jobs to run, but no worker serves it.",
            "%d more queues have jobs to run, but no worker serves them.",
            more,
        )
        yield Remark(text % more, "queue")


def paused_queues(seen: Seen, longest: float) -> Iterable[Remark]:
    """Name the queues that have been paused for long, the longest first."""
    before = seen.now - timedelta(seconds=longest)
    paused = Queue.objects.using(seen.database).filter(paused_at__lt=before)
    rows = list(paused.order_by("paused_at")[: MOST_COUNTED + 1])
    for queue in rows[:MOST_NAMED]:
        age = (seen.now - instant(queue.paused_at)).total_seconds()
        text = gettext("Queue %(queue)s has been paused for %(time)s.")
        values = {"queue": one_line(queue.name), "time": seconds_in_words(age)}
        note = f" {one_line(queue.note)}" if queue.note else ""
        yield Remark(text % values + note, "queue", queue.pk, subject=queue.name)
    if (more := len(rows) - MOST_NAMED) > 0:
        text = ngettext(
            "%d more queue has been paused for so long.",
            "%d more queues have been paused for so long.",
            more,
        )
        yield Remark(text % more, "queue")


def overdue_jobs(seen: Seen, patience: float) -> Iterable[Remark]:
    before = seen.now - timedelta(seconds=patience)
    overdue = Job.objects.using(seen.database).scheduled().filter(run_after__lt=before)
    if number := overdue.order_by()[:MOST_COUNTED].count():
        text = ngettext(
            "%d scheduled job is overdue: does a worker run?",
            "%d scheduled jobs are overdue: does a worker run?",
            number,
        )
        yield Remark(text % number, "worker")


def expired_jobs(seen: Seen, patience: float) -> Iterable[Remark]:
    before = seen.now - timedelta(seconds=patience)
    jobs = Job.objects.using(seen.database)
    late = jobs.filter(attempts=0, finished_at=None, expires_at__lt=before)
    if number := late.order_by()[:MOST_COUNTED].count():
        text = ngettext(
            "%d expired job is not cancelled: does a worker run?",
            "%d expired jobs are not cancelled: does a worker run?",
            number,
        )
        yield Remark(text % number, "worker")


def orphaned_jobs(seen: Seen, patience: float) -> Iterable[Remark]:
    latest = seen.now - timedelta(seconds=patience)
    known = [each.pk for each in seen.workers if instant(each.lease_until) > latest]
    jobs = Job.objects.using(seen.database)
    orphans = jobs.running().exclude(worker_id__in=known).order_by()
    if number := orphans.values("pk")[:MOST_COUNTED].count():
        text = ngettext(
            "%d running job has a dead worker and waits for its rescue.",
            "%d running jobs have a dead worker and wait for their rescue.",
            number,
        )
        yield Remark(text % number, "job", filters={"status": "RUNNING"})


SECONDS = PATIENCE.total_seconds()

# The first one stands before all others.
ALERTS = (
    Alert(
        "no_worker",
        "No worker has lived for this time, and a job is due or one ended within a "
        "day. Not where the last worker has drained its queues.",
        no_worker,
        value=SECONDS,
        read=positive_seconds,
    ),
    Alert(
        "workers_lost",
        "So many workers were lost in the last hour.",
        workers_lost,
        value=3,
        read=whole_number,
    ),
    Alert(
        "task_fails",
        "Of a task ten jobs or more ended in the last hour, and this share of them "
        "failed.",
        failing_tasks,
        value=0.5,
        read=share,
    ),
    Alert(
        "queue_unserved",
        "A job has waited so long to run, in a queue that no worker serves and that "
        "is not paused.",
        unserved_queues,
        value=SECONDS,
        read=positive_seconds,
    ),
    Alert(
        "jobs_overdue",
        "Jobs are SCHEDULED although they were due so long ago.",
        overdue_jobs,
        value=SECONDS,
        read=positive_seconds,
    ),
    Alert(
        "jobs_expired",
        "Jobs wait although they expired so long ago.",
        expired_jobs,
        value=SECONDS,
        read=positive_seconds,
    ),
    Alert(
        "jobs_orphaned",
        "Jobs are RUNNING although the lease of their worker ended so long ago.",
        orphaned_jobs,
        value=SECONDS,
        read=positive_seconds,
    ),
    Alert(
        "worker_lost",
        "A worker was lost in the last hour.",
        worker_lost,
        level=REMARK,
    ),
    Alert(
        "queue_paused",
        "A queue has been paused for this time.",
        paused_queues,
        level=REMARK,
        value=3_600.0,
        read=positive_seconds,
    ),
)
