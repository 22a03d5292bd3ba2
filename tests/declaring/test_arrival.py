"""Arrival: a task gets what it was given, or enqueueing says why it could not."""

import json
import os
import subprocess
import sys
from collections import Counter, OrderedDict, deque
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import pytest
from django.http import QueryDict
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    RootModel,
    with_config,
)
from pydantic.dataclasses import dataclass as checked_dataclass
from typing_extensions import TypedDict

from pgjobs import task
from pgjobs.base.plain_json import dump
from pgjobs.tasks.arguments import Stored
from tests.declaring.test_arguments import (
    SCALARS,
    Colour,
    Point,
    arrived,
    fault,
    name_of,
    taking,
    through_postgres,
)

BERLIN = ZoneInfo("Europe/Berlin")
LORD_HOWE = ZoneInfo("Australia/Lord_Howe")  # its clocks shift by half an hour


class Name(TypedDict):
    name: str


class Person(TypedDict):
    names: list[Name]


@with_config(ConfigDict(extra="ignore"))
class Lenient(TypedDict):
    name: str


class Order(BaseModel):
    number: int = Field(alias="orderNumber")
    buyer: Name | None = None


class Any1(BaseModel):
    number: int = Field(validation_alias=AliasChoices("number", "no"))


class Ignoring(BaseModel, extra="ignore"):
    x: int


class Allowing(BaseModel, extra="allow"):
    x: int


class Several(RootModel[list[Order]]): ...


@dataclass(frozen=True)
class Place:
    x: int
    seen: datetime | None = None


@checked_dataclass
class Renamed:
    x: int = Field(alias="X")


@dataclass(eq=False)
class Unequal:
    x: int


@dataclass
class Partly:
    x: int
    note: str = field(default="", compare=False)


@dataclass
class Tagged:
    tags: set[str]
    more: dict[str, frozenset[str]] = field(default_factory=dict)


class TaggedModel(BaseModel):
    tags: set[str] = Field(alias="Tags")
    inner: Tagged | None = None


# Moments


def moments_of_changes():
    """Yield local times around the hours that clocks show twice, or never."""
    for zone, day in (
        (BERLIN, datetime(2026, 10, 24, 22, tzinfo=UTC)),
        (BERLIN, datetime(2026, 3, 28, 23, tzinfo=UTC)),
        (LORD_HOWE, datetime(2026, 4, 4, 13, tzinfo=UTC)),
        (LORD_HOWE, datetime(2026, 10, 3, 14, tzinfo=UTC)),
    ):
        for quarters in range(20):
            yield (day + timedelta(minutes=15 * quarters)).astimezone(zone)
    for fold in (0, 1):  # a time that no clock shows
        yield datetime(2026, 3, 29, 2, 30, tzinfo=BERLIN, fold=fold)


@pytest.mark.django_db
def test_moment_arrives_in_the_nights_when_clocks_change():
    for moment in moments_of_changes():
        got = arrived(datetime, moment)
        assert got.astimezone(UTC) == moment.astimezone(UTC)
        assert got.utcoffset() == moment.utcoffset()


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("hint", "wrap", "unwrap"),
    [
        (list[datetime], lambda each: [each], lambda got: got[0]),
        (tuple[datetime, int], lambda each: (each, 1), lambda got: got[0]),
        (set[datetime], lambda each: {each}, lambda got: next(iter(got))),
        (dict[datetime, int], lambda each: {each: 1}, lambda got: next(iter(got))),
        (dict[str, datetime], lambda each: {"a": each}, lambda got: got["a"]),
        (datetime | None, lambda each: each, lambda got: got),
        (list[Place], lambda each: [Place(1, each)], lambda got: got[0].seen),
    ],
    ids=name_of,
)
def test_moment_arrives_inside_of_others(hint, wrap, unwrap):
    for moment in moments_of_changes():
        got = unwrap(arrived(hint, wrap(moment)))
        assert got.astimezone(UTC) == moment.astimezone(UTC)


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (time, time(2, 30, tzinfo=BERLIN)),
        (datetime, datetime(1890, 1, 1, tzinfo=BERLIN)),  # 53 minutes and 28 seconds
        (datetime, datetime(2026, 1, 1, tzinfo=timezone(timedelta(seconds=3601)))),
    ],
    ids=str,
)
def test_zone_that_iso_8601_cannot_say_is_refused(hint, value):
    assert "would arrive as" in fault(hint, value)


