"""Filters of the job list. Their choices cost no scan of the table."""

from datetime import timedelta
from typing import Any

from django.contrib.admin import SimpleListFilter
from django.contrib.admin.options import IncorrectLookupParameters
from django.db import connections
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from ..models import Job, Status, Worker
from ..reports.errors import error_groups, with_error
from ..tasks.registry import registry
from .ids import read_id
from .texts import excerpt

MOST_CHOICES = 100
LONGEST_CHOICE = 40
NO_EXCEPTION = "-"  # the value of the filter by error, since none may be empty

# The queues that have READY jobs, by hopping along the index from name to name, and
# those from which a worker has ever claimed.
QUEUES = """
WITH RECURSIVE queue (name) AS (
    (
        SELECT queue_name FROM pgjobs_job WHERE status = 'READY'
        ORDER BY queue_name LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT queue_name FROM pgjobs_job
        WHERE status = 'READY' AND queue_name > queue.name
        ORDER BY queue_name LIMIT 1
    )
    FROM queue WHERE queue.name IS NOT NULL
)
(SELECT name FROM queue WHERE name IS NOT NULL LIMIT %(limit)s)
UNION
(SELECT name FROM pgjobs_queue ORDER BY name LIMIT %(limit)s)
"""


class StatusFilter(SimpleListFilter):
    title = _("status")
    parameter_name = "status"

    def lookups(self, request, model_admin):
        return Status.choices

    def queryset(self, request, queryset):
        if self.value() is None:
            return queryset
        if self.value() not in Status.values:
            raise IncorrectLookupParameters
        return queryset.with_status(self.value())


class ChoiceFilter(SimpleListFilter):
    """A few named conditions: name -> (title, lookups)."""

    choices_by_name: dict[str, tuple[Any, dict[str, Any]]]

    def lookups(self, request, model_admin):
        return [(name, title) for name, (title, _) in self.choices_by_name.items()]

    def queryset(self, request, queryset):
        if self.value() is None:
            return queryset
        if self.value() not in self.choices_by_name:
            raise IncorrectLookupParameters
        return queryset.filter(**self.choices_by_name[self.value()][1])


class NameFilter(SimpleListFilter):
    """Jobs with a certain name in a field; offers names that are cheap to know."""

    def lookups(self, request, model_admin):
        names = set(sorted(self.known_names())[:MOST_CHOICES])
        if self.value():
            names.add(self.value())
        return [(name, excerpt(name, LONGEST_CHOICE)) for name in sorted(names)]

    def queryset(self, request, queryset):
        if self.value() is None:
            return queryset
        if "\0" in self.value():
            raise IncorrectLookupParameters
        return queryset.filter(**{self.parameter_name: self.value()})


class QueueFilter(NameFilter):
    title = _("queue")
    parameter_name = "queue_name"

    def known_names(self) -> set[str]:
        with connections[Job.objects.db].cursor() as cursor:
            cursor.execute(QUEUES, {"limit": MOST_CHOICES})
            used = {name for (name,) in cursor.fetchall()}
        return used | {task.options.queue_name for task in registry.tasks.values()}


class TaskFilter(NameFilter):
    title = _("task")
    parameter_name = "task"

    def known_names(self) -> set[str]:
        return {task.name for task in registry.tasks.values()}


class AgeFilter(SimpleListFilter):
    """What happened in a time that ends now."""

    column: str
    ages = {
        "hour": (_("In the last hour"), timedelta(hours=1)),
        "day": (_("In the last 24 hours"), timedelta(days=1)),
        "week": (_("In the last 7 days"), timedelta(days=7)),
    }

    def lookups(self, request, model_admin):
        return [(name, title) for name, (title, age) in self.ages.items()]

    def queryset(self, request, queryset):
        if self.value() is None:
            return queryset
        if self.value() not in self.ages:
            raise IncorrectLookupParameters
        age = self.ages[self.value()][1]
        return queryset.filter(**{f"{self.column}__gte": Now() - age})


class EnqueuedFilter(AgeFilter):
    title = _("enqueued")
    parameter_name = "enqueued"
    column = "enqueued_at"


class IdFilter(SimpleListFilter):
    """The jobs of a row of another table, whose list or page links here."""

    condition: dict[str, Any] = {}  # besides the id

    def lookups(self, request, model_admin):
        if self.value() is None:
            return []
        id = read_id(self.value())
        if id is None:
            raise IncorrectLookupParameters
        return [(self.value(), excerpt(self.name_of(id), LONGEST_CHOICE))]

    def name_of(self, id: int) -> str:
        return f"#{id}"

    def queryset(self, request, queryset):
        if self.value() is None:
            return queryset
        return queryset.filter(**{self.parameter_name: self.value()}, **self.condition)


class WorkerFilter(IdFilter):
    title = _("worker")
    parameter_name = "worker"
    # Only running jobs have a worker. Saying so lets PostgreSQL use its index.
    condition = {"status": Status.RUNNING}

    def name_of(self, id: int) -> str:
        return str(Worker.objects.filter(pk=id).first() or id)


class BatchFilter(IdFilter):
    title = _("batch")
    parameter_name = "batch"


class ErrorFilter(SimpleListFilter):
    """Failed jobs by the class of their last exception; offered among failed jobs."""

    title = _("error, of the latest 10,000 failed jobs")
    parameter_name = "error"

    def lookups(self, request, model_admin):
        value = request.GET.get(self.parameter_name)
        if value is None and request.GET.get("status") != Status.FAILED:
            return []
        groups = error_groups(Job.objects.db)
        names = {group.exception_class for group in groups}
        names |= {value} if value is not None else set()
        return [
            (name or NO_EXCEPTION, excerpt(name, LONGEST_CHOICE) or _("No exception"))
            for name in sorted(names)
        ]

    def queryset(self, request, queryset):
        if self.value() is None:
            return queryset
        if "\0" in self.value():
            raise IncorrectLookupParameters
        name = "" if self.value() == NO_EXCEPTION else self.value()
        return with_error(queryset, name)


FILTERS = (
    StatusFilter,
    QueueFilter,
    TaskFilter,
    EnqueuedFilter,
    WorkerFilter,
    BatchFilter,
    ErrorFilter,
)
