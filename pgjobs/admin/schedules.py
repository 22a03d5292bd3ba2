"""The admin of schedules: to look, to change, to run now and to pause."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import F
from django.db.models.functions import Left
from django.http import HttpResponseRedirect
from django.urls import reverse
from django.utils.formats import date_format
from django.utils.html import format_html, format_html_join
from django.utils.timezone import localtime
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from ..base.plain_json import dump
from ..base.queue_database import database_time
from ..exceptions import AlreadyEnqueued, InvalidArguments, InvalidTask, UnknownTask
from ..models import Job, Schedule, Status, Tick
from ..models.schedule import State
from ..models.schedule_units import TIMING_FIELDS, UNITS, Unit
from ..tasks.recurrence import Recurrence
from ..tasks.registry import registry
from ..tasks.schedules import check_name, run_now
from .buttons import ButtonsAdmin, button
from .confirmation import ConfirmationPages
from .forms import ActForm, JsonField
from .json_text import readable
from .texts import block, excerpt

LONGEST_CELL = 80
LONGEST_TEXT = 20_000
LONGEST_REASON = 500
NEXT_RUNS = 5
RECENT_RUNS = 20
RUNS_SEARCHED = 100  # for the last error


# Acts


@dataclass(frozen=True, kw_only=True)
class ScheduleAct:
    verb: str
    permission: str
    run: Callable[[Schedule], object]  # False: it changed nothing
    is_offered: Callable[[Schedule], bool]
    label: Any
    effect: Any
    done: Any


RUN_NOW = ScheduleAct(
    verb="run_now",
    permission="run",
    run=run_now,
    is_offered=lambda schedule: True,
    label=_("Run now"),
    effect=_(
        "A job is enqueued at once, even if the last run is unfinished. The times of "
        "the schedule stay as they are."
    ),
    done=_("A job was enqueued."),
)
PAUSE = ScheduleAct(
    verb="pause",
    permission="pause",
    run=Schedule.pause,
    is_offered=lambda schedule: not schedule.paused,
    label=_("Pause"),
    effect=_("It does not fire until it is resumed. A run that has begun goes on."),
    done=_("It is paused."),
)
RESUME = ScheduleAct(
    verb="resume",
    permission="pause",
    run=Schedule.resume,
    is_offered=lambda schedule: schedule.paused,
    label=_("Resume"),
    effect=_("It fires again, from its next time on. What it missed is left out."),
    done=_("It fires again."),
)


def act_button(act: ScheduleAct):
    @button(
        label=act.label,
        path=act.verb,
        permission=act.permission,
        is_offered=act.is_offered,
    )
    def view(self, request, schedule):
        return self.act(request, act, schedule)

    return view


# The form


class ArgumentsField(JsonField):
    """A JSON object: what the task gets, by the names of its parameters."""

    def to_python(self, value):
        text = forms.CharField.to_python(self, value)
        arguments = super().to_python(text or "{}")
        if not isinstance(arguments, dict):
            message = _('Enter a JSON object, such as {"client_id": 42}.')
            raise forms.ValidationError(message)
        return arguments


class ScheduleForm(forms.ModelForm):
    arguments = ArgumentsField(
        label=_("Arguments"),
        required=False,
        help_text=_("A JSON object by the names of the task's parameters."),
    )

    class Meta:
        model = Schedule
        fields = (
            "name",
            "task",
            "every",
            "cron",
            "timezone",
            "anchor",
            "overlap",
            "catch_up",
            "jitter",
            "start_at",
            "end_at",
        )
        help_texts = {
            "every": _("Such as 02:00:00, or 7 00:00:00 for a week. Or give a cron."),
            "cron": _(
                "Minute, hour, day of month, month, day of week: 0 3 * * mon-fri"
            ),
            "timezone": _("Of the cron: a name such as Europe/Berlin."),
            "jitter": _("Each run waits so long at most, at random."),
        }

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.initial["arguments"] = json.dumps(self.instance.kwargs, indent=2)
        if "task" in self.fields:
            names = sorted(task.name for task in registry.tasks.values())
            self.fields["task"] = forms.ChoiceField(
                label=_("Task"), choices=[(name, name) for name in names]
            )

    def clean_name(self):
        try:
            check_name(self.cleaned_data["name"])
        except InvalidTask as error:
            raise forms.ValidationError(str(error)) from error
        return self.cleaned_data["name"]

    def clean(self):
        cleaned = super().clean()
        if self.errors or not {"every", "cron", "timezone"} <= cleaned.keys():
            return cleaned
        try:
            checked = Recurrence(
                every=cleaned["every"],
                cron=cleaned["cron"] or None,
                timezone=cleaned["timezone"],
                anchor=cleaned["anchor"],
                overlap=cleaned["overlap"],
                catch_up=cleaned["catch_up"],
                jitter=cleaned["jitter"],
                start=cleaned["start_at"],
                end=cleaned["end_at"],
            )
        except InvalidTask as error:
            raise forms.ValidationError(str(error)) from error
        cleaned.update(cron=checked.cron, timezone=checked.timezone)
        self.check_arguments(cleaned)
        return cleaned

    def check_arguments(self, cleaned) -> None:
        """Store the arguments as an enqueue would, checked by the type hints."""
        name = cleaned.get("task", self.instance.task)
        given = cleaned.get("arguments", self.instance.kwargs)
        try:
            stored = registry.get(name).signature.store((), given)
        except (InvalidArguments, InvalidTask, UnknownTask) as error:
            field = "arguments" if "arguments" in self.fields else None
            self.add_error(field, str(error))
            return
        self.instance.args = json.loads(stored.args)
        self.instance.kwargs = json.loads(stored.kwargs)


class ScheduleAdmin(ConfirmationPages, ButtonsAdmin):
    """Schedules. What somebody changes here the code does not overwrite."""

    form = ScheduleForm
    list_display = ("name", "when", "state_word", "next_run", "last_run", "run_count")
    list_filter = ("paused", "orphaned")
    list_per_page = 50
    ordering = ("name",)
    search_fields = ("name", "task")
    show_facets = admin.ShowFacets.NEVER
    actions = None
    readonly_fields = (
        "state_word",
        "when",
        "next_runs",
        "last_run",
        "last_error",
        "run_count",
        "skip_count",
        "recent_runs",
        "shown_differences",
        "shown_arguments",
    )
    actions_row = actions_detail = (
        "pgjobs_schedule_run_now",
        "pgjobs_schedule_pause",
        "pgjobs_schedule_resume",
    )

    pgjobs_schedule_run_now = act_button(RUN_NOW)
    pgjobs_schedule_pause = act_button(PAUSE)
    pgjobs_schedule_resume = act_button(RESUME)

    class Media:
        css = {"all": ["pgjobs/admin.css"]}

    # Permissions

    def has_run_permission(self, request) -> bool:
        return request.user.has_perm("pgjobs.run_schedule")

    def has_pause_permission(self, request) -> bool:
        return request.user.has_perm("pgjobs.pause_schedule")

    def has_delete_permission(self, request, obj=None) -> bool:
        # What the code declares would be back with the next worker.
        is_declared = obj is not None and obj.declared is not None and not obj.orphaned
        return super().has_delete_permission(request, obj) and not is_declared

    # Pages

    def get_queryset(self, request):
        queryset = super().get_queryset(request)
        return queryset.annotate(last_status=F("last_job__status"))

    def get_readonly_fields(self, request, obj=None):
        declared = ("name", "task") if obj is not None and obj.declared else ()
        # What is only left out of the page a form of Django's would take all the same.
        may_see = request.user.has_perm("pgjobs.view_job_arguments")
        hidden = () if may_see else ("arguments",)
        return (*declared, *hidden, *self.readonly_fields)

    def get_fieldsets(self, request, obj=None):
        may_see = request.user.has_perm("pgjobs.view_job_arguments")
        may_change = obj is None or self.has_change_permission(request, obj)
        arguments = (
            ("arguments" if may_change else "shown_arguments",) if may_see else ()
        )
        words = ("state_word", "when", "next_runs", "last_run", "last_error")
        return [
            (None, {"fields": ("name", "task", *(arguments if may_see else ()))}),
            *([(_("State"), {"fields": words})] if obj else []),
            *(
                [(_("Differs from the code"), {"fields": ("shown_differences",)})]
                if obj and obj.differences
                else []
            ),
            (
                _("When it runs"),
                {
                    "fields": (
                        "every",
                        "cron",
                        "timezone",
                        "anchor",
                        "start_at",
                        "end_at",
                    )
                },
            ),
            (_("How"), {"fields": ("overlap", "catch_up", "jitter")}),
            *(
                [(_("Runs"), {"fields": ("run_count", "skip_count", "recent_runs")})]
                if obj
                else []
            ),
        ]

    def save_model(self, request, obj, form, change):
        # Only what was changed: a worker may fire it meanwhile.
        changed = set(form.changed_data) - {"arguments"} | {"args", "kwargs"}
        if not change or changed & set(TIMING_FIELDS):
            obj.plan_anew(database_time(Schedule.objects.db))
            changed |= {"origin_at", "next_run_at", "error"}
        if change:
            obj.save(update_fields=changed)
        else:
            obj.save()

    def act(self, request, act: ScheduleAct, schedule):
        """Answer a button's request: ask first, and act on a POST."""
        if request.method == "POST":
            text, level = self.carry_out(request, act, schedule)
            self.message_user(request, text, level)
            return HttpResponseRedirect(self.url_back(request, schedule))
        context = {
            "subject": excerpt(schedule.name, LONGEST_CELL),
            "status": schedule.state.label,
            "is_possible": act.is_offered(schedule),
            "url_back": self.url_back(request, schedule),
        }
        return self.confirmation_page(request, act, ActForm(), context)

    def carry_out(self, request, act: ScheduleAct, schedule) -> tuple[str, int]:
        """Act; return what is to be said of it."""
        try:
            changed = act.run(schedule) is not False
        except AlreadyEnqueued as error:
            return f"{schedule}: {error}", messages.WARNING
        if not changed:
            text = gettext("%(schedule)s was not changed.") % {"schedule": schedule}
            return text, messages.WARNING
        self.log_change(request, schedule, str(act.done))
        return f"{schedule}: {act.done}", messages.SUCCESS

    # Columns

    @admin.display(description=_("when"))
    def when(self, schedule: Schedule) -> str:
        return excerpt(schedule.in_words, 2 * LONGEST_CELL)

    @admin.display(description=_("state"))
    def state_word(self, schedule: Schedule) -> str:
        word = format_html(
            '<span class="pgjobs-status pgjobs-{}">{}</span>',
            COLOURS[schedule.state],
            schedule.state.label,
        )
        note = excerpt(schedule.error, LONGEST_CELL) or (
            gettext("differs from the code") if schedule.differences else ""
        )
        return format_html('{}<div class="pgjobs-reason">{}</div>', word, note)

    @admin.display(description=_("next run"), ordering="next_run_at")
    def next_run(self, schedule: Schedule) -> str:
        if not schedule.next_runs(1):
            return self.get_empty_value_display()
        return shown(schedule.next_run_at)

    @admin.display(description=_("next runs"))
    def next_runs(self, schedule: Schedule) -> str:
        runs = ((shown(each),) for each in schedule.next_runs(NEXT_RUNS))
        listed = format_html_join("", "<div>{}</div>", runs)
        return listed or self.get_empty_value_display()

    @admin.display(description=_("last run"))
    def last_run(self, schedule: Schedule) -> str:
        if schedule.last_run_at is None:
            return self.get_empty_value_display()
        if schedule.last_status is None:
            return shown(schedule.last_run_at)
        return self.run_link(
            schedule.last_job_id, schedule.last_run_at, schedule.last_status
        )

    def run_link(self, job_id: int, time, status: str) -> str:
        url = reverse(
            "admin:pgjobs_job_change", args=(job_id,), current_app=self.admin_site.name
        )
        return format_html(
            '<a href="{}">{}</a> <span class="pgjobs-status pgjobs-{}">{}</span>',
            url,
            shown(time),
            status.lower(),
            Status(status).label,
        )

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
        reason = block(failed[2], LONGEST_REASON)
        return format_html('{}<pre class="pgjobs-text">{}</pre>', link, reason)

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
        rows = (
            row
            for unit, (value, declared) in schedule.differences.items()
            if unit != "arguments"  # not everybody may see them
            for row in differing_fields(UNITS[unit], value, declared)
        )
        listed = format_html_join(
            "", _("<div>{}: the code says {}, here it is {}</div>"), rows
        )
        if "arguments" in schedule.differences:
            note = gettext("The arguments are not those of the code.")
            return format_html("{}<div>{}</div>", listed, note)
        return listed

    @admin.display(description=_("arguments"))
    def shown_arguments(self, schedule: Schedule) -> str:
        text = readable(dump(schedule.kwargs))
        return format_html(
            '<pre class="pgjobs-text">{}</pre>', block(text, LONGEST_TEXT)
        )


COLOURS = {
    State.ACTIVE: "successful",
    State.RUNNING: "running",
    State.PAUSED: "scheduled",
    State.ENDED: "cancelled",
    State.ORPHANED: "failed",
    State.BROKEN: "failed",
}


def differing_fields(unit: Unit, value, declared) -> Iterator[tuple[str, str, str]]:
    """Yield (label, what the code says, what is stored) of each field that differs."""
    if len(unit.fields) == 1:
        value, declared = {unit.fields[0]: value}, {unit.fields[0]: declared}
    for name in unit.fields:
        if value[name] != declared[name]:
            label = Schedule._meta.get_field(name).verbose_name
            yield label, json.dumps(declared[name]), json.dumps(value[name])


def shown(time) -> str:
    return date_format(localtime(time), "SHORT_DATETIME_FORMAT")
