"""Fields of forms for the values of a JSON Schema, as `schemas.py` makes it."""

import json
from collections.abc import Mapping
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from ...base.plain_json import dump
from ...fields import JsonField
from ...reports.texts import excerpt
from .schemas import Schema

LONGEST_CHOICE = 100


class SchemaFields:
    """Makes fields with the widgets that browsers have; pages may have others."""

    integer_widget: Any = forms.NumberInput
    date_widget: Any = forms.DateInput(format="%Y-%m-%d", attrs={"type": "date"})
    time_widget: Any = forms.TimeInput(attrs={"type": "time", "step": 1})
    text_widget: Any = forms.TextInput
    number_widget: Any = forms.NumberInput
    json_field: type[JsonField] = JsonField

    def field_of(
        self, schema: Schema, words: Mapping[str, Any] | None = None
    ) -> forms.Field:
        """Return the field for the values of a schema.

        `words`: what may be chosen besides, with its label.
        """
        words = words or {}
        if "anyOf" in schema:
            others = [each for each in schema["anyOf"] if each.get("type") != "null"]
            if len(others) < len(schema["anyOf"]) and len(others) == 1:
                field = self.field_of(others[0], words)
                field.required = False
                return field
        if "enum" in schema:
            return self.choice_field(schema["enum"], words)
        match schema:
            case {"x-checked-by": _}:
                return self.json_field()
            case {"type": "boolean"}:
                return self.boolean_field(words)
            case {"type": "integer"}:
                return forms.IntegerField(
                    widget=self.integer_widget, **limits_of(schema)
                )
            case {"type": "number"}:
                return forms.FloatField(**limits_of(schema))
            case {"format": "date"}:
                return forms.DateField(widget=self.date_widget)
            case {"format": "date-time"}:
                return self.moment_field()
            case {"format": "time"}:
                return forms.TimeField(widget=self.time_widget)
            case {"format": "decimal"}:
                return forms.DecimalField(widget=self.number_widget)
            case {"format": "uuid"}:
                return forms.UUIDField(widget=self.text_widget)
            case {"type": "string"}:
                return self.text_field(schema)
        return self.json_field()

    def moment_field(self) -> forms.Field:
        return forms.DateTimeField(
            widget=forms.DateTimeInput(
                format="%Y-%m-%dT%H:%M", attrs={"type": "datetime-local"}
            )
        )

    def boolean_field(self, words: Mapping[str, Any]) -> forms.Field:
        return forms.TypedChoiceField(
            choices=[("true", _("Yes")), ("false", _("No"))],
            coerce=json.loads,
            empty_value=None,
            widget=forms.RadioSelect,
        )

    def text_field(self, schema: Schema) -> forms.Field:
        # An empty text is a value.
        return forms.CharField(
            required=schema.get("minLength", 0) > 0,
            strip=False,
            min_length=schema.get("minLength"),
            max_length=schema.get("maxLength"),
            widget=self.text_widget,
        )

    def choice_field(self, values: list, words: Mapping[str, Any]) -> forms.Field:
        choices = [
            (dump(value), excerpt(str(value), LONGEST_CHOICE)) for value in values
        ]
        return forms.TypedChoiceField(
            choices=[("", "---------"), *choices, *words.items()],
            coerce=lambda text: text if text in words else json.loads(text),
            empty_value=None,
        )


def limits_of(schema: Schema) -> dict[str, Any]:
    return {"min_value": schema.get("minimum"), "max_value": schema.get("maximum")}


def takes_null(schema: Schema) -> bool:
    return (
        schema.get("type") == "null"
        or None in schema.get("enum", ())
        or any(takes_null(each) for each in schema.get("anyOf", ()))
    )


def initial_of(field: forms.Field, default: Any) -> Any:
    """Return a default, in its JSON form, as the field shows it."""
    if isinstance(field, forms.TypedChoiceField):
        return dump(default)
    if isinstance(field, JsonField):
        return None if default is None else dump(default)
    if isinstance(field, forms.SplitDateTimeField | forms.DateTimeField):
        return None  # it would be shown in another time zone; the help says it
    return default
