"""The jobs of a batch."""

from ...models.job_set import JobQuerySet
from ...reports.job_filters import Filter, known_id


def narrow(jobs: JobQuerySet, text: str) -> JobQuerySet:
    return jobs.filter(batch=known_id(text))


FILTERS = (Filter("batch", narrow, ("--batch", "ID", "jobs of this batch")),)
