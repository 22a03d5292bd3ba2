"""What a job waits for, and as which it goes on, for `jobs show`."""

from collections.abc import Iterator

from ...models.job import Job
from ..operating.choosing import moment
from . import queue
from .places import TITLES, Places

MOST_PLACES = 50


def places_of(alias: str, job: Job) -> Iterator[str]:
    """Yield a line for each open wait or sleep of the job."""
    this = Job.objects.using(alias).filter(pk=job.pk)
    for place in Places(alias, this).each(MOST_PLACES):
        row = dict(zip(TITLES, place.row(), strict=True))
        what = " ".join(
            str(row[each]) for each in TITLES[2:4] + TITLES[6:] if row[each]
        )
        yield f"waits: {what}, until {moment(place.until)}"


def newest_of(alias: str, job: Job) -> Iterator[str]:
    """Yield the job as which this one goes on."""
    if (newest := queue.newest(alias, job.pk)) not in (None, job.pk):
        yield f"goes on as: job {newest}"


SECTIONS = (places_of, newest_of)
