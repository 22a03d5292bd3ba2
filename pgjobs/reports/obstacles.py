"""What waiting jobs wait for at this moment, in words.

`Job.blocked_by_id` is the job that was in the way when this one began to wait. To keep
it true, each end of a job would have to rewrite all jobs that wait.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from django.db import connections
from django.db.models import TextField
from django.db.models.functions import Cast
from django.utils.timezone import now
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from ..base.moments import local
from ..models.job import Job
from ..models.job_choices import WaitingFor
from ..models.worker import Worker
from ..sql import statement
from .reading import VIEW, needs_views, read, rows_with_keys
from .secrets import masked_key
from .task_words import OWN, Known, with_own

MOST_KEYS = 20
MOST_COUNTED = 1_000
LINES = {"keys": MOST_KEYS, "most": MOST_COUNTED}
OBSTACLES = "SELECT * FROM {} WHERE job_id = ANY (%(ids)s::bigint[])"
MAY_READ_ARGUMENTS = """
SELECT has_column_privilege('pgjobs_job', 'kwargs', 'SELECT')
    AND has_column_privilege('pgjobs_job', 'args', 'SELECT')
"""


PAUSED = {
    "task": _("waits because the task %(name)s is paused"),
    "lock": _("waits because its lock is paused"),
    "limit": _("waits because its limit is paused"),
    "rate": _("waits because its rate is paused"),
}


class Obstacle(NamedTuple):
    """The first thing in the way of a job.

    `waiting_for` is None if the obstacle has just gone. It is "arrived" if no admission
    has looked at the job yet. It is "unserved" if none will, because its queue is
    paused or no worker serves it. Anything that a later release knows is as stored.
    """

    job_id: int
    waiting_for: str | None
    opens_at: datetime | None  # when the rate allows a job
    max_running: int | None
    key: str | None
    blocker_id: int | None
    blocker_status: str | None
    blocker_queue: str | None
    blocker_run_after: datetime | None
    batch_id: int | None  # a batch that the job waits for
    links: int  # how many predecessors and batches it waits for


class Line(NamedTuple):
    """The jobs that wait for one key."""

    obstacle: Obstacle  # of the first job
    number: int  # MOST_COUNTED at most


def obstacles(database: str, ids: Iterable[int]) -> dict[int, Obstacle]:
    """Return the obstacle of each of these jobs that waits."""
    ids = list(ids)
    if not ids:
        return {}
    source = (
        f"{VIEW}obstacles"
        if needs_views(database)
        else f"({statement('obstacles')}) AS obstacle"
    )
    with connections[database].cursor() as cursor:
        cursor.execute(OBSTACLES.format(source), {"ids": ids})
        return {row[0]: Obstacle._make(row) for row in cursor.fetchall()}


def lines(database: str) -> list[Line]:
    """Return some of the locks, limits and rates that jobs wait for."""
    numbers = dict(rows_with_keys(database, "lines", LINES))
    found = with_masked_keys(database, obstacles(database, numbers))
    return [Line(found[id], number) for id, number in numbers.items() if id in found]


def with_masked_keys(database: str, found: dict[int, Obstacle]) -> dict[int, Obstacle]:
    """Return the obstacles, their keys without values that are masked elsewhere.

    A role that may not read arguments gets no keys, because they are made of these.
    """
    if all(each.key is None for each in found.values()):
        return found
    if not read(database, MAY_READ_ARGUMENTS, {})[0][0]:
        return {id: each._replace(key=None) for id, each in found.items()}
    jobs = Job.objects.using(database).filter(pk__in=found)
    texts = {f"{name}_text": Cast(name, TextField()) for name in ("kwargs", "args")}
    rows = list(jobs.annotate(**texts).values_list("pk", "task", *texts, OWN))
    words = Known.tasks.of({task for _, task, *_ in rows})
    masked = {}
    for id, task, kwargs, args, own in rows:
        key = found[id].key
        if key is not None:
            named = Known.tasks.named(task, args)
            key = masked_key(key, with_own(words[task], own), kwargs, named)
        masked[id] = found[id]._replace(key=key)
    return masked


def described(obstacle: Obstacle, workers: Iterable[Worker]) -> str:
    """Say what the job waits for. `workers`: those that live."""
    match obstacle.waiting_for:
        case "predecessor" | "dependency":
            return described_links(obstacle, workers)
        case "lock":
            return described_blocker(obstacle, workers)
        case "limit":
            return ngettext(
                "waits until fewer than %(number)d job of its limit runs",
                "waits until fewer than %(number)d jobs of its limit run",
                obstacle.max_running or 0,
            ) % {"number": obstacle.max_running}
        case "rate":
            time = moment(obstacle.opens_at)
            return gettext("waits for its rate, until %(time)s") % {"time": time}
        case "arrived":
            return gettext("waits for a worker to admit it")
        case "paused":
            # The key of a lock, limit or rate is made of arguments: not all may see it.
            kind, _sign, name = (obstacle.key or "?").partition(" ")
            text = PAUSED.get(kind, gettext("waits because its key is paused"))
            return text % {"name": name}
        case "unserved":
            return gettext("waits until its queue is served")
        case None:
            return gettext("may run in a moment")
        case "answer" | "event" | "jobs" as kind:
            text = gettext("its task waits for %(what)s")
            return text % {"what": WaitingFor(kind).label}
    text = gettext("waits for something that this release does not know: %(name)s")
    return text % {"name": obstacle.waiting_for}


def described_links(obstacle: Obstacle, workers: Iterable[Worker]) -> str:
    if obstacle.links == 0:
        return gettext("waits until a worker looks for its dependency")
    if obstacle.blocker_id is None:
        text = gettext("waits for batch %(id)s") % {"id": obstacle.batch_id}
    else:
        text = described_blocker(obstacle, workers)
    if (others := obstacle.links - 1) < 1:
        return text
    more = ngettext(
        "%(text)s, and for %(n)d more", "%(text)s, and for %(n)d more", others
    )
    return more % {"text": text, "n": others}


def described_blocker(obstacle: Obstacle, workers: Iterable[Worker]) -> str:
    queue = obstacle.blocker_queue or ""
    values = {"id": obstacle.blocker_id, "queue": queue}
    match obstacle.blocker_status:
        case "SCHEDULED":
            values["time"] = moment(obstacle.blocker_run_after)
            return gettext("waits for job %(id)s, due %(time)s") % values
        # A job that has to be admitted waits if no worker would run it.
        case "READY" | "WAITING" if not any(worker.serves(queue) for worker in workers):
            text = gettext("waits for job %(id)s in queue %(queue)s, no worker")
            return text % values
        case "WAITING":
            return gettext("waits for job %(id)s, which waits itself") % values
    return gettext("waits for job %(id)s") % values


def moment(time: datetime | None) -> str:
    """Return the local time, with the date unless it is today's."""
    if time is None:
        return "?"
    shown = local(time)
    is_today = shown.date() == local(now()).date()
    return f"{shown:%H:%M}" if is_today else f"{shown:%Y-%m-%d %H:%M}"
