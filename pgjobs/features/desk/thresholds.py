"""The limits that options of `jobstatus` set on queues and failures."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from django.db.models.functions import Now
from django.utils.translation import gettext, ngettext

from ...management.parameters import count, positive_seconds, seconds
from ...models.job import Job
from ...reports.durations import seconds_in_words
from ...reports.status import Overview
from ...reports.thresholds import Threshold


def late_queues(alias: str, state: Overview, options: dict[str, Any]) -> Iterator[str]:
    """Say which queues have a ready job that has waited longer; not the paused ones."""
    most_seconds = options["max_latency"]
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


def many_failed(alias: str, state: Overview, options: dict[str, Any]) -> Iterator[str]:
    """Say so if more jobs failed within the last seconds."""
    most, within = options["max_failed"], options["within"]
    start = Now() - timedelta(seconds=within)
    failed = Job.objects.using(alias).failed().filter(finished_at__gte=start)
    if failed.order_by().values("pk")[: most + 1].count() <= most:
        return
    text = ngettext(
        "More than %(most)d job failed in the last %(time)s.",
        "More than %(most)d jobs failed in the last %(time)s.",
        most,
    )
    yield text % {"most": most, "time": seconds_in_words(within)}


THRESHOLDS = (
    Threshold(
        "--max-latency",
        "a ready job that has waited longer is a problem",
        late_queues,
        seconds,
        "60s",
    ),
    Threshold(
        "--max-failed",
        "more failed jobs, of the time --within, are a problem",
        many_failed,
        count,
    ),
    Threshold(
        "--within",
        "the time of --max-failed (default: 1h)",
        None,
        positive_seconds,
        "1h",
        3_600.0,
    ),
)
