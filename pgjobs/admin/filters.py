"""Filters of the job list. Their choices cost no scan of the table."""

from typing import Any

from django.contrib.admin import SimpleListFilter
from django.contrib.admin.options import IncorrectLookupParameters
from django.db import connections
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from ..base.ids import read_id
from ..conf import FINISHED
from ..features import entries
from ..models.job import Job
from ..models.job_choices import Status
from ..models.worker import Worker
from ..reports.job_filters import (
    UNINDEXED,
    InvalidFilter,
    ended_since,
    filters,
)
from ..reports.newest import (
    BY_STATUS,
    LOOKED_AT_BY_END,
    LOOKED_AT_BY_NAME,
    MOST_FOUND,
    ended_last,
    newest,
)
from ..reports.status import living_workers
from ..reports.texts import excerpt
from ..tasks.registry import registry

MOST_CHOICES = 100
LONGEST_CHOICE = 40

# By what the indexes of unfinished jobs are sorted first.
INDEXED = {
    Status.READY: ("queue_name",),
    Status.SCHEDULED: ("run_after",),
    Status.WAITING: ("line",),
    Status.RUNNING: ("worker",),
}

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


class JobFilter(SimpleListFilter):
    """A filter of jobs; what it means stands in `reports/job_filters.py`."""

    has_one_status = False  # all jobs that it leaves have the same
    have_ended = False  # all jobs that it leaves
    has_row = False  # it leaves the jobs of a row of another table

    @classmethod
    def has_branches(cls, request) -> bool:
        """Whether this filter, if it is chosen, leaves ended jobs of branches."""
        return False

    def value(self) -> str | None:
        return super().value() or None  # a field that a form sends empty

    def queryset(self, request, queryset):
        text = self.value()
        if text is None:
            return queryset
        try:
            if reads_all(request):
                return self.narrow(queryset, text)
            return self.narrow_list(request, queryset, text)
        except InvalidFilter as error:
            raise IncorrectLookupParameters from error

    def narrow(self, rows, text: str):
        return filters()[self.parameter_name](rows, text)

    def narrow_list(self, request, rows, text: str):
        """Narrow the rows of a list, which `among_newest` may narrow further."""
        return self.narrow(rows, text)


def reads_all(request) -> bool:
    """Whether the filters read all jobs: acts and exports must not skip any."""
    return request.method == "POST" or getattr(request, "pgjobs_reads_all", False)


def matches_of(request) -> list[Q]:
    """Return what the filters without an index ask for."""
    return getattr(request, "pgjobs_matches", [])


def add_match(request, match: Q) -> None:
    request.pgjobs_matches = [*matches_of(request), match]


def among_newest(request, rows, match: Q | None, has_index: bool = False):
    """Return the rows that a list shows of those that match.

    If all have ended, these are the ones that ended last. The filters without an index,
    and the match, are compared with the newest rows only. `has_index`: the search finds
    few rows, by an index.
    """
    matches = [*matches_of(request), *([match] if match else [])]
    if reads_all(request):
        return rows.filter(*matches)
    by_end = have_ended(request)
    looked_at = LOOKED_AT_BY_END if by_end else LOOKED_AT_BY_NAME
    if branches := getattr(request, "pgjobs_branches", None):
        # An index of another filter finds fewer rows than the order by the end.
        if has_index or has_row(request):
            rows = rows.filter(branches.whole)
        else:
            rows = ended_last(rows, branches, looked_at if matches else MOST_FOUND)
    if not matches:
        return rows
    found = newest(rows, Q(*matches), looked_at, by_end)
    request.pgjobs_cut_at = looked_at if found.is_cut else None
    return found.jobs


def job_filters() -> tuple[type[JobFilter], ...]:
    return (*FILTERS, *entries("admin", "JOB_FILTERS"))


def chosen(request) -> list[type[JobFilter]]:
    """Return the filters that narrow the list."""
    return [each for each in job_filters() if request.GET.get(each.parameter_name)]


def has_row(request) -> bool:
    """Whether the list has the jobs of a row of another table."""
    return any(each.has_row for each in chosen(request))


def has_branches(request) -> bool:
    """Whether the list has ended jobs of several branches: see `Branches`.

    These are its statuses, or the groups of its error.
    """
    return any(each.has_branches(request) for each in chosen(request))