# Parts that a hint does not name


@pytest.mark.parametrize(
    ("hint", "value", "where"),
    [
        (Name, {"name": "x", "other": 1}, "['other']"),
        (list[Name], [{"name": "x"}, {"name": "x", "other": 1}], "[1]['other']"),
        (dict[str, Name], {"a": {"name": "x", "other": 1}}, "['a']['other']"),
        (Person, {"names": [{"name": "x", "other": 1}]}, "['names'][0]['other']"),
        (Name | None, {"name": "x", "other": 1}, "['other']"),
        (Point, {"x": 1, "other": 1}, "['other']"),
        (set[Place], [{"x": 1}, {"x": 2, "other": 1}], "[1]['other']"),
        (Order, {"orderNumber": 1, "other": 1}, "['other']"),
        (
            Order,
            {"orderNumber": 1, "buyer": {"name": "x", "other": 1}},
            "['buyer']['other']",
        ),
        (Several, [{"orderNumber": 1, "other": 1}], "[0]['other']"),
        (Any1, {"no": 1, "other": 1}, "['other']"),
        (Renamed, {"X": 1, "other": 1}, "['other']"),
    ],
)
def test_part_that_a_hint_does_not_name_is_refused(hint, value, where):
    assert fault(hint, value) == f"{where} extra inputs are not permitted, got 1"


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("hint", "value", "got"),
    [
        (Ignoring, {"x": 1, "other": 1}, Ignoring(x=1)),
        (Allowing, {"x": 1, "other": 1}, Allowing(x=1, other=1)),
        (Lenient, {"name": "x", "other": 1}, {"name": "x"}),
        (Any1, {"no": 1}, Any1(number=1)),
        (Renamed, {"X": 1}, Renamed(X=1)),
        (
            Annotated[Name, BeforeValidator(lambda each: {"name": each["first"]})],
            {"first": "x", "other": 1},
            None,
        ),
    ],
)
def test_class_decides_what_becomes_of_other_parts(hint, value, got):
    if got is None:  # what such a validator returns does not pass it again
        assert "first" in fault(hint, value)
    else:
        assert arrived(hint, value) == got


@pytest.mark.parametrize(
    ("hint", "value", "because"),
    [
        (dict[int, int], {"1": 1, "01": 2}, "several keys would become one"),
        (Any, QueryDict("x=1&x=2"), "QueryDict is not JSON"),
        (dict, QueryDict("x=1"), "QueryDict is not JSON"),
        (dict[str, str], QueryDict("x=1&x=2"), "pass its dict()"),
        (Any, {"post": QueryDict("x=1&x=2")}, "QueryDict is not JSON"),
        (OrderedDict[str, int], OrderedDict(b=1, a=2), "in another order"),
        (OrderedDict[str, int], OrderedDict(aa=1, b=2), "in another order"),
        (deque[int], deque([1, 2], maxlen=3), "would arrive as deque([1, 2])"),
        (dict[frozenset[int], int], {frozenset({1}): 1}, "not valid as object key"),
    ],
)
def test_what_no_json_of_postgres_keeps_is_refused(hint, value, because):
    assert because in fault(hint, value)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (OrderedDict[str, int], OrderedDict(a=1, b=2, aa=3)),
        (Counter[str], Counter("aab")),
        (deque[int], deque([1, 2])),
        (Partly, Partly(1, "noted")),
        (Path, Path("a/b")),
    ],
)
def test_less_common_types_arrive_as_themselves(hint, value):
    got = arrived(hint, value)
    assert (got, type(got)) == (value, type(value))


@pytest.mark.django_db
def test_object_of_a_class_without_equality_arrives():
    assert arrived(Unequal, Unequal(5)).x == 5


# Numbers


@pytest.mark.django_db
@pytest.mark.parametrize("hint", [Any, float, int | float, object])
@pytest.mark.parametrize("number", [1e15, 1e16, 1e22, -1e23, 1.5e300, 5e-324, 1e-7])
def test_float_arrives_as_a_float_however_large(hint, number):
    assert repr(arrived(hint, number)) == repr(number)
    assert repr(arrived(list[hint], [number])) == f"[{number!r}]"


