"""The limits of a monitoring system: what exceeds them is a problem."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import NamedTuple

from django.db.models.functions import Now
from django.utils.translation import gettext, ngettext

from ...models.job import Job
from ...reports.durations import seconds_in_words
from ...reports.status import Overview


class Threshold(NamedTuple):
    """A limit that a feature adds: an option of `jobstatus` that takes a number."""

    option: str
    help: str
    exceeded: Callable[[str, int], Iterator[str]]  # takes the database and the number

    @property
    def name(self) -> str:
        return self.option.removeprefix("--").replace("-", "_")


def late_queues(state: Overview, most_seconds: float) -> Iterator[str]:
    """Say which queues have a ready job that has waited longer; not the paused ones."""
    text = gettext(
        "The oldest ready job of queue %(queue)s has waited %(time)s, more than "
        "%(most)s."
    )
    for queue in state.queues:
        waited = queue.oldest_ready_seconds or 0
        if waited > most_seconds and queue.paused_seconds is None:
            values = {
                "queue": queue.name,
                "time": seconds_in_words(waited),
                "most": seconds_in_words(most_seconds),
            }
            yield text % values


def many_failed(database: str, most: int, within: float) -> Iterator[str]:
    """Say so if more jobs failed within the last seconds."""
    start = Now() - timedelta(seconds=within)
    failed = Job.objects.using(database).failed().filter(finished_at__gte=start)
    if failed.order_by().values("pk")[: most + 1].count() <= most:
        return
    text = ngettext(
        "More than %(most)d job failed in the last %(time)s.",
        "More than %(most)d jobs failed in the last %(time)s.",
        most,
    )
    yield text % {"most": most, "time": seconds_in_words(within)}
