"""The admin of schedules: people see, change, run and pause them."""

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from django.contrib import admin
from django.contrib.admin.utils import flatten_fieldsets
from django.core.exceptions import PermissionDenied
from django.db.models import F, Q
from django.db.models.functions import Left, Now
from django.utils.html import format_html, format_html_join
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from ...admin.acting import ActingAdmin, permitted
from ...admin.acts import Act
from ...admin.details import Origin
from ...admin.filters import LONGEST_CHOICE, MOST_CHOICES, ChoiceFilter, RowFilter
from ...admin.links import list_url, page
from ...admin.markup import (
    LONGEST_CELL,
    ago,
    breakable,
    exact,
    preformatted,
    status_and_note,
    status_word,
)
from ...admin.queues import counting
from ...base.plain_json import dump
from ...base.queue_database import database_time
from ...models.job import Job
from ...models.job_choices import Status
from ...queue.acts import Changed
from ...reports.json_text import readable
from ...reports.remarks import PATIENCE
from ...reports.texts import excerpt
from ...tasks.registry import registry
from ...tasks.sensitive import sensitive_words
from ..definitions.argument_fields import is_argument, names_of_fields
from ..desk.links import LONGEST_PROBLEM, Links, Table
from .declare import run_now
from .form import ScheduleForm, TaskForm
from .tables import Schedule, ScheduleQuerySet, State, Tick, zone_of
from .units import TIMING_FIELDS, UNITS, Unit

TASK_TEMPLATE = "admin/pgjobs/schedule/choose_task.html"
LONGEST_TEXT = 20_000
LONGEST_REASON = 500
NEXT_RUNS = 5
RECENT_RUNS = 20
RUNS_SEARCHED = 100  # for the last error
STATE_FIELDS = ("state_word", "when", "next_runs", "last_run", "last_error")
RUN_FIELDS = ("run_count", "skip_count", "recent_runs")


# Acts


def run_each(schedules) -> Changed:
    """Enqueue a job of each schedule."""
    return Changed(len([run_now(schedule) for schedule in schedules]), 0)


RUN_NOW = Act(
    verb="run_now",
    permission="run",
    run=run_each,
    is_offered=lambda schedule: True,
    label=_("Run now"),
    effect=_(
        "A job is enqueued at once, even if the last run is unfinished. The times of "
        "the schedule stay as they are."
    ),
    done=_("%(name)s: A job was enqueued."),
)
PAUSE = Act(
    verb="pause",
    permission="pause",
    run=counting(ScheduleQuerySet.pause),
    is_offered=lambda schedule: not schedule.paused,
    label=_("Pause"),
    effect=_("It does not fire until it is resumed. A run that has begun goes on."),
    done=_("%(name)s: It is paused."),
    unchanged=_("%(name)s was not changed."),
)
RESUME = Act(
    verb="resume",
    permission="pause",
    run=counting(ScheduleQuerySet.resume),
    is_offered=lambda schedule: schedule.paused,
    label=_("Resume"),
    effect=_(
        "It fires again, from its next time on. The runs that it missed are skipped."
    ),
    done=_("%(name)s: It fires again."),
    unchanged=_("%(name)s was not changed."),
)


class StateFilter(ChoiceFilter):
    title = _("state")
    parameter_name = "state"
    choices_by_name = {
        "on": (_("Not paused"), {"paused": False, "orphaned": False}),
        "paused": (_("Paused"), {"paused": True}),
        "orphaned": (_("Gone from the code"), {"orphaned": True}),
        "broken": (_("Does not fire because of an error"), {"error__gt": ""}),
    }


class ScheduleFilter(RowFilter):
    title = _("schedule")
    parameter_name = "schedule"

    def known_rows(self):
        rows = Schedule.objects.order_by("name").values_list("pk", "name")
        return [(id, excerpt(name, LONGEST_CHOICE)) for id, name in rows[:MOST_CHOICES]]


JOB_FILTERS = (ScheduleFilter,)
JOB_ORIGINS = (Origin("schedule", "tick__schedule_id", "tick__schedule__name"),)


