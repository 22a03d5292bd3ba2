"""The limits of a monitoring system: what exceeds them is a problem."""

from collections.abc import Iterator
from datetime import timedelta

from django.db.models.functions import Now
from django.utils.translation import gettext, ngettext

from ..models.job import Job
from .status import Overview


def late_queues(state: Overview, most_seconds: float) -> Iterator[str]:
    """Say which queues have a ready job that has waited longer; not the paused ones."""
    text = gettext(
        "The oldest ready job of queue %(queue)s has waited %(seconds)d s, more than "
        "%(most)d s."
    )
    for queue in state.queues:
        waited = queue.oldest_ready_seconds or 0
        if waited > most_seconds and queue.paused_seconds is None:
            values = {"queue": queue.name, "seconds": waited, "most": most_seconds}
            yield text % values


def many_failed(database: str, most: int, within: float) -> Iterator[str]:
    """Say so if more jobs failed within the last seconds."""
    start = Now() - timedelta(seconds=within)
    failed = Job.objects.using(database).failed().filter(finished_at__gte=start)
    if failed.order_by().values("pk")[: most + 1].count() <= most:
        return
    text = ngettext(
        "More than %(most)d job failed in the last %(seconds)d s.",
        "More than %(most)d jobs failed in the last %(seconds)d s.",
        most,
    )
    yield text % {"most": most, "seconds": within}
