"""The jobs that deliver an event."""

from ...models.job_set import JobQuerySet
from ...reports.job_filters import Filter, known_id


def narrow(jobs: JobQuerySet, text: str) -> JobQuerySet:
    return jobs.filter(delivery__event=known_id(text))


OPTION = ("--event", "ID", "jobs that deliver this event")
FILTERS = (Filter("event", narrow, OPTION),)
