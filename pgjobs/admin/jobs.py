"""The admin of jobs: lists, pages and acts. It does not edit them."""

from collections.abc import Iterator
from functools import cached_property, partial
from typing import Any

from django.contrib import admin
from django.contrib.admin.utils import unquote
from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import BadRequest
from django.db.models import (
    BooleanField,
    Case,
    Count,
    ExpressionWrapper,
    Q,
    When,
)
from django.db.models.functions import Left
from django.urls import URLPattern, path
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from ..features import entries
from ..fields import HoldsKey
from ..models.job import Job
from ..models.job_choices import Status
from ..reports.job_filters import InvalidFilter, terms_of, uses_index
from ..reports.reasons import reasons, turn_of
from ..reports.texts import excerpt
from ..tasks.registry import registry
from .acting import (
    ActingAdmin,
    counted,
    effects_by_status,
    name_of,
    permitted,
)
from .acts import (
    ASKED,
    BULK_ACTIONS,
    BUTTONS,
    CANCEL,
    DELETE,
    RETRY,
    RUN_AGAIN,
    STOPS,
    Act,
    Repeated,
)
from .calls import add_arguments
from .columns import LONGEST_REASON, JobColumns
from .details import details, fieldsets
from .filters import (
    among_newest,
    has_branches,
    have_ended,
    job_filters,
    order_of_index,
    reads_all,
)
from .links import list_url
from .listing import LONGEST_TERM, ReadOnlyAdmin, by_id_or_beginning
from .progress import add_progress
from .searching import (
    filter_note,
    has_name,
    id_of,
    may_see_arguments,
    no_match,
    search_note,
    searched,
)
from .tabs import status_tabs

LARGE_COLUMNS = ("args", "kwargs", "return_value", "reason", "keys", "dependencies")
SUCCESSFUL = Status.SUCCESSFUL
REPEATS = _("It has succeeded before: everything that it does happens again.")
MOST_TASKS = 5
# Filters that still hold for jobs after an act.
GO_ALONG = ("status", "queue_name", "task", "batch", "schedule", "event")
LONGEST_NAME = 80
# The page repeats the query in dozens of links.
LONGEST_QUERY = 8_000


class JobList(ChangeList):
    """The list of jobs. A URL may sort it only by columns whose headers sort."""

    queryset: Any  # of the jobs that the filters and the search leave

    def get_ordering_field(self, field_name):
        is_sortable = field_name in self.sortable_by
        return super().get_ordering_field(field_name) if is_sortable else None

    def _get_default_ordering(self):  # which the heads of the columns show
        by_end = "latest" in self.sortable_by
        return ("-finished_at",) if by_end else super()._get_default_ordering()

    def get_results(self, request):
        """Read a page; for acts and exports none, since they read all jobs by id."""
        whole = self.queryset
        if reads_all(request):
            self.queryset = whole.none()
        super().get_results(request)
        self.queryset = whole


