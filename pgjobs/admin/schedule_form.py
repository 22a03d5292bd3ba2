"""The form of a schedule: times and arguments, checked as `@task` checks them."""

import json
import re
from contextlib import suppress

from django import forms
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from ..exceptions import InvalidArguments, InvalidTask, UnknownTask
from ..models import Schedule
from ..reports.job_filters import InvalidFilter, age
from ..tasks.recurrence import Recurrence
from ..tasks.registry import registry
from ..tasks.schedules import check_name
from ..tasks.schemas import parameters_of
from .forms import JsonField
from .parameters import parameters

ARGUMENTS = _("A JSON object by the names of the task's parameters.")
SHORT_INTERVAL = re.compile(r"\d+(?:\.\d+)?[smhd]")


def arguments_in_words(name: str) -> str:
    """Return what the arguments of a task are, for the help of their field."""
    try:
        task = registry.get(name)
    except UnknownTask:
        return str(ARGUMENTS)
    schema = parameters_of(task.signature, task.__doc__)
    taken = [f"{each.name} ({each.type})" for each in parameters(schema)]
    names = gettext("The task takes: %(names)s.") % {"names": ", ".join(taken)}
    return f"{ARGUMENTS} {names}" if taken else str(ARGUMENTS)


class ArgumentsField(JsonField):
    """A JSON object: what the task gets, by the names of its parameters."""

    def to_python(self, value):
        text = forms.CharField.to_python(self, value)
        arguments = super().to_python(text or "{}")
        if not isinstance(arguments, dict):
            message = _('Enter a JSON object, such as {"client_id": 42}.')
            raise forms.ValidationError(message)
        return arguments


class IntervalField(forms.DurationField):
    """A duration such as 2h or 15m, or as Django writes it."""

    def to_python(self, value):
        if isinstance(value, str) and SHORT_INTERVAL.fullmatch(value.strip()):
            with suppress(InvalidFilter):
                return age(value.strip())
        return super().to_python(value)


class ScheduleForm(forms.ModelForm):
    every = IntervalField(
        label=_("Every"),
        required=False,
        help_text=_("Such as 2h, 15m or 7d, or 02:00:00. Or give a cron."),
    )
    arguments = ArgumentsField(
        label=_("Arguments"),
        required=False,
        help_text=ARGUMENTS,
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
            "cron": _(
                "Minute, hour, day of month, month, day of week: 0 3 * * mon-fri"
            ),
            "timezone": _("Of the cron: a name such as Europe/Berlin."),
            "jitter": _("Each run waits so long at most, at random."),
        }

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.initial["arguments"] = json.dumps(self.instance.kwargs, indent=2)
        if (task := self.instance.task) and "arguments" in self.fields:
            self.fields["arguments"].help_text = arguments_in_words(task)
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
            self.add_error(self.field_of(str(error)), str(error))
            return cleaned
        cleaned.update(cron=checked.cron, timezone=checked.timezone)
        self.check_arguments(cleaned)
        return cleaned

    def field_of(self, message: str) -> str | None:
        """Return the field that a message begins with, if it is one."""
        word = message.partition(" ")[0]
        name = f"{word}_at" if word in ("start", "end") else word
        return name if name in self.fields else None

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
