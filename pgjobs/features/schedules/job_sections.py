"""The schedule that has enqueued a job, for `jobs show`."""

from collections.abc import Iterator

from ...models.job import Job
from ...reports.texts import one_line


def origin_of(alias: str, job: Job) -> Iterator[str]:
    """Yield the schedule, if one has enqueued the job."""
    this = Job.objects.using(alias).filter(pk=job.pk)
    for name in this.values_list("tick__schedule__name", flat=True):
        if name is not None:
            yield f"enqueued by the schedule: {one_line(name)}"


SECTIONS = (origin_of,)