@admin.register(Schedule)
class ScheduleAdmin(ActingAdmin):
    """Schedules. The code does not overwrite what a user changes here."""

    form = ScheduleForm
    list_display = (
        "short_name",
        "when",
        "state_word",
        "next_run",
        "last_run",
        "run_count",
    )
    list_filter = (StateFilter,)
    when_empty = _("Declare schedules in the code, or add one here.")
    ordering = ("name",)
    sortable_by = ("short_name", "next_run", "run_count")
    search_fields = ("name", "task")
    readonly_fields = (
        *STATE_FIELDS,
        *RUN_FIELDS,
        "shown_differences",
        "shown_arguments",
    )
    acts = (RUN_NOW, PAUSE, RESUME)

    has_run_permission = permitted("run_schedule")
    has_pause_permission = permitted("pause_schedule")

    def has_delete_permission(self, request, obj=None) -> bool:
        # The next worker would insert a declared schedule again.
        is_declared = obj is not None and obj.declared is not None and not obj.orphaned
        return super().has_delete_permission(request, obj) and not is_declared

    # Pages

    def get_queryset(self, request):
        queryset = super().get_queryset(request)
        return queryset.annotate(last_status=F("last_job__status"))

    def get_readonly_fields(self, request, obj=None):
        declared = ("name", "task") if obj is not None and obj.declared else ()
        return (*declared, *self.readonly_fields)

    def add_view(self, request, form_url="", extra_context=None):
        """Ask for the task first: the form has a field for each of its arguments."""
        may_see = request.user.has_perm("pgjobs.view_job_arguments")
        if request.method == "GET" and may_see and not self.chosen_task(request):
            if not self.has_add_permission(request):
                raise PermissionDenied
            title = gettext("Add schedule")
            context = {
                "form": TaskForm(),
                "original": title,
                "url_back": list_url("schedule", self.admin_site),
            }
            return self.page(request, TASK_TEMPLATE, title, context)
        return super().add_view(request, form_url, extra_context)

    def chosen_task(self, request, obj=None) -> str | None:
        """Return the task whose arguments the form asks for."""
        if obj is not None and obj.declared:
            return obj.task
        chosen = request.POST.get("task") or request.GET.get("task")
        return chosen or (obj.task if obj is not None else None)

    def get_form(self, request, obj=None, change=False, **kwargs):
        # A form makes the fields of arguments itself, which Django does not know.
        fields = flatten_fieldsets(self.get_fieldsets(request, obj))
        kwargs["fields"] = [field for field in fields if not is_argument(field)]
        form = super().get_form(request, obj, change, **kwargs)
        form.takes_arguments = request.user.has_perm("pgjobs.view_job_arguments")
        return form

    def get_fieldsets(self, request, obj=None):
        may_see = request.user.has_perm("pgjobs.view_job_arguments")
        may_change = obj is None or self.has_change_permission(request, obj)
        name = self.chosen_task(request, obj) if may_change else None
        task = registry.find(name or "")
        arguments = (
            names_of_fields(task) if task else ("shown_arguments",) if obj else ()
        )
        timing = ("every", "cron", "timezone", "anchor", "start_at", "end_at")
        parts = [
            (None, ("name", "task")),
            (_("Arguments"), arguments if may_see else ()),
            (_("State"), STATE_FIELDS if obj else ()),
            (
                _("Differs from the code"),
                ("shown_differences",) if obj and obj.differences else (),
            ),
            (_("When it runs"), timing),
            (_("How"), ("overlap", "catch_up", "jitter")),
            (_("Runs"), RUN_FIELDS if obj else ()),
        ]
        return [(title, {"fields": fields}) for title, fields in parts if fields]

    def store(self, obj, form, change) -> None:
        # Only what was changed: a worker may fire it meanwhile.
        fields = {each for each in form.changed_data if not is_argument(each)}
        changed = fields | {"args", "kwargs"}
        if not change or changed & set(TIMING_FIELDS):
            obj.plan_again(database_time(Schedule.objects.db))
            changed |= {"origin_at", "next_run_at", "error"}
        if change:
            obj.save(update_fields=changed)
        else:
            super().store(obj, form, change)

    def preview(self, act, row):
        return super().preview(act, row) | {"status": row.state.label}

    # Columns

    @admin.display(description=_("name"), ordering="name")
    def short_name(self, schedule: Schedule) -> str:
        return breakable(excerpt(schedule.name, 2 * LONGEST_CELL))

    @admin.display(description=_("when"))
    def when(self, schedule: Schedule) -> str:
        return excerpt(schedule.in_words, 2 * LONGEST_CELL)

    @admin.display(description=_("state"))
    def state_word(self, schedule: Schedule) -> str:
        word = status_word(COLOURS[schedule.state], schedule.state.label)
        note = excerpt(schedule.error, LONGEST_CELL) or (
            gettext("differs from the code") if schedule.differences else ""
        )
        return status_and_note(word, note)

    @admin.display(description=_("next run"), ordering="next_run_at")
    def next_run(self, schedule: Schedule) -> str:
        if not schedule.next_runs(1):
            return self.get_empty_value_display()
        return in_its_zone(schedule, schedule.next_run_at)

    @admin.display(description=_("next runs"))
    def next_runs(self, schedule: Schedule) -> str:
        times = schedule.next_runs(NEXT_RUNS)
        runs = ((in_its_zone(schedule, time),) for time in times)
        listed = format_html_join("", "<div>{}</div>", runs)
        return listed or self.get_empty_value_display()

    @admin.display(description=_("last run"))
    def last_run(self, schedule: Schedule) -> str:
        if schedule.last_run_at is None:
            return self.get_empty_value_display()
        if schedule.last_status is None:
            return ago(schedule.last_run_at)
        return self.run_link(
            schedule.last_job_id, schedule.last_run_at, schedule.last_status
        )

    def run_link(self, job_id: int, time, status) -> str:
        url = page("job", job_id, self.admin_site)
        word = status_word(status.lower(), Status(status).label)
        return format_html('<a href="{}">{}</a> {}', url, ago(time), word)

    @admin.display(description=_("last error"))
    def last_error(self, schedule: Schedule) -> str:
        recent = list(self.runs(schedule, RUNS_SEARCHED).values_list("job", flat=True))
        failed = (
            Job.objects.failed()
            .filter(pk__in=recent)
            .order_by("-pk")
            .values_list("pk", "finished_at", Left("reason", LONGEST_REASON))
            .first()
        )
        if failed is None:
            return self.get_empty_value_display()
        link = self.run_link(failed[0], failed[1], Status.FAILED)
        return format_html("{}{}", link, preformatted(failed[2], LONGEST_REASON))

    @admin.display(description=_("recent runs"))
    def recent_runs(self, schedule: Schedule) -> str:
        rows = self.runs(schedule, RECENT_RUNS).values_list(
            "job", "time", "job__status"
        )
        links = ((self.run_link(*row),) for row in rows)
        return (
            format_html_join("", "<div>{}</div>", links)
            or self.get_empty_value_display()
        )

    def runs(self, schedule: Schedule, count: int):
        runs = Tick.objects.filter(schedule=schedule, job__status__isnull=False)
        return runs.order_by("-time")[:count]

    @admin.display(description=_("changed by hand"))
    def shown_differences(self, schedule: Schedule) -> str:
        text = gettext("%(field)s: the code says %(declared)s, here it is %(stored)s")
        rows = (
            (text % {"field": field, "declared": declared, "stored": stored},)
            for unit, values in schedule.differences.items()
            if unit != "arguments"  # some users may not see them
            for field, declared, stored in differing_fields(UNITS[unit], *values)
        )
        listed = format_html_join("", "<div>{}</div>", rows)
        if "arguments" in schedule.differences:
            note = gettext("The arguments are not those of the code.")
            return format_html("{}<div>{}</div>", listed, note)
        return listed

    @admin.display(description=_("arguments"))
    def shown_arguments(self, schedule: Schedule) -> str:
        text = readable(dump(schedule.kwargs), sensitive_words(schedule.task))
        return preformatted(text, LONGEST_TEXT)


