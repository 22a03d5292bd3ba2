"""The form of a task's arguments, made from its signature."""

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from django import forms
from django.contrib.admin import widgets
from django.core.exceptions import NON_FIELD_ERRORS
from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext_lazy as _

from ..base.plain_json import dump
from ..exceptions import AlreadyEnqueued, InvalidArguments, InvalidTask
from ..models import Job
from ..reports.texts import excerpt
from ..tasks.schemas import Schema, parameters_of
from ..tasks.task import Task
from ..tasks.write_all import ALL, IN_JSON
from .forms import JsonField

ARGUMENT = "argument-"  # before the names of parameters, which may be any
LONGEST_CHOICE = 100


class RunAfterWidget(widgets.AdminSplitDateTime):
    """Names each of its two boxes, which share one label."""

    def __init__(self, attrs=None):
        super().__init__(attrs)
        names = (_("Run after: date"), _("Run after: time"))
        for box, name in zip(self.widgets, names, strict=True):
            box.attrs["aria-label"] = name


class JobForm(forms.Form):
    """The arguments and options of a new job of the task."""

    queue_name = forms.CharField(
        label=_("Queue"),
        required=False,
        max_length=200,
        widget=widgets.AdminTextInputWidget,
    )
    priority = forms.IntegerField(
        label=_("Priority"), required=False, min_value=-100, max_value=100
    )
    run_after = forms.SplitDateTimeField(
        label=_("Run after"), required=False, widget=RunAfterWidget
    )

    def __init__(self, task: Task, data=None, like: Job | None = None):
        """Make the form; `like` is a job whose arguments and options it begins with."""
        super().__init__(data)
        self.task = task
        self.schema = parameters_of(task.signature, task.__doc__)
        self.all_values = task.options.values(task.signature)
        for name in self.schema["x-order"]:
            self.fields[ARGUMENT + name] = self.field_of(name)
        if self.schema["additionalProperties"] is not False:
            self.fields["others"] = JsonField(
                label=_("Other arguments"),
                required=False,
                help_text=_("A JSON object, by name."),
            )
        self.initial["queue_name"] = task.options.queue_name
        self.initial["priority"] = task.options.priority
        if like is not None:
            self.initial |= {"queue_name": like.queue_name, "priority": like.priority}
            self.begin_with(like.kwargs if isinstance(like.kwargs, dict) else {})

    def field_of(self, name: str) -> forms.Field:
        schema = self.schema["properties"][name]
        field = field_of(schema, name in self.all_values)
        field.label = name
        field.help_text = schema.get("description", "")
        if "default" in schema:
            field.required = False
            field.initial = initial_of(field, schema["default"])
        return field

    def begin_with(self, arguments: dict[str, Any]) -> None:
        others = {}
        for name, value in arguments.items():
            field = self.fields.get(ARGUMENT + name)
            if field is None:
                others[name] = value
            elif isinstance(field, forms.SplitDateTimeField):
                self.initial[ARGUMENT + name] = time_of(value)
            else:
                self.initial[ARGUMENT + name] = initial_of(field, value)
        if others and "others" in self.fields:
            self.initial["others"] = dump(others)

    @property
    def fieldsets(self) -> list[tuple[Any, list]]:
        options = [self[name] for name in ("queue_name", "priority", "run_after")]
        named = {field.name for field in options}
        arguments = [field for field in self if field.name not in named]
        return [(_("Arguments"), arguments), (_("Job"), options)]

    def clean_others(self) -> dict[str, Any]:
        others = self.cleaned_data["others"] or {}
        if not isinstance(others, dict):
            raise forms.ValidationError(_("Enter a JSON object."))
        if taken := sorted(others.keys() & set(self.schema["x-order"])):
            message = _("%(name)s has a field of its own.")
            raise forms.ValidationError(message, params={"name": taken[0]})
        return others

    def given(self) -> Iterator[tuple[str, Any]]:
        """Yield the arguments; what was left empty is left to its default."""
        for name in self.schema["x-order"]:
            value = self.cleaned_data[ARGUMENT + name]
            schema = self.schema["properties"][name]
            if value is not None or "default" not in schema or takes_null(schema):
                yield name, value

    def enqueue(self) -> list[Job] | None:
        """Enqueue the job, or the jobs of ALL.

        Returns None if the arguments were refused: the form has the errors then.
        """
        parameters = self.task.signature.parameters
        named = dict(self.given())
        # Those that Python does not take by name come first in a signature.
        by_position = [name for name in named if not parameters[name].takes_name]
        others = self.cleaned_data.get("others", {})
        try:
            enqueued = self.task.using(
                queue_name=self.cleaned_data["queue_name"] or None,
                priority=self.cleaned_data["priority"],
                run_after=self.cleaned_data["run_after"],
            ).enqueue(*[named.pop(name) for name in by_position], **others, **named)
        except InvalidArguments as error:
            for name, fault in error.faults.items():
                self.add_fault(name, fault)
            return None
        except (AlreadyEnqueued, InvalidTask) as error:
            self.add_error(None, str(error))
            return None
        jobs = enqueued if isinstance(enqueued, list) else [enqueued]
        return [job for job in jobs if job is not None]

    def add_fault(self, name: str, fault: str) -> None:
        field = ARGUMENT + name
        if field in self.fields:
            self.add_error(field, fault)
        else:
            self.add_error(NON_FIELD_ERRORS, f"{name}: {fault}")


