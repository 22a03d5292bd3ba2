"""The form of a schedule: times and arguments, checked as `@task` checks them."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from ...exceptions import (
    InvalidArguments,
    InvalidTask,
    non_negative_seconds,
)
from ...reports.job_filters import InvalidFilter, age
from ...tasks.registry import registry
from ...tasks.task import Task
from ..definitions.argument_fields import (
    ARGUMENT,
    OTHERS,
    ArgumentsMixin,
    MomentField,
)
from .declare import ENCRYPTED, check_name
from .options import Recurrence
from .tables import Schedule
from .timetable import checked_cron, checked_interval, checked_timezone

WRONG = {
    "name": _("A name has 1 to 200 characters, and no control characters."),
    "every": _("An interval takes 1 s to 100 years."),
    "cron": _(
        "This is not a cron expression of five fields, such as 0 3 * * mon-fri, or it "
        "never fires."
    ),
    "timezone": _("No time zone has this name. Europe/Berlin is one."),
    "jitter": _("A jitter takes 0 s to 100 years."),
}
SHORT_INTERVAL = re.compile(r"\d+(?:\.\d+)?[smhd]")


class IntervalField(forms.DurationField):
    """A duration such as 2h or 15m, or as Django writes it."""

    def to_python(self, value):
        if isinstance(value, str) and SHORT_INTERVAL.fullmatch(value.strip()):
            with suppress(InvalidFilter):
                return age(value.strip())
        return super().to_python(value)


class TaskForm(forms.Form):
    """Which task a new schedule is for."""

    task = forms.ChoiceField(label=_("Task"))

    def __init__(self):
        super().__init__()
        self.fields["task"].choices = task_choices()


class ScheduleForm(ArgumentsMixin, forms.ModelForm):
    every = IntervalField(
        label=_("Every"),
        required=False,
        help_text=_("Such as 2h, 15m or 7d, or 02:00:00. Or give a cron."),
    )
    start_at = MomentField(label=_("Start"), required=False)
    end_at = MomentField(label=_("End"), required=False)
    # Whether the user may see arguments; otherwise they stay as they are.
    takes_arguments = True

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
            "cron": _(
                "Minute, hour, day of month, month, day of week: 0 3 * * mon-fri"
            ),
            "timezone": _("Of the cron: a name such as Europe/Berlin."),
            "jitter": _("Each run starts later by a random time of at most this."),
        }

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        if "task" in self.fields:
            self.fields["task"] = forms.ChoiceField(
                label=_("Task"), choices=task_choices()
            )
        task = registry.find(self.chosen_task)
        if task is not None and self.takes_arguments:
            self.add_arguments(task, enqueues=False)
            if task.name == self.instance.task:
                self.begin_with(self.instance.kwargs)

    @property
    def chosen_task(self) -> str:
        """The task whose arguments the form asks for."""
        if "task" not in self.fields:
            return self.instance.task
        chosen = self.data.get("task") or self.initial.get("task")
        return chosen or self.instance.task

    # In the operator's language; what `Recurrence` raises is for programmers.

    def clean_name(self) -> str:
        name = self.cleaned_data["name"]
        self.checked(check_name, name, WRONG["name"])
        return name

    def clean_every(self) -> timedelta | None:
        return self.checked(
            checked_interval, self.cleaned_data["every"], WRONG["every"]
        )

    def clean_cron(self) -> str:
        return self.checked(checked_cron, self.cleaned_data["cron"], WRONG["cron"])

    def clean_timezone(self) -> str:
        zone = self.cleaned_data["timezone"]
        return self.checked(checked_timezone, zone, WRONG["timezone"])

    def clean_jitter(self) -> timedelta:
        jitter = self.cleaned_data["jitter"]
        self.checked(partial(non_negative_seconds, "jitter"), jitter, WRONG["jitter"])
        return jitter

    def checked(self, check: Callable, value: Any, problem: Any) -> Any:
        try:
            return value if value in (None, "") else check(value)
        except ValueError as error:
            raise forms.ValidationError(problem) from error

    def clean(self):
        cleaned = super().clean()
        if self.errors or not {"every", "cron", "timezone"} <= cleaned.keys():
            return cleaned
        for field, problem in list(self.contradictions(cleaned)):
            self.add_error(field, problem)
        if not self.errors:
            self.check_recurrence(cleaned)
        if not self.errors:
            self.check_arguments(cleaned)
        return cleaned

    def contradictions(self, cleaned) -> Iterator[tuple[str, Any]]:
        """Yield what is wrong with fields that are right each by itself."""
        if not cleaned["every"] and not cleaned["cron"]:
            yield "every", _("Give an interval or a cron.")
        if cleaned["every"] and cleaned["cron"]:
            yield "cron", _("Give an interval or a cron, not both.")
        if cleaned["anchor"] == "end" and not cleaned["every"]:
            yield "anchor", _("Only an interval can begin with the end of a run.")
        start, end = cleaned["start_at"], cleaned["end_at"]
        if start and end and start >= end:
            yield "end_at", _("The end must be later than the start.")

    def check_recurrence(self, cleaned) -> None:
        """Check the rest, as the code of a project is checked."""
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
            self.add_error(None, str(error))
        else:
            cleaned.update(cron=checked.cron, timezone=checked.timezone)

    def encrypted_of(self, task: Task) -> Iterator[str]:
        """Yield encrypted parameters for which a value was entered."""
        for field in self.argument_names:
            name = field.removeprefix(ARGUMENT)
            if task.options.covers(name) and field in self.changed_data:
                yield name
        for name in self.cleaned_data.get(OTHERS) or ():
            if task.options.covers(name):
                yield name

    def check_arguments(self, cleaned) -> None:
        """Store the arguments as an enqueue would, checked by the type hints."""
        task = registry.find(cleaned.get("task", self.instance.task))
        if task is None:
            name = cleaned.get("task", self.instance.task)
            text = _("No code here declares the task %(task)s.")
            self.add_error(None, text % {"task": name})
            return
        given = self.given() if self.takes_arguments else ([], self.instance.kwargs)
        if faults := dict.fromkeys(self.encrypted_of(task), ENCRYPTED):
            return self.add_faults(faults)
        try:
            stored = task.signature.store(tuple(given[0]), given[1])
        except InvalidArguments as error:
            self.add_faults(error.faults)
        except InvalidTask as error:
            self.add_error(None, str(error))
        else:
            self.instance.args = json.loads(stored.args)
            self.instance.kwargs = json.loads(stored.kwargs)


def task_choices() -> list[tuple[str, str]]:
    names = sorted({task.name for task in registry.all_tasks()})
    return [(name, name) for name in names]
