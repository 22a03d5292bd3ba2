"""Groups of failed jobs that failed alike."""

from datetime import datetime
from typing import NamedTuple

from django.db import connections
from django.db.models import OuterRef, Q, Subquery, TextField, Value
from django.db.models.functions import Coalesce, Left

from ..models.attempt import Attempt
from ..models.job import Job, JobQuerySet
from ..sql import statement

LOOKED_AT = 10_000  # failed jobs, the latest
MOST_GROUPS = 50
LONGEST_REASON = 300


class ErrorGroup(NamedTuple):
    """Failed jobs of one task whose last attempts raised the same class."""

    task: str
    exception_class: str  # empty for jobs that failed without an exception
    number: int
    first_at: datetime
    last_at: datetime
    reason: str  # of the job with the highest id


def error_groups(database: str) -> list[ErrorGroup]:
    """Return the groups of the latest failed jobs, the largest first."""
    with connections[database].cursor() as cursor:
        cursor.execute(
            statement("errors"), {"looked_at": LOOKED_AT, "most": MOST_GROUPS}
        )
        rows = cursor.fetchall()
    samples = Job.objects.using(database).filter(pk__in=[row[-1] for row in rows])
    reasons = dict(samples.values_list("pk", Left("reason", LONGEST_REASON)))
    return [ErrorGroup._make((*row, reasons.get(id, ""))) for *row, id in rows]


def with_error(
    jobs: JobQuerySet, exception_class: str, looked_at: int | None = LOOKED_AT
) -> JobQuerySet:
    """Filter the jobs that `error_groups` counts under this class.

    The class may also be named without its module. `looked_at`: how many failed jobs
    are read, the latest; None means all.
    """
    last_attempt = Attempt.objects.filter(
        job=OuterRef("pk"), life=OuterRef("life"), outcome__in=("FAILED", "CRASHED")
    ).order_by("-number")
    latest = Job.objects.using(jobs.db).failed().order_by("-finished_at")
    raised = Coalesce(
        Subquery(last_attempt.values("exception_class")[:1]), Value("", TextField())
    )
    ids = latest.values("pk")[:looked_at]
    is_it = Q(raised=exception_class)
    if exception_class:
        is_it |= Q(raised__endswith=f".{exception_class}")
    among = Job.objects.using(jobs.db).filter(pk__in=ids)
    found = among.annotate(raised=raised).filter(is_it)
    return jobs.failed().filter(pk__in=found.values("pk"))
