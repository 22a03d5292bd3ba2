"""The jobs that a test can see: those of all databases that it may use."""

from collections.abc import Collection
from typing import Any

from django.test.testcases import DatabaseOperationForbidden

from ..base.database_choice import queue_databases
from ..models import Job
from ..models.job_choices import Status


def seen_jobs(statuses: Collection[Any] = tuple(Status)) -> list[Job]:
    """Return the jobs with one of the statuses, by database and by id."""
    return [job for alias in queue_databases() for job in jobs_in(alias, statuses)]


def jobs_in(alias: str, statuses: Collection[Any]) -> list[Job]:
    jobs = Job.objects.using(alias).filter(status__in=statuses).order_by("pk")
    try:
        return list(jobs)
    except DatabaseOperationForbidden:  # so this test enqueues nothing there, either
        return []
