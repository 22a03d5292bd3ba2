"""Python's enqueue and SQL's: the same verdict, and the same row, for any arguments."""

import enum
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from types import FunctionType
from typing import Annotated, Any, Literal, NewType, Required
from uuid import UUID

import pytest
from annotated_types import Ge, Interval, Len
from django.db import models, transaction
from django.db.utils import Error
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field, PositiveInt, field_validator
from typing_extensions import TypedDict

from pgjobs import task
from pgjobs.exceptions import InvalidArguments
from tests.actors import execute
from tests.support.declared import store_definitions

pytestmark = pytest.mark.django_db


class Colour(enum.Enum):
    RED = "red"
    BLUE = 2


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 5


class Format(models.TextChoices):
    CSV = "csv", "Comma-separated"
    JSON = "json", "JSON"


@dataclass
class Point:
    x: int
    y: float = 0.5
    colour: Colour = Colour.RED


class Shape(BaseModel):
    points: list[Point]
    label: Annotated[str, Len(1, 3)] | None = None
    when: date = Field(date(2024, 2, 29), alias="x")


class Closed(BaseModel, extra="forbid"):
    x: Literal["a", 1]
    shape: Shape | None = None


class Open(BaseModel, extra="allow"):
    y: Decimal


class Loose(TypedDict, total=False):
    x: Required[int]
    points: dict[str, Point]


@dataclass
class Priced:
    x: Decimal
    points: set[Decimal] | None = None


class Even(BaseModel):
    x: int

    @field_validator("x")
    @classmethod
    def is_even(cls, value: int) -> int:
        return value


HINTS: list[Any] = [
    Point,
    Shape,
    Closed,
    Open,
    Loose,
    Even,
    list[Point | None],
    dict[str, Shape] | int,
    Any,
    int,
    float,
    str,
    bool,
    None,
    date,
    datetime,
    time,
    Decimal,
    Decimal | None,
    UUID,
    list,
    dict,
    tuple,
    Colour,
    Level,
    Format,
    ["csv", "json", None],
    (1, 2, 3),
    Literal["1", 1],
    int | None,
    int | float,
    float | int | str,
    str | list[int] | None,
    Literal["a"] | int | dict[str, Any] | bool,
    list[int | None],
    list[list[float]],
    tuple[int, str],
    tuple[date, ...],
    dict[str, datetime],
    PositiveInt,
    Annotated[int, Interval(ge=-5, lt=5)],
    Annotated[float, Ge(0.5)],
    Annotated[str, Len(1, 3)],
    Annotated[list[str], Field(min_length=1, max_length=2)],
    NewType("ClientId", int),
]
# Of these keys are made, of every kind.
KEYED: list[Any] = [
    datetime,
    Decimal,
    Decimal | None,
    set[int],
    set[str],
    set[Decimal],
    list[datetime],
    dict[str, datetime],
    tuple[datetime, Decimal],
    set[tuple[Decimal, int]],
    Priced,
    Any,
    float,
]
HINTS += KEYED
OPTIONS: list[dict[str, Any]] = [
    {},
    {"lock": "value-{value}", "queue_name": "odd", "priority": -3, "timeout": 2.5},
    {"unique": True, "unique_for": "waiting", "max_attempts": 7, "max_crashes": 1},
    {"unique_key": "{value}{{}}", "lock_mode": "mutex", "max_running": 2},
    {"rate": "90/minute", "burst": 3, "limit_key": "{value}", "max_running": 1},
    {"unique": ("value",), "unique_for": 60, "lock": "one"},
]
# Not the same row for row: id, turn, and what the clock says.
ROW = """
SELECT to_jsonb(job) - '{id,turn,enqueued_at,unique_until}'::text[]
    || jsonb_build_object('period', unique_until - enqueued_at > '59 s')
FROM pgjobs_job AS job WHERE id = %(id)s
"""


def task_with(number: int, hint: Any, options: dict[str, Any]):
    def body(value): ...

    name = f"parity_{number}"
    function = FunctionType(body.__code__, globals(), name)
    function.__qualname__ = name
    function.__annotations__ = {"value": hint}
    return task(**options)(function)


def options_of(number: int) -> dict[str, Any]:
    if number < len(HINTS) - len(KEYED):
        return OPTIONS[number % len(OPTIONS)]
    return {"unique": True}


@pytest.fixture
def tasks(db):
    made = [
        task_with(number, hint, options_of(number)) for number, hint in enumerate(HINTS)
    ]
    store_definitions("default")
    return made


# What JSON can say of numbers, and PostgreSQL keeps: a float shows its decimal places.
floats = st.floats(allow_nan=False, allow_infinity=False).filter(
    lambda number: "e+" not in repr(number)
)
WORDS = """
a 1 csv red ALL éééé 2024-02-29 2023-02-29 2024-13-01 0000-01-01
2024-02-29T23:59:59Z 2024-02-29_10:00:00.12+0530 2024-02-29T24:00:00
2024-02-29T10:00:00,123456789-00:00 2024-02-29T10:00:00+24:00
2024-02-29T10:00:00+01 2024-02-29T10:00:60 2024-02-29t00:00
550E8400-E29B-41D4-A716-446655440000 550e8400e29b41d4a716446655440000
{550e8400-e29b-41d4-a716-446655440000} urn:uuid:550e8400
10:00 23:59:59.5Z 24:00 10:00:00,123456789+01:00 10
1.50 +007 .5 5. . -1.0 1.2.3 -0 NaN Infinity 0.000001 99999999999999999999.10
urn:uuid:550e8400-e29b-41d4-a716-446655440000
"""
ODD_WORDS = ("", "2024-02-29 00:00", "a\nb\"c\\d\x7f\x1f\u2028'%s{}")
words = st.sampled_from([*WORDS.split(), *ODD_WORDS])
texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
moments = st.one_of(
    st.dates().map(str),
    st.datetimes().map(datetime.isoformat),
    st.times().map(time.isoformat),
    st.uuids().map(str),
    st.decimals(places=2, allow_nan=False, allow_infinity=False).map(str),
)
integers = st.one_of(
    st.integers(-6, 6),
    st.integers(),
    st.sampled_from([10**15, 10**16, -(10**400), 2**14_000 - 1, 2**14_000]),
)
scalars = st.one_of(st.none(), st.booleans(), integers, floats, words, texts, moments)