COLOURS = {
    State.ACTIVE: "ready",
    State.RUNNING: "running",
    State.PAUSED: "scheduled",
    State.ENDED: "cancelled",
    State.ORPHANED: "failed",
    State.BROKEN: "failed",
}


def in_its_zone(schedule: Schedule, time: datetime) -> str:
    """Return a time as the schedule counts it; the user's own time as a title."""
    text = exact(time, zone_of(schedule))
    return format_html('<time title="{}">{}</time>', exact(time), text)


def differing_fields(unit: Unit, value, declared) -> Iterator[tuple[str, str, str]]:
    """Yield (label, what the code says, what is stored) of each field that differs."""
    if len(unit.fields) == 1:
        value, declared = {unit.fields[0]: value}, {unit.fields[0]: declared}
    for name in unit.fields:
        if value[name] != declared[name]:
            label = Schedule._meta.get_field(name).verbose_name
            yield label, json.dumps(declared[name]), json.dumps(value[name])


MOST_SCHEDULES = 20


def overview_tables(overview: Links) -> Iterator[Table]:
    """Yield the schedules that are late, broken, or whose last run failed."""
    if not overview.may_view("schedule"):
        return
    late = Q(next_run_at__lt=Now() - PATIENCE)
    failed = Q(last_job__status=Status.FAILED)
    schedules = Schedule.objects.active().filter(late | failed | ~Q(error=""))
    schedules = schedules.annotate(last_status=F("last_job__status")).order_by("name")
    rows = [
        (
            overview.link("schedule", each.pk, excerpt(each.name, LONGEST_CELL)),
            ago(each.next_run_at),
            last_run_on(overview, each),
            excerpt(each.error, LONGEST_PROBLEM),
        )
        for each in schedules[:MOST_SCHEDULES]
    ]
    columns = (_("Schedule"), _("Next run"), _("Last run"), _("Error"))
    title = _("Schedules that are late or failed")
    url = overview.list_of("schedule")
    yield Table(title, columns, rows, _("None."), url=url)


def last_run_on(overview: Links, schedule: Schedule) -> Any:
    if schedule.last_status is None:
        return ""
    label = Status(schedule.last_status).label
    word = status_word(schedule.last_status.lower(), label)
    return overview.link("job", schedule.last_job_id, word)


OVERVIEW_TABLES = (overview_tables,)