def have_ended(request) -> bool:
    """Whether all jobs of the list have ended: it is sorted by their end."""
    by_filter = any(each.have_ended for each in chosen(request))
    return by_filter or request.GET.get("status") in FINISHED


def order_of_index(request) -> tuple[str, ...]:
    """Return the first column of the index that has the jobs of the list, if any."""
    if has_row(request):  # which has an index of its own
        return ()
    if have_ended(request):
        return ("finished_at",)
    return INDEXED.get(request.GET.get("status"), ())


class StatusFilter(JobFilter):
    title = _("status")
    parameter_name = "status"
    has_one_status = True

    def lookups(self, request, model_admin):
        return Status.choices


class ListFilter(JobFilter):
    """A filter of the list that no index serves.

    The list compares the newest jobs with it, once all other filters have narrowed
    them: see `among_newest`.
    """

    def narrow_list(self, request, rows, text: str):
        add_match(request, UNINDEXED[self.parameter_name](text))
        return rows


class NameFilter(JobFilter):
    """Rows with a certain name in a field; offers names that are cheap to know."""

    def lookups(self, request, model_admin):
        names = set(sorted(self.known_names())[:MOST_CHOICES])
        if self.value():
            names.add(self.value())
        return [(name, excerpt(name, LONGEST_CHOICE)) for name in sorted(names)]


class QueueFilter(ListFilter, NameFilter):
    title = _("queue")
    parameter_name = "queue_name"

    def known_names(self) -> set[str]:
        with connections[Job.objects.db].cursor() as cursor:
            cursor.execute(QUEUES, {"limit": MOST_CHOICES})
            used = {name for (name,) in cursor.fetchall()}
        return used | {task.options.queue_name for task in registry.tasks.values()}


class TaskFilter(ListFilter, NameFilter):
    title = _("task")
    parameter_name = "task"

    def known_names(self) -> set[str]:
        return {task.name for task in registry.tasks.values()}


class AgeFilter(JobFilter):
    """What happened in a period up to now. Addresses may name any, such as 15m."""

    ages = {
        "hour": _("In the last hour"),
        "day": _("In the last 24 hours"),
        "week": _("In the last 7 days"),
    }

    def lookups(self, request, model_admin):
        value = self.value()
        own = [(value, excerpt(value, LONGEST_CHOICE))] if value else []
        return [*self.ages.items(), *(each for each in own if value not in self.ages)]


class EnqueuedFilter(ListFilter, AgeFilter):
    title = _("enqueued")
    parameter_name = "enqueued"


class EndedFilter(AgeFilter):
    title = _("ended")
    parameter_name = "ended"
    have_ended = True

    @classmethod
    def has_branches(cls, request) -> bool:
        return not any(each.has_one_status for each in chosen(request))

    def narrow_list(self, request, rows, text: str):
        if not has_branches(request):
            return self.narrow(rows, text)
        request.pgjobs_branches = BY_STATUS
        return rows.filter(ended_since(text))


class IdFilter(JobFilter):
    """The jobs of a row of another table, whose list or page links here."""

    has_row = True

    def lookups(self, request, model_admin):
        if (text := self.value()) is None:
            return []
        if (id := read_id(text)) is None:
            raise IncorrectLookupParameters
        return [(text, excerpt(self.name_of(id), LONGEST_CHOICE))]

    def name_of(self, id: int) -> str:
        return f"#{id}"


class RowFilter(IdFilter):
    """The jobs that belong to a row of another table; offers some of its rows."""

    def lookups(self, request, model_admin):
        known = {str(id): name for id, name in self.known_rows()}
        chosen = super().lookups(request, model_admin)
        if chosen and self.value() not in known:
            return [*known.items(), *chosen]
        return list(known.items())


class WorkerFilter(RowFilter):
    title = _("worker")
    parameter_name = "worker"

    def known_rows(self):
        workers = living_workers(Job.objects.db)[:MOST_CHOICES]
        return [(worker.pk, excerpt(worker.name, LONGEST_CHOICE)) for worker in workers]

    def name_of(self, id: int) -> str:
        return str(Worker.objects.filter(pk=id).first() or id)


FILTERS = (
    StatusFilter,
    QueueFilter,
    TaskFilter,
    EnqueuedFilter,
    EndedFilter,
    WorkerFilter,
)