def objects(inner: st.SearchStrategy) -> st.SearchStrategy:
    """Return objects with members of the classes above, and sometimes another."""
    point = st.fixed_dictionaries(
        {"x": st.integers(-6, 6)},
        optional={
            "y": floats | inner,
            "colour": st.sampled_from(["red", 2, 1]),
            "z": inner,
        },
    )
    many = st.lists(point, max_size=2) | st.dictionaries(words, point, max_size=2)
    shape = st.fixed_dictionaries(
        {"points": many | inner},
        optional={"label": words | st.none(), "x": moments | inner},
    )
    return st.one_of(
        point,
        shape,
        st.dictionaries(words, shape, max_size=2),
        st.fixed_dictionaries(
            {"x": st.sampled_from(["a", 1]) | inner},
            optional={"shape": shape, "y": inner},
        ),
    )


values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(words | texts, inner, max_size=3),
        objects(inner),
    ),
    max_leaves=6,
)
others = st.dictionaries(st.sampled_from(["other", "value "]), scalars, max_size=1)
arguments = st.one_of(
    values.map(lambda value: {"value": value}),
    st.builds(lambda value, rest: {"value": value, **rest}, values, others),
    others,
)


def outcome(enqueue: Callable[[], int]) -> Any:
    """Return the stored row, or the names of the faulty parameters."""
    try:
        with transaction.atomic():
            row = execute(ROW, {"id": enqueue()})[0][0]
            transaction.set_rollback(True)
            return row
    except InvalidArguments as error:
        return set(error.faults)
    except Error as error:
        diagnosis = error.__cause__.diag
        assert diagnosis.sqlstate == "22023", error
        assert diagnosis.message_hint or ":" in diagnosis.message_primary
        return {diagnosis.column_name}


def takes_moments(hint: Any) -> bool:
    return bool(re.search("date|time", str(hint)))


def has_number_in_text(given: Any) -> bool:
    """Whether pydantic would take a text for seconds since 1970; SQL does not."""
    return bool(re.search(r'"[+-]?\d+\.?\d*"', json.dumps(given)))


def has_huge_number(given: Any) -> bool:
    """Whether a number has too many digits for Python; SQL drops a needless member."""
    return bool(re.search(r"\d{4000}", json.dumps(given)))


def outcomes(task, given: dict[str, Any]) -> tuple[Any, Any]:
    by_python = outcome(lambda: task.enqueue(**given).pk)
    by_sql = outcome(
        lambda: execute(
            "SELECT id FROM pgjobs_enqueue(%(task)s, %(arguments)s)",
            {"task": task.name, "arguments": json.dumps(given)},
        )[0][0]
    )
    return by_python, by_sql


def compare(task, given: dict[str, Any]) -> None:
    by_python, by_sql = outcomes(task, given)
    if isinstance(by_python, set):
        if has_huge_number(given):
            return
        assert isinstance(by_sql, set), (by_python, by_sql)
        assert by_sql <= by_python
    elif by_sql != by_python:  # of numbers the value counts, not how it is written
        assert execute(
            "SELECT %(python)s::jsonb = %(sql)s::jsonb",
            {"python": by_python, "sql": by_sql},
        ) == [(True,)], (by_python, by_sql)


FORMS = """
2026-10-25T02:30:00+02:00 2026-10-25T00:30:00Z 2026-10-25T00:30:00.5+00:00
0001-01-01T00:00:00+01:00 9999-12-31T23:59:59-01:00 2026-10-25T02:30:00
1.50 1.5 -0 0.00 100 1E+2 1e60 0.1e-60 -1_0.0 1E+999999 0.0000001
"""
forms = st.one_of(
    st.sampled_from(FORMS.split()),
    integers,
    floats,
)
forms = (
    forms
    | st.lists(forms, max_size=3)
    | st.lists(st.lists(forms, min_size=2, max_size=2), max_size=3)
)
forms = forms | st.fixed_dictionaries({"x": forms}, optional={"points": forms})


@settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(number=st.integers(len(HINTS) - len(KEYED), len(HINTS) - 1), value=forms)
def test_any_form_of_a_value_makes_the_same_keys(tasks, number, value):
    by_python, by_sql = outcomes(tasks[number], {"value": value})
    if isinstance(by_python, str) and isinstance(by_sql, str):
        assert json.loads(by_sql)["unique_key"] == json.loads(by_python)["unique_key"]


@settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(number=st.integers(0, len(HINTS) - 1), given_arguments=arguments)
@example(number=1, given_arguments={})
def test_any_arguments_have_the_same_verdict_and_row(tasks, number, given_arguments):
    if takes_moments(HINTS[number]) and has_number_in_text(given_arguments):
        return
    compare(tasks[number], given_arguments)
