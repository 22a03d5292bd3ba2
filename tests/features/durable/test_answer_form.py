"""The form that is made from the type of an answer, and what it takes."""

from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from decimal import Decimal
from enum import Enum
from typing import Any, Literal
from uuid import UUID

import pytest
from django import forms
from django.test import override_settings
from pydantic import BaseModel, Field

from pgjobs.features.definitions.schema_fields import SchemaFields
from pgjobs.features.definitions.schemas import schema_of_type
from pgjobs.features.durable.answer_form import AnswerForm
from pgjobs.tasks.hints import Hint, json_data

IN_UTC = override_settings(TIME_ZONE="UTC")


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Place:
    city: str


@dataclass
class Order:
    zip_code: str
    approved: bool
    amount: Decimal
    day: date
    at: time
    colour: Colour
    place: Place
    number: int = 3
    note: str = ""
    limit: float | None = None
    names: list[str] = field(default_factory=list)


class Small(BaseModel):
    euros: int = Field(ge=1, le=100)
    code: str = Field(default="abc", min_length=2, max_length=5)


@dataclass
class Account:
    user: str
    api_token: str = "initial"


def form(kind: Any, name: str = "question", **data: str) -> AnswerForm:
    schema = schema_of_type(kind)
    schema["x-order"] = list(schema.get("properties", ()))
    entered = {f"answer-{key}": value for key, value in data.items()}
    return AnswerForm(schema, name, (), entered or None)


@pytest.mark.parametrize(
    ("kind", "entered", "value"),
    [
        (bool, "true", True),
        (bool, "false", False),
        (str, "two words", "two words"),
        (int, "12", 12),
        (float, "1.5", 1.5),
        (Decimal, "12.50", Decimal("12.50")),
        (date, "2026-11-30", date(2026, 11, 30)),
        (time, "12:30", time(12, 30)),
        (datetime, "2026-11-30T12:30", datetime(2026, 11, 30, 12, 30, tzinfo=UTC)),
        (Literal["yes", "no", 3], '"no"', "no"),
        (Literal["yes", "no", 3], "3", 3),
        (Colour, '"blue"', Colour.BLUE),
        (
            UUID,
            "9f2c1f0e-0a3c-4b43-9a53-0c6f0a3b6f10",
            UUID("9f2c1f0e-0a3c-4b43-9a53-0c6f0a3b6f10"),
        ),
        (list[int], "[1, 2]", [1, 2]),
        (dict[str, int], '{"a": 1}', {"a": 1}),
        (int | None, "5", 5),
    ],
    ids=repr,
)
@IN_UTC
def test_one_field_takes_an_answer_without_members(kind, entered, value):
    made = form(kind, answer=entered)
    assert made.is_valid(), made.errors
    assert Hint(kind).load(json_data(made.value())) == value


@pytest.mark.parametrize(
    ("kind", "entered"),
    [
        (bool, "maybe"),
        (str, ""),
        (int, "1.5"),
        (int, "9" * 5_000),
        (float, "nan"),
        (Decimal, "Infinity"),
        (date, "2026-02-30"),
        (Literal["yes", "no"], '"never"'),
        (list[int], "[1"),
        (list[int], "[" * 5_000),
        (str, "a\0b"),
    ],
    ids=lambda each: repr(each)[:40],
)
def test_what_does_not_fit_is_said_beside_the_field(kind, entered):
    made = form(kind, answer=entered)
    assert not made.is_valid()
    assert list(made.errors) == ["answer"]


ENTERED = {
    "zip_code": "0123",
    "approved": "true",
    "amount": "9.90",
    "day": "2026-11-30",
    "at": "08:00",
    "colour": '"red"',
    "place": '{"city": "Bern"}',
}


def test_class_has_a_field_for_each_member_in_its_order():
    assert list(form(Order).fields) == list(Order.__dataclass_fields__)


def test_answer_is_the_class_and_what_was_left_empty_has_its_default():
    made = form(Order, **ENTERED, note="", limit="", names="", number="")
    assert made.is_valid(), made.errors
    assert Hint(Order).load(json_data(made.value())) == Order(
        zip_code="0123",
        approved=True,
        amount=Decimal("9.90"),
        day=date(2026, 11, 30),
        at=time(8),
        colour=Colour.RED,
        place=Place("Bern"),
    )


def test_member_without_a_default_has_to_be_answered():
    made = form(Order, **{**ENTERED, "approved": "", "amount": ""})
    assert not made.is_valid()
    assert set(made.errors) == {"approved", "amount"}


def test_limits_of_a_model_are_said_beside_the_fields():
    made = form(Small, euros="101", code="too long")
    assert not made.is_valid()
    assert set(made.errors) == {"euros", "code"}


def test_defaults_are_entered_already():
    assert form(Small)["code"].value() == "abc"


def test_labels_are_words():
    assert form(Small)["euros"].label == "Euros"
    assert form(Order)["zip_code"].label == "Zip code (optional)"


@override_settings(TIME_ZONE="Europe/Vienna")
def test_moment_says_in_which_zone_it_is():
    assert form(datetime)["answer"].help_text == "Time zone: Europe/Vienna"


def test_secret_member_is_no_plain_text_and_shows_no_default():
    made = form(Account)
    assert isinstance(made.fields["api_token"].widget, forms.PasswordInput)
    assert "initial" not in made.as_div()


def test_secret_member_keeps_its_default_if_nothing_is_entered():
    made = form(Account, user="ada", api_token="")
    assert made.is_valid()
    assert made.value() == {"user": "ada"}


def test_secret_answer_is_no_plain_text():
    made = form(str, "api_token")
    assert isinstance(made.fields["answer"].widget, forms.PasswordInput)


def test_entered_secret_is_not_shown_again():
    made = form(Account, user="", api_token="hunter2")
    made.add_faults(ValueError(), {"api_token": "should be longer, got 'hunter2'"})
    assert "should be longer" in made.as_div()
    assert "hunter2" not in made.as_div()


@pytest.mark.parametrize(
    "schema",
    [
        None,
        [],
        "no schema",
        {},
        {"type": "object", "properties": [1]},
        {"type": "object", "properties": {"a": 1}},
        {"anyOf": []},
    ],
)
def test_schema_that_sql_has_stored_makes_a_form(schema):
    assert list(AnswerForm(schema, "question").fields) == ["answer"]


def test_fields_have_the_widgets_of_browsers():
    made = SchemaFields().field_of({"type": "string", "format": "date"})
    assert 'type="date"' in made.widget.render("day", None)
