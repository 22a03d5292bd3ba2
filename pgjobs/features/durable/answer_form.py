"""The form in which people answer what a job asks, made from the stored schema."""

import hashlib
import json
from collections.abc import Iterator
from typing import Any

from django import forms
from django.utils.html import escape
from django.utils.timezone import get_current_timezone_name
from django.utils.translation import gettext as _

from ...fields import JsonField
from ...reports.json_text import is_secret
from ..definitions.schema_fields import SchemaFields, initial_of, takes_null
from ..definitions.schemas import Schema

ANSWER = "answer"  # the only field, where the answer has no members
SEEN = "question.seen"  # a hidden field: which question the page has shown


class SeenField(forms.CharField):
    """Which question a page shows; what was sent does not change it."""

    def bound_data(self, data: Any, initial: Any) -> Any:
        return initial


class AnswerForm(forms.Form):
    """A field for each member of an object, or one for any other answer.

    A member that is masked elsewhere shows no default here, and what is entered is not
    shown again.
    """

    makes = SchemaFields()

    def __init__(
        self,
        asked: Any,
        name: str,
        words: tuple[str, ...] = (),
        data: Any = None,
        title: str | None = None,
    ):
        """Make the form.

        - `asked`: the stored schema; SQL may have stored anything.
        - `name`: of the answer.
        - `words`: names that the task calls sensitive.
        - `data`: what was sent.
        - `title`: the question, which must be the one that the sent form has shown.
        """
        super().__init__(data, prefix=ANSWER)
        self.schema: Schema = asked if isinstance(asked, dict) else {}
        self.words = words
        self.masked: set[str] = set()
        self.members = dict(members_of(self.schema))
        for member, schema in self.members.items():
            is_needed = member in self.schema.get("required", ())
            self.add(member, member, schema, is_needed=is_needed)
        if not self.members:
            self.add(ANSWER, name, self.schema, is_needed=True)
            self.fields[ANSWER].label = _("Answer")
            self.fields[ANSWER].required = True
        if title is not None and SEEN not in self.fields:
            self.fields[SEEN] = SeenField(
                required=False,
                widget=forms.HiddenInput,
                initial=question_of(self.schema, title),
            )

    def add(self, field: str, name: str, schema: Schema, *, is_needed: bool) -> None:
        """Add a field; `name` says whether its value is masked elsewhere."""
        made = self.fields[field] = self.makes.field_of(schema)
        label = field.replace("_", " ")
        made.label = label[:1].upper() + label[1:]
        made.required = made.required and is_needed
        if not made.required:
            made.label = _("%(label)s (optional)") % {"label": made.label}
        # Templates of Django write a help as it is.
        made.help_text = escape(schema.get("description", "")) or help_of(made)
        if is_secret(name, self.words):
            self.masked.add(field)
            if isinstance(made.widget, forms.TextInput):
                attributes = {"autocomplete": "off"}
                made.widget = forms.PasswordInput(attrs=attributes)
        elif "default" in schema:
            made.initial = initial_of(made, schema["default"])

    def clean(self) -> None:
        """Refuse what answers another question, as after a deploy.

        Pages of projects may leave the hidden field out.
        """
        field, seen = self.fields.get(SEEN), self.cleaned_data.get(SEEN)
        if isinstance(field, SeenField) and seen and seen != field.initial:
            text = _(
                "The question has changed since this page was opened. Check your "
                "answer, and send it again."
            )
            self.add_error(None, text)

    def value(self) -> Any:
        """Return the answer: what the fields have, after `is_valid`."""
        return dict(self.given()) if self.members else self.cleaned_data[ANSWER]

    def given(self) -> Iterator[tuple[str, Any]]:
        """Yield the members; what was left empty is left to its default."""
        for name, schema in self.members.items():
            value = self.cleaned_data[name]
            is_needed = name in self.schema.get("required", ())
            has_shown = "default" in schema and name not in self.masked
            is_left = (value is None and not takes_null(schema)) or (
                value == "" and not has_shown
            )
            if is_needed or not is_left:
                yield name, value

    def add_faults(self, error: ValueError, faults: dict[str, str]) -> None:
        """Put what is wrong with each member beside its field."""
        for name, fault in faults.items():
            shown = fault.partition(", got ")[0] if name in self.masked else fault
            self.add_error(name if name in self.fields else None, shown)
        if not faults:
            is_masked = ANSWER in self.masked
            text = str(error).partition(", got ")[0] if is_masked else str(error)
            self.add_error(None if self.members else ANSWER, text)


def question_of(schema: Schema, title: str) -> str:
    """Return a short text that differs for each question."""
    text = json.dumps([schema, title], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def help_of(field: forms.Field) -> Any:
    """Return how a value is entered in a field that does not show it."""
    if isinstance(field, JsonField):
        return _("As JSON.")
    if isinstance(field, forms.DateTimeField):
        return _("Time zone: %(zone)s") % {"zone": get_current_timezone_name()}
    return ""


def members_of(schema: Schema) -> Iterator[tuple[str, Schema]]:
    """Yield the members of an object in the order of its class."""
    properties = schema.get("properties")
    if schema.get("type") != "object" or not isinstance(properties, dict):
        return
    order = [name for name in schema.get("x-order", ()) if name in properties]
    for name in dict.fromkeys([*order, *properties]):
        if isinstance(properties[name], dict):
            yield name, properties[name]