@pytest.mark.django_db
@pytest.mark.parametrize("hint", [Any, float])
def test_negative_zero_arrives_as_zero_and_is_its_key(hint):
    assert repr(arrived(hint, -0.0)) == "0.0"
    assert taking(hint).store((-0.0,), {}) == taking(hint).store((0.0,), {})


def test_texts_that_look_like_numbers_are_left_alone():
    value = ["1e+22", '"1e+22', "\\", "-0.0", {"-0.0": -0.05}]
    assert json.loads(dump(value)) == value


# One key


@task(unique=True)
def tagged(
    tags: set[str], by: dict[str, set[str]], model: TaggedModel, **rest: Tagged
): ...


@task(unique=True)
def valued(
    value: Any = None, *, when: datetime | None = None, price: Decimal | None = None
): ...


KEYS = """
import os
import django
django.setup()
from datetime import datetime, UTC
from zoneinfo import ZoneInfo
from tests.declaring.test_arrival import Tagged, TaggedModel, tagged, valued
words = {"one", "two", "three", "four", "five", "six"}
inner = Tagged(words, {"a": frozenset(words)})
model = TaggedModel(Tags=words, inner=inner)
moment = datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
moment = moment.astimezone(ZoneInfo(os.environ["ZONE"]))
for bound in (tagged.bind(words, {"a": words}, model, more=inner),
              valued.bind(when=moment)):
    print(bound.new_job.unique_key)
"""


