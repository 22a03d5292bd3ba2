"""Groups of jobs that failed in the same way."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db.models import OuterRef, Q, Subquery
from django.db.models.functions import Left

from ...models.job import Job
from ...models.job_set import JobQuerySet
from ...reports.newest import Branches
from ...reports.reading import rows_of
from .tables import ErrorGroup

LOOKED_AT = 10_000  # failed jobs, the latest
MOST_GROUPS = 50
HOURS = 24
LONGEST_REASON = 300
MOST_COUNTED = 1_000  # jobs of a group


@dataclass
class Failures:
    """Failed jobs of one task that failed in the same way, among the latest ones."""

    task: str
    kind: ErrorGroup | None  # None if they failed without an exception
    # How many failed in each of the last hours, the oldest first.
    by_hour: list[int] = field(default_factory=lambda: [0] * HOURS)
    number: int = 0
    failed_now: int | None = None  # MOST_COUNTED + 1 at most; None if it is not known
    last_at: datetime | None = None
    last_id: int = 0
    reason: str = ""  # of the job with the highest id

    @property
    def exception_class(self) -> str:
        return self.kind.exception_class if self.kind else ""

    @property
    def is_muted(self) -> bool:
        return self.kind is not None and self.kind.is_muted

    def add(self, hour: int, number: int, last_at: datetime, last_id: int) -> None:
        if hour < HOURS:
            self.by_hour[HOURS - 1 - max(hour, 0)] += number
        self.number += number
        self.last_at = max(last_at, self.last_at or last_at)
        self.last_id = max(last_id, self.last_id)


def failures(database: str, most: int = MOST_GROUPS) -> list[Failures]:
    """Return the groups of the latest failed jobs, the largest first."""
    found: dict[Any, Failures] = {}
    for task, id, *counted in latest(database):
        found.setdefault((task, id), Failures(task, None)).add(*counted)
    largest = sorted(found.items(), key=lambda each: -each[1].number)[:most]
    ids = [id for (_, id), _ in largest if id is not None]
    kinds = ErrorGroup.objects.using(database).in_bulk(ids)
    numbers = count_failed(database, ids)
    shown = [group for _, group in largest]
    samples = reasons_of(database, (group.last_id for group in shown))
    for (_, id), group in largest:
        group.kind, group.failed_now = kinds.get(id), numbers.get(id)
        group.reason = samples.get(group.last_id, "")
    return shown


def count_failed(database: str, ids: list[int]) -> dict[int, int]:
    """Return how many jobs of each of these groups are FAILED now."""
    limits = {"ids": ids, "most": MOST_COUNTED + 1}
    return dict(rows_of(database, "count_errors", limits))


def reasons_of(database: str, ids: Iterable[int]) -> dict[int, str]:
    jobs = Job.objects.using(database).filter(pk__in=list(ids))
    return dict(jobs.values_list("pk", Left("reason", LONGEST_REASON)))


def latest(database: str) -> list[tuple]:
    return rows_of(database, "errors", {"looked_at": LOOKED_AT, "hours": HOURS})


def latest_errors(database: str) -> Counter[str]:
    """Count the latest failed jobs by the class of their exception.

    It counts the largest groups only. Jobs without an exception count as "".
    """
    numbers: Counter[int | None] = Counter()
    for _task, id, _hour, number, *_last in latest(database):
        numbers[id] += number
    largest = dict(numbers.most_common(MOST_GROUPS))
    kinds = ErrorGroup.objects.using(database).filter(pk__in=largest)
    names = dict(kinds.values_list("pk", "exception_class"))
    found: Counter[str] = Counter()
    for id, number in largest.items():
        found[names.get(id, "")] += number
    return found


def with_error(jobs: JobQuerySet, exception_class: str) -> JobQuerySet:
    """Filter the failed jobs whose last attempt raised this class.

    The class may also be named without its module. Without a name it means the jobs
    that failed without an exception.
    """
    if not exception_class:
        return jobs.failed().filter(error_group=None)
    return in_groups(jobs, groups_with(jobs.db, exception_class))


def groups_with(database: str, exception_class: str) -> list[int]:
    """Return the ids of the groups of this class, with or without its module."""
    is_it = Q(exception_class=exception_class)
    is_it |= Q(exception_class__endswith=f".{exception_class}")
    kinds = ErrorGroup.objects.using(database).filter(is_it)
    return list(kinds.values_list("pk", flat=True))


def in_groups(jobs: JobQuerySet, ids: list[int]) -> JobQuerySet:
    """Filter the jobs that failed as these groups did; there is an index for it."""
    return jobs.failed().filter(is_in_groups(ids))


def is_in_groups(ids: list[int]) -> Q:
    return Q(error_group__isnull=False, error_group__in=ids)


def branches_with_error(database: str, exception_class: str) -> Branches:
    """Return the failed jobs with this exception, in branches by their group."""
    ids = groups_with(database, exception_class)
    return Branches(is_in_groups(ids), [is_in_groups([id]) for id in ids])


def last_failure(database: str, task: str) -> Job | None:
    """Return the job of a task that failed last by an exception, if it is FAILED yet.

    Each group of errors knows its latest job by an index.
    """
    of_group = Job.objects.using(database).failed().filter(error_group=OuterRef("pk"))
    latest = of_group.order_by("-finished_at")
    groups = ErrorGroup.objects.using(database).filter(task=task)
    found = groups.annotate(
        at=Subquery(latest.values("finished_at")[:1]),
        job=Subquery(latest.values("pk")[:1]),
    ).exclude(at=None)
    ids = found.order_by("-at").values_list("job", flat=True)[:1]
    jobs = Job.objects.using(database).filter(pk__in=list(ids))
    shown = jobs.annotate(reason_start=Left("reason", LONGEST_REASON))
    return shown.only("task", "finished_at").first()
