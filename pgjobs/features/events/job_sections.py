"""The event that a job handles, for `jobs show`."""

from collections.abc import Iterator

from ...models.job import Job
from ...reports.texts import one_line
from .tables import Event


def origin_of(alias: str, job: Job) -> Iterator[str]:
    """Yield the event, if the job is one of its deliveries."""
    events = Event.objects.using(alias).filter(deliveries__job_id=job.pk)
    for id, name in events.values_list("pk", "name")[:1]:
        yield f"handles the event: {one_line(name)} #{id}"


SECTIONS = (origin_of,)