def test_the_same_arguments_make_the_same_key_in_every_process():
    keys = {
        subprocess.run(
            [sys.executable, "-c", KEYS],
            env=os.environ
            | {"PYTHONHASHSEED": str(seed), "ZONE": zone}
            | {"PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed, zone in enumerate(("UTC", "Europe/Berlin", "Asia/Kolkata"))
    }
    assert len(keys) == 1


def key_of(value: Any, hint: Any) -> str:
    """Return the unique key of a job with one argument."""
    signature = taking(hint)
    stored = signature.store((value,), {})
    return valued.options.key_of_arguments("task", signature.in_key_form(stored))


@pytest.mark.parametrize(
    ("hint", "values"),
    [
        (Decimal, [5, "5", 5.0, Decimal(5), Decimal("5.00"), Decimal("0.5E+1")]),
        (Decimal, [Decimal("-0.0"), Decimal(0), "0E+7"]),
        (Decimal, [Decimal("1E+100"), Decimal("10E+99")]),
        (Decimal, [Decimal("1E-100"), Decimal("10E-101")]),
        (set[Decimal], [{Decimal("1.0"), Decimal(2)}, [2, "1.00"]]),
        (Colour, [Colour.RED, "red"]),
        (float, [1, 1.0]),
        (float, [0.0, -0.0]),
        (dict, [{"a": 1, "b": 2}, {"b": 2, "a": 1}]),
        (Point, [Point(1), {"x": 1}, {"day": None, "x": 1}]),
        (set[int], [{1, 2, 3}, [3, 2, 1], [1, 1, 2, 3]]),
        (timedelta, [timedelta(minutes=1), "PT60S", "PT1M"]),
        (
            list[datetime],
            [
                [datetime(2026, 10, 25, 0, 30, tzinfo=UTC)],
                [datetime(2026, 10, 25, 0, 30, tzinfo=UTC).astimezone(BERLIN)],
                ["2026-10-25T02:30:00+02:00"],
                ["2026-10-25T00:30:00Z"],
                ["2026-10-24T19:00:00-05:30"],
            ],
        ),
    ],
)
def test_equal_values_make_one_key(hint, values):
    assert len({key_of(each, hint) for each in values}) == 1


def test_values_that_differ_make_keys_that_differ():
    prices = ["0", "1", "10", "100", "0.1", "0.01", "1.1", "-1", "1E+60", "1E+61"]
    prices += ["1E-60", "11E-60"]
    assert len({key_of(each, Decimal) for each in prices}) == len(prices)
    hours = [datetime(2026, 10, 25, hour, 30, tzinfo=UTC) for hour in range(3)]
    local = [each.astimezone(BERLIN) for each in hours]
    assert len({key_of(each, datetime) for each in local}) == 3


def test_lock_of_a_moment_is_the_same_in_each_zone():
    moment = datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    locked = valued.using(unique=False, lock="slot-{when}-{price}")
    locks = {
        locked.bind(when=when, price=price).new_job.keys["lock"]
        for when in (moment, moment.astimezone(BERLIN))
        for price in (Decimal("1.50"), Decimal("1.5"))
    }
    assert locks == {"slot-2026-10-25T00:30:00Z-1.5"}


def test_function_that_makes_a_key_gets_what_the_task_gets():
    def by_hour(value, *, when, price):
        return f"{when:%H}-{price * 2}"

    by_function = valued.using(unique_key=by_hour)
    bound = by_function.bind(when="2026-10-25T02:30:00+02:00", price="1.5")
    assert bound.new_job.unique_key == "02-3.0"


# Whatever is accepted arrives, and makes one key


class Weekday(Enum):
    MONDAY = "mo"
    SUNDAY = 7


ZONES = [None, UTC, BERLIN, LORD_HOWE, ZoneInfo("Asia/Kolkata")]
moments = st.datetimes(
    datetime(1990, 1, 1), datetime(2040, 1, 1), timezones=st.sampled_from(ZONES)
)
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
LEAVES = [
    *SCALARS,
    (datetime, moments),
    (Weekday, st.sampled_from(Weekday)),
    (float, st.floats(allow_nan=False, allow_infinity=False)),
    (Place, st.builds(Place, st.integers(), st.none() | moments)),
    (
        Tagged,
        st.builds(Tagged, st.sets(texts), st.dictionaries(texts, st.frozensets(texts))),
    ),
    (Name, st.fixed_dictionaries({"name": texts})),
]


def holding(typed):
    """Return a strategy of (hint, value) that puts values of a hint into others."""
    hint, values = typed
    lists = st.lists(values, max_size=3)
    choices = [
        (list[hint], lists),
        (tuple[hint, ...], lists.map(tuple)),
        (deque[hint], lists.map(deque)),
        (tuple[hint, int], st.tuples(values, st.integers())),
        (hint | None, st.none() | values),
        (dict[str, hint], st.dictionaries(texts, values, max_size=3)),
    ]
    if hint in (str, int, Weekday, Decimal, datetime, Place):
        choices += [
            (set[hint], st.sets(values, max_size=4)),
            (frozenset[hint], st.frozensets(values, max_size=4)),
        ]
    return st.sampled_from(choices)


nested_values = st.sampled_from(LEAVES).flatmap(
    lambda typed: st.just(typed) | holding(typed) | holding(typed).flatmap(holding)
)


def seen(value: Any) -> Any:
    """Return a value as a task sees it: a moment by what its clock shows, and where."""
    match value:
        case datetime():
            return value.replace(tzinfo=None, fold=0), value.utcoffset()
        case list() | tuple() | deque():
            return type(value), [seen(each) for each in value]
        case set() | frozenset():
            return type(value), {seen(each) for each in value}
        case dict():
            return {seen(key): seen(each) for key, each in value.items()}
        case Place():
            return value.x, seen(value.seen)
        case float():
            return repr(value + 0.0)
    return type(value), value


def elsewhere(value: Any) -> Any:
    """Return an equal value in another form: other zones, orders and zeros."""
    match value:
        case datetime() if value.tzinfo:
            return value.astimezone(timezone(timedelta(hours=5.5)))
        case Decimal() if (
            abs(value.adjusted()) < 20 and len(value.as_tuple().digits) < 20
        ):
            return value + Decimal("0E-5")
        case list() | tuple() | deque():
            return type(value)(map(elsewhere, value))
        case set() | frozenset():
            return type(value)(map(elsewhere, sorted(value, key=repr, reverse=True)))
        case dict():
            return {key: elsewhere(value[key]) for key in reversed(value)}
        case Place():
            return Place(value.x, elsewhere(value.seen))
    return value


@pytest.mark.django_db
@settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.data())
def test_nested_values_arrive_as_they_were_given(data):
    hint, values = data.draw(nested_values)
    value = data.draw(values)
    assert seen(arrived(hint, value)) == seen(value)


@pytest.mark.django_db
@settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.data())
def test_nested_values_make_one_key_in_every_form(data):
    hint, values = data.draw(nested_values)
    value = data.draw(values)
    key = key_of(value, hint)
    assert key_of(elsewhere(value), hint) == key
    signature = taking(hint)
    kept: Stored = through_postgres(signature.store((value,), {}))
    arguments = signature.in_key_form(kept)
    assert valued.options.key_of_arguments("task", arguments) == key