@admin.register(Job)
class JobAdmin(JobColumns, ReadOnlyAdmin, ActingAdmin):
    """Jobs. Their columns, buttons and confirmations stand in modules of their own."""

    list_display = ("id", "task_name", "state", "short_reason", "latest")
    list_display_links = ("id", "task_name")
    row_template = "admin/pgjobs/job/menu.html"
    ordering = ("-id",)
    # `get_search_results` decides what is searched.
    search_fields = ("id", "task")
    search_help_text = _(
        "An id, the beginning of a task's name, any part of a known one, an argument "
        "(size:87, customer.country:FR), lock:, unique: or reason: and a text"
    )
    change_list_template = "admin/pgjobs/job/change_list.html"
    object_history_template = "admin/pgjobs/job/object_history.html"
    acts = (
        *entries("acts", "RETRIES"),
        *BUTTONS,
        *entries("acts", "ACTS"),
    )
    bulk_acts = (*entries("acts", "RETRIES"), *BULK_ACTIONS)

    when_empty = _("No job has been enqueued yet.")

    @cached_property
    def list_filter(self):
        return job_filters()

    # Permissions

    has_retry_permission = permitted("retry_job")
    has_run_again_permission = permitted("add_job")
    has_cancel_permission = permitted("cancel_job")
    has_fail_permission = permitted("fail_job")
    has_run_now_permission = permitted("run_job_now")

    def has_delete_permission(self, request, obj=None) -> bool:
        is_running = obj is not None and obj.status == Status.RUNNING
        return request.user.has_perm("pgjobs.delete_job") and not is_running

    # Pages

    def get_ordering(self, request):
        """Sort the newest first; where all jobs have ended, those that ended last.

        Indexes have these orders. By the ids of ended jobs PostgreSQL would walk over
        all newer jobs that the list does not show.
        """
        return ("-finished_at", "-id") if have_ended(request) else self.ordering

    def get_sortable_by(self, request):
        if has_branches(request):
            return ()
        return ("latest",) if have_ended(request) else ("id",)

    def get_changelist(self, request, **kwargs):
        return JobList

    def get_paginator(self, request, *args, **kwargs):
        paginator = super().get_paginator(request, *args, **kwargs)
        paginator.counted_in = order_of_index(request)
        return paginator

    def get_queryset(self, request):
        # The deferred columns can be large, and SQL may have stored JSON there that
        # Python cannot read. The worker may be gone: no constraint keeps its row.
        return (
            super()
            .get_queryset(request)
            .defer(*LARGE_COLUMNS)
            .annotate(
                reason_start=Left("reason", LONGEST_REASON + 1),
                has_keys=ExpressionWrapper(Q(keys__isnull=False), BooleanField()),
                holds_key=Case(When(unique_key__isnull=False, then=HoldsKey())),
                **dict(entries("acts", "COLUMNS")),
            )
            .select_related("worker")
        )

    def look_up(self, request, rows):
        found = reasons(Job.objects.db, rows)
        for job in rows:
            job.why = found.get(job.pk)

    def get_changelist_instance(self, request):
        changelist = super().get_changelist_instance(request)
        if request.method != "POST":
            add_progress(changelist.result_list)
            if may_see_arguments(request):
                add_arguments(changelist.result_list)
        return changelist

    def get_object(self, request, object_id, from_field=None):
        job = super().get_object(request, object_id, from_field)
        if job is not None and job.why is None:
            job.why = turn_of(Job.objects.db, job)
        return job

    def get_search_results(self, request, queryset, search_term):
        term = search_term.strip()
        terms = terms_of(term)
        if id_of(term) is not None or (len(term) > LONGEST_TERM and not terms):
            queryset = by_id_or_beginning(queryset, term, "task")
            return among_newest(request, queryset, None, has_index=True), False
        if not terms:
            match = has_name(term) if term else None
            return among_newest(request, queryset, match), False
        has_index = uses_index(queryset.db, terms)
        queryset = among_newest(request, queryset, None, has_index)
        try:
            matching = searched(request, queryset, terms, has_index)
        except InvalidFilter:
            matching = queryset.none()
        return matching, False

    def empty_note(self, changelist):
        return no_match(changelist.query) or super().empty_note(changelist)

    def changelist_view(self, request, extra_context=None):
        if len(request.META.get("QUERY_STRING", "")) > LONGEST_QUERY:
            raise BadRequest("The query is too long.")
        response = super().changelist_view(request, extra_context)
        if changelist := getattr(response, "context_data", {}).get("cl"):
            response.context_data |= self.list_context(request, changelist)
        return response

    def list_context(self, request, changelist) -> dict:
        """Return what the list shows above its rows."""
        context = {
            "tabs": list(status_tabs(changelist)),
            "search_note": search_note(request, changelist.query),
            "filter_note": filter_note(request),
            "is_live": request.GET.get("status") == Status.RUNNING,
        }
        for context_of in entries("admin", "LIST_CONTEXTS"):
            context |= context_of(request, changelist, self)
        return context

    def get_fieldsets(self, request, obj=None):
        return list(fieldsets(obj, may_see_arguments(request)))

    def render_change_form(self, request, context, *args, obj=None, **kwargs):
        context.update(details(obj, may_see_arguments(request)))
        context["is_live"] = not obj.is_finished
        # Nothing is saved here, and to delete is one of the acts above.
        context |= {"show_close": False, "show_delete": False}
        if origin := context["origin"]:
            filters = {origin.kind: origin.id}
            context["origin_jobs"] = list_url("job", self.admin_site, **filters)
        for context_of in entries("admin", "JOB_CONTEXTS"):
            context |= context_of(request, obj, context["lineage"], self.admin_site)
        return super().render_change_form(request, context, *args, obj=obj, **kwargs)

    def history_view(self, request, object_id, extra_context=None):
        job = self.get_object(request, unquote(object_id))
        context: dict[str, Any] = {}
        for context_of in entries("admin", "HISTORY_CONTEXTS") if job else ():
            context |= context_of(request, job)
        return super().history_view(request, object_id, context)

    def delete_view(self, request, object_id, extra_context=None):
        # Django's own view would delete a running job.
        job = self.object_behind_button(request, DELETE, unquote(object_id))
        return self.act_on_one(request, DELETE, job)

    # Pages of their own

    def get_urls(self):
        return [*self.pages_of_features(), *super().get_urls()]

    def pages_of_features(self) -> Iterator[URLPattern]:
        for route, name, view in entries("admin", "PAGES"):
            of_site = self.admin_site.admin_view(partial(view, admin=self))
            yield path(route, of_site, name=name)

    # Acts

    def preview(self, act, row):
        running = row.status == Status.RUNNING
        return super().preview(act, row) | {
            "status": row.get_status_display(),
            "running": running,
            "only_running": running and act is CANCEL,
            "effect_on_running": how_it_stops(row.task) if act is CANCEL else "",
            "warning": REPEATS if is_repeated(act, row) else "",
            "notes": notes("NOTES", act, row),
        }

    def preview_of_many(self, act, rows):
        counts = rows.order_by().values_list("status").annotate(number=Count("pk"))
        numbers = dict(counts)
        subject = counted(Job, sum(numbers.values()))
        shown = effects_by_status(act, numbers, self.most_at_once)
        shown["notes"] = notes("NOTES_OF_MANY", act, rows)
        return {"subject": subject, "tasks": list(top_tasks(rows)), **shown}

    def context_of_many(self, request, act, rows):
        context: dict[str, Any] = {}
        for context_of in entries("admin", "CONFIRMATION_CONTEXTS"):
            context |= context_of(request, act, rows, self)
        return context

    def where_they_went(self, request, act):
        if act.leads_to is None:
            return ""
        known = {**request.GET.dict(), "status": act.leads_to}
        stay = {name: known[name] for name in GO_ALONG if known.get(name)}
        return list_url("job", self.admin_site, **stay)

    def part_of(self, act, rows):
        return super().part_of(act, rows.filter(status__in=act.statuses))

    def what_was_done(self, act, row, changed) -> str:
        still_runs = Job.objects.running().filter(pk=row.pk)
        if act is CANCEL and still_runs.exists():
            return ASKED % {"name": name_of(row)}
        if isinstance(changed, Repeated):
            text = gettext("There is job %(id)d of %(task)s.")
            task = excerpt(row.task, LONGEST_NAME)
            return text % {"id": changed.new_id, "task": task}
        return super().what_was_done(act, row, changed)

    def why_not(self, act, row, changed) -> str:
        names = {"job": name_of(row)}
        this = Job.objects.filter(pk=row.pk).first()
        if this and this.status in act.statuses and act is DELETE:
            text = gettext("%(job)s was not deleted: another table refers to it.")
            return text % names
        if this and this.status in act.statuses and this.unique_key:
            text = gettext("%(job)s was not changed: job %(id)s holds its unique key.")
            return text % {**names, "id": holder_of_key(this)}
        status = this.get_status_display() if this else gettext("gone")
        text = gettext("%(job)s was not changed: its status is %(status)s.")
        return text % {**names, "status": status}


def notes(name: str, act: Act, what: Any) -> list[str]:
    """Return what features say on the page that asks."""
    return [note for notes_of in entries("acts", name) for note in notes_of(act, what)]


def is_repeated(act: Act, job: Job) -> bool:
    return act in (RETRY, RUN_AGAIN) and job.status == SUCCESSFUL


def how_it_stops(task: str) -> Any:
    """Return what a request to stop does; empty if no code here has the task."""
    found = registry.find(task)
    return "" if found is None else STOPS[found.options.cancel]


def top_tasks(rows) -> Iterator[tuple[str, str, int]]:
    """Yield the tasks and queues that most of the jobs are of, with their numbers."""
    groups = rows.order_by().values_list("task", "queue_name")
    largest = groups.annotate(number=Count("pk")).order_by("-number", "task")
    for task, queue, number in largest[:MOST_TASKS]:
        yield excerpt(task, LONGEST_NAME), excerpt(queue, LONGEST_NAME), number


def holder_of_key(job) -> int | None:
    """Return the job that keeps this one from a retry, unless it has just gone."""
    holders = Job.objects.holding_keys().filter(
        unique_key=job.unique_key, unique_for=job.unique_for
    )
    return holders.values_list("pk", flat=True).first()
