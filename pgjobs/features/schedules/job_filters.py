"""The jobs of a schedule."""

from ...models.job_set import JobQuerySet
from ...reports.job_filters import Filter, named
from .tables import Schedule


def narrow(jobs: JobQuerySet, text: str) -> JobQuerySet:
    return jobs.filter(tick__schedule__in=named(Schedule, jobs, text))


OPTION = ("--schedule", "NAME", "jobs of this schedule, by name or id")
FILTERS = (Filter("schedule", narrow, OPTION, named=Schedule),)
