"""What the page that asks says of jobs: what would hold them back, and an example."""

from collections.abc import Iterable, Iterator
from typing import Any

from django.db.models.functions import Left
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from ...admin.acts import Act
from ...models.job import Job
from ...models.job_choices import Status
from ...models.queue import Queue
from ...reports.obstacles import moment
from ...reports.status import living_workers
from ...reports.texts import excerpt

MOST_QUEUES = 20
MOST_LOOKED_AT = 10_000  # jobs of a selection
LONGEST_SHOWN = 200


def notes_of(act: Act, job: Job) -> Iterator[str]:
    """Yield why a job would not run at once."""
    if act.leads_to == Status.READY:
        yield from held_back([job.queue_name])


def notes_of_many(act: Act, jobs: Any) -> Iterator[str]:
    """Yield the reason of one of the jobs, and why they would not run at once.

    It looks at some of them: there may be millions.
    """
    affected = jobs.filter(status__in=act.statuses).order_by().some(MOST_LOOKED_AT)
    start = Left("reason", 2 * LONGEST_SHOWN)
    for reason in affected.exclude(reason="").values_list(start, flat=True)[:1]:
        text = _("The reason of one of them: %(reason)s")
        yield text % {"reason": excerpt(reason, LONGEST_SHOWN)}
    if act.leads_to == Status.READY:
        names = affected.values_list("queue_name", flat=True).distinct()
        yield from held_back(names[:MOST_QUEUES])


def held_back(names: Iterable[str]) -> Iterator[str]:
    """Yield a sentence for each queue that is paused, limited or without a worker."""
    listed = sorted(names)
    queues = Queue.objects.in_bulk(listed, field_name="name")
    workers = living_workers(Queue.objects.db)
    for name in listed:
        queue = queues.get(name)
        values: dict[str, Any] = {"queue": excerpt(name, LONGEST_SHOWN)}
        if queue and queue.paused_at is not None:
            values["time"] = moment(queue.paused_at)
            text = _(
                "The queue %(queue)s has been paused since %(time)s: they wait there."
            )
            yield text % values
        if not any(worker.serves(name) for worker in workers):
            yield _("No worker serves the queue %(queue)s.") % values
        elif queue and queue.max_running:
            text = ngettext(
                "The queue %(queue)s runs at most %(number)d job at once.",
                "The queue %(queue)s runs at most %(number)d jobs at once.",
                queue.max_running,
            )
            yield text % (values | {"number": queue.max_running})


NOTES = (notes_of,)
NOTES_OF_MANY = (notes_of_many,)
