"""Fields for the arguments of a task, made from its signature."""

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime
from typing import Any

from django import forms
from django.contrib.admin import widgets
from django.core.exceptions import NON_FIELD_ERRORS
from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext_lazy as _

from ...admin.forms import JsonField
from ...base.plain_json import dump
from ...reports.secrets import holds_secret
from ...tasks.task import Task
from .schema_fields import SchemaFields, initial_of, takes_null
from .schemas import parameters_of


class MomentField(forms.SplitDateTimeField):
    """Names each of its two boxes, which share one label."""

    widget = widgets.AdminSplitDateTime

    def __init__(self, **options):
        super().__init__(**options)
        self.name_boxes(self.label or "")

    def name_boxes(self, label: Any) -> None:
        names = (_("%(label)s: date"), _("%(label)s: time"))
        for box, name in zip(self.widget.widgets, names, strict=True):
            box.attrs["aria-label"] = name % {"label": label}


class AdminFields(SchemaFields):
    """Makes fields with the widgets of the admin."""

    integer_widget = widgets.AdminBigIntegerFieldWidget
    date_widget = widgets.AdminDateWidget
    time_widget = widgets.AdminTimeWidget
    text_widget = number_widget = widgets.AdminTextInputWidget
    json_field = JsonField

    def moment_field(self) -> forms.Field:
        return MomentField()

    def boolean_field(self, words: Mapping[str, Any]) -> forms.Field:
        return self.choice_field([True, False], words)


ARGUMENT = "argument-"  # before the names of parameters, which may be any
OTHERS = "others"
MASKED = _("The value is masked. Leave the field empty to keep it.")


class ArgumentsMixin:
    """A form with a field for each parameter of a task.

    Arguments that are masked elsewhere are not shown here either. Their fields are
    empty, and the value that is there stays unless another is entered.
    """

    task: Task
    fields: dict[str, forms.Field]
    initial: dict[str, Any]
    cleaned_data: dict[str, Any]

    def add_arguments(self, task: Task, enqueues: bool) -> None:
        """Add the fields. `enqueues`: they offer words that only `enqueue` takes."""
        self.task = task
        self.kept: dict[str, Any] = {}
        self.schema = parameters_of(task.signature, task.__doc__)
        words = task.options.words_of_calls(task.signature) if enqueues else {}
        for name in self.schema["x-order"]:
            self.fields[ARGUMENT + name] = self.field_of(name, words.get(name, {}))
        if self.schema["additionalProperties"] is not False:
            self.fields[OTHERS] = JsonField(
                label=_("Other arguments"),
                required=False,
                help_text=_("A JSON object, by name."),
            )

    def field_of(self, name: str, words: dict[str, Any]) -> forms.Field:
        schema = self.schema["properties"][name]
        field = AdminFields().field_of(schema, words)
        field.label = name
        field.help_text = schema.get("description", "")
        if isinstance(field, MomentField):
            field.name_boxes(name)
        if "default" in schema:
            field.required = False
            field.initial = initial_of(field, schema["default"])
        return field

    @property
    def argument_names(self) -> list[str]:
        """The names of the fields."""
        return [field for field in self.fields if is_argument(field)]

    def begin_with(
        self, arguments: dict[str, Any], masked: Collection[str] = ()
    ) -> None:
        """Fill the fields; `masked`: arguments that are not shown whatever they are."""
        others = {}
        words = self.task.options.sensitive
        for name, value in arguments.items():
            field = self.fields.get(ARGUMENT + name)
            if name in masked or holds_secret({name: value}, words):
                self.keep(name, value, field)
            elif field is None:
                others[name] = value
            elif isinstance(field, MomentField):
                self.initial[ARGUMENT + name] = time_of(value)
            else:
                self.initial[ARGUMENT + name] = initial_of(field, value)
        if others and OTHERS in self.fields:
            self.initial[OTHERS] = dump(others)

    def keep(self, name: str, value: Any, field: forms.Field | None) -> None:
        self.kept[name] = value
        if field is not None:
            field.required = False
            field.initial = None
            field.help_text = MASKED

    def clean_others(self) -> dict[str, Any]:
        others = self.cleaned_data[OTHERS] or {}
        if not isinstance(others, dict):
            raise forms.ValidationError(_("Enter a JSON object."))
        if taken := sorted(others.keys() & set(self.schema["x-order"])):
            message = _("%(name)s has a field of its own.")
            raise forms.ValidationError(message, params={"name": taken[0]})
        return others

    def given(self) -> tuple[list[Any], dict[str, Any]]:
        """Return the arguments: those by position, and those by name."""
        parameters = self.task.signature.parameters
        named = dict(self.given_by_name())
        # Those that Python does not take by name come first in a signature.
        by_position = [name for name in named if not parameters[name].takes_name]
        positional = [named.pop(name) for name in by_position]
        kept = {k: v for k, v in self.kept.items() if ARGUMENT + k not in self.fields}
        return positional, {**kept, **self.cleaned_data.get(OTHERS, {}), **named}

    def given_by_name(self) -> Iterator[tuple[str, Any]]:
        """Yield the arguments; what was left empty is left to its default."""
        for name in self.schema["x-order"]:
            value = self.cleaned_data[ARGUMENT + name]
            schema = self.schema["properties"][name]
            if name in self.kept and value in (None, ""):
                yield name, self.kept[name]
            elif value is not None or "default" not in schema or takes_null(schema):
                yield name, value

    def add_faults(self, faults: dict[str, str]) -> None:
        """Put what is wrong with each argument beside its field."""
        for name, fault in faults.items():
            field = ARGUMENT + name
            if field in self.fields:
                self.add_error(field, fault)  # type: ignore[attr-defined]
            else:
                self.add_error(  # type: ignore[attr-defined]
                    NON_FIELD_ERRORS, f"{name}: {fault}"
                )


def names_of_fields(task: Task) -> tuple[str, ...]:
    """Return the names of the fields that a form has for the arguments of a task."""
    schema = parameters_of(task.signature, task.__doc__)
    others = () if schema["additionalProperties"] is False else (OTHERS,)
    return (*(ARGUMENT + name for name in schema["x-order"]), *others)


def is_argument(field: str) -> bool:
    return field == OTHERS or field.startswith(ARGUMENT)


def time_of(value: Any) -> datetime | None:
    """Return the time that a JSON value is, or None: SQL may have stored any value."""
    try:
        return parse_datetime(value) if isinstance(value, str) else None
    except ValueError:
        return None