def time_of(value: Any) -> datetime | None:
    """Return the time that a JSON value is, or None: SQL may have stored any value."""
    try:
        return parse_datetime(value) if isinstance(value, str) else None
    except ValueError:
        return None


def takes_null(schema: Schema) -> bool:
    return (
        schema.get("type") == "null"
        or None in schema.get("enum", ())
        or any(takes_null(each) for each in schema.get("anyOf", ()))
    )


def field_of(schema: Schema, takes_all: bool = False) -> forms.Field:
    """Return the field for the values of a schema."""
    if "anyOf" in schema:
        others = [each for each in schema["anyOf"] if each.get("type") != "null"]
        if len(others) < len(schema["anyOf"]) and len(others) == 1:
            field = field_of(others[0], takes_all)
            field.required = False
            return field
    if "enum" in schema:
        return choice_field(schema["enum"], takes_all)
    match schema:
        case {"x-checked-by": _}:
            return JsonField()
        case {"type": "boolean"}:
            return choice_field([True, False], takes_all)
        case {"type": "integer"}:
            return forms.IntegerField(
                min_value=schema.get("minimum"),
                max_value=schema.get("maximum"),
                widget=widgets.AdminBigIntegerFieldWidget,
            )
        case {"type": "number"}:
            return forms.FloatField()
        case {"format": "date"}:
            return forms.DateField(widget=widgets.AdminDateWidget)
        case {"format": "date-time"}:
            return forms.SplitDateTimeField(widget=widgets.AdminSplitDateTime)
        case {"format": "time"}:
            return forms.TimeField(widget=widgets.AdminTimeWidget)
        case {"format": "decimal"}:
            return forms.DecimalField(widget=widgets.AdminTextInputWidget)
        case {"format": "uuid"}:
            return forms.UUIDField(widget=widgets.AdminTextInputWidget)
        case {"type": "string"}:
            # An empty text is a value.
            return forms.CharField(
                required=False, strip=False, widget=widgets.AdminTextInputWidget
            )
    return JsonField()


def choice_field(values: list, takes_all: bool) -> forms.Field:
    choices = [(dump(each), excerpt(str(each), LONGEST_CHOICE)) for each in values]
    if takes_all:
        choices.append((IN_JSON, _("All: a job for each")))
    return forms.TypedChoiceField(
        choices=[("", "---------"), *choices],
        coerce=lambda text: ALL if text == IN_JSON else json.loads(text),
        empty_value=None,
    )


def initial_of(field: forms.Field, default: Any) -> Any:
    """Return a default, in its JSON form, as the field shows it."""
    if isinstance(field, forms.TypedChoiceField):
        return dump(default)
    if isinstance(field, JsonField):
        return None if default is None else dump(default)
    if isinstance(field, forms.SplitDateTimeField):
        return None  # it would be shown in another time zone; the help says it
    return default
