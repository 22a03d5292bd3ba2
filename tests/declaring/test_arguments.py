"""Arguments: checked by the hints at enqueue, kept as JSON, and back as themselves."""

import dataclasses
import inspect
import json
import math
import re
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    Optional,
)
from unittest.mock import MagicMock

import pytest
from django.contrib.auth.models import User
from django.db import connection, models
from django.test import override_settings
from django.utils.functional import lazystr
from django.utils.safestring import mark_safe
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import AliasGenerator, BaseModel, ConfigDict, Field, SecretStr
from typing_extensions import TypedDict  # pydantic takes no other before Python 3.12

from pgjobs.base.plain_json import DEEPEST, check_json, dump, dump_checked, shortened
from pgjobs.exceptions import InvalidArguments, InvalidTask
from pgjobs.tasks.arguments import Signature, Stored
from tests.support import futuristic

NOWHERE = "Nope"  # as a hint: a name that no module defines


class Colour(Enum):
    RED = "red"
    ONE = 1


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Size(models.TextChoices):
    SMALL = "S", "Small"
    LARGE = "L", "Large"


class Pair(Enum):
    ONE_TWO = (1, 2)


@dataclass
class Point:
    x: int
    day: date | None = None


@dataclass
class Point3D(Point):
    z: int = 0


class Client(BaseModel):
    name: str
    born: date = date(2000, 1, 1)


class CamelCase(BaseModel):
    model_config = ConfigDict(alias_generator=AliasGenerator(str.upper))
    amount: Decimal


class Address(TypedDict):
    street: str
    since: date


class Place(NamedTuple):
    x: int
    y: float


def signature(function) -> Signature:
    return Signature("tests.example", function)


def taking(hint, default=dataclasses.MISSING) -> Signature:
    """Return the signature of a task with one parameter, `value`, of this hint."""

    def function(value): ...

    function.__annotations__["value"] = hint
    if default is not dataclasses.MISSING:
        function.__defaults__ = (default,)
    return signature(function)


def through_postgres(stored: Stored) -> Stored:
    with connection.cursor() as cursor:
        cursor.execute("SELECT %s::jsonb::text, %s::jsonb::text", stored)
        return Stored(*cursor.fetchone())


def arrived(hint, value):
    """Return what a task with this hint gets when it is enqueued with the value."""
    taker = taking(hint)
    args, kwargs = taker.load(through_postgres(taker.store((value,), {})))
    assert args == ()
    return kwargs["value"]


def call(function, /, *args, **kwargs):
    """Store and load the arguments, call the function; return what it returns."""
    known = signature(function)
    args, kwargs = known.load(through_postgres(known.store(args, kwargs)))
    return function(*args, **kwargs)


def faults(function, /, *args, **kwargs) -> dict[str, str]:
    with pytest.raises(InvalidArguments) as caught:
        signature(function).store(args, kwargs)
    return caught.value.faults


def fault(hint, value) -> str:
    """Return why the value is refused."""
    with pytest.raises(InvalidArguments) as caught:
        taking(hint).store((value,), {})
    assert list(caught.value.faults) == ["value"]
    return caught.value.faults["value"]


def nested(depth: int) -> list:
    """Return a list so many deep."""
    value: list = []
    for _ in range(depth - 1):
        value = [value]
    return value


def holding_itself() -> list:
    value: list = []
    value.append(value)
    return value


# Values that arrive as themselves


def name_of(value) -> str:
    """Name a parameter of a test the same in each run: without addresses."""
    return re.sub(" at 0x[0-9a-f]+", "", shortened(value))


COMES_BACK = [
    (int, 5),
    (int, -(2**70)),
    (int, 2**13_999),
    (str, ""),
    (str, "naïve 🙂 '\"; DROP TABLE"),
    (bool, True),
    (float, 0.1),
    (float, 5e-324),
    (float, 1.7976931348623157e308),
    (None, None),
    (date, date(1, 1, 1)),
    (datetime, datetime(2026, 1, 2, 3, 4, 5, 6)),
    (datetime, datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)),
    (datetime, datetime(2026, 1, 2, tzinfo=timezone(timedelta(hours=5.5)))),
    (time, time(1, 2, 3, 4)),
    (timedelta, timedelta(days=-3, microseconds=1)),
    (uuid.UUID, uuid.UUID(int=7)),
    (Decimal, Decimal("1.10")),
    (Decimal, Decimal("1E+500")),
    (Colour, Colour.RED),
    (Colour, Colour.ONE),
    (Level, Level.HIGH),
    (Size, Size.LARGE),
    (Point, Point(1)),
    (Point, Point(1, date(2026, 1, 1))),
    (Client, Client(name="Ann")),
    (CamelCase, CamelCase(AMOUNT=Decimal("2.50"))),
    (Address, {"street": "Elm", "since": date(2026, 1, 1)}),
    (Place, Place(1, 2.5)),
    (Optional[int], None),  # noqa: UP045  (both spellings are in use)
    (Optional[int], 1),  # noqa: UP045
    (int | None, None),
    (int | str, 1),
    (int | str, "1"),
    (int | float, 1),
    (int | float, 1.0),
    (date | int, date(2026, 1, 1)),
    (list[date], [date(2026, 1, 1)]),
    (set[int], {1, 2}),
    (frozenset[str], frozenset({"a"})),
    (tuple[int, ...], (1, 2)),
    (tuple[int, date], (1, date(2026, 1, 1))),
    (dict[str, Decimal], {"a": Decimal("1.5")}),
    (dict[int, str], {1: "a"}),
    (dict[date, list[Point]], {date(2026, 1, 1): [Point(1)]}),
    (Literal["pdf", 1], "pdf"),
    (["pdf", "csv"], "csv"),
    (("pdf", None), None),
    (Annotated[int, Field(gt=0)], 1),
    (Any, {"a": [1, None, True, "x", 1.5]}),
    (list[Any], [1, "a", [None]]),
    (list, [1, {"a": 2}]),
    (dict, {"a": [1]}),
    (dict[str, Any], {"a": {"b": None}}),
    (object, [1]),
]


@pytest.mark.django_db
@pytest.mark.parametrize(("hint", "value"), COMES_BACK, ids=name_of)
def test_value_arrives_as_itself(hint, value):
    got = arrived(hint, value)
    assert got == value
    assert type(got) is type(value)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("hint", "json_form", "value"),
    [
        (date, "2026-01-02", date(2026, 1, 2)),
        (datetime, "2026-01-02T03:04:05Z", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)),
        (time, "03:04", time(3, 4)),
        (uuid.UUID, str(uuid.UUID(int=7)), uuid.UUID(int=7)),
        (Decimal, "1.10", Decimal("1.10")),
        (Decimal, 5, Decimal(5)),
        (Colour, "red", Colour.RED),
        (Size, "L", Size.LARGE),
        (Point, {"x": 1, "day": "2026-01-01"}, Point(1, date(2026, 1, 1))),
        (Client, {"name": "Ann"}, Client(name="Ann")),
        (list[date], ["2026-01-01"], [date(2026, 1, 1)]),
        (set[int], [1, 2], {1, 2}),
        (tuple[int, str], [1, "a"], (1, "a")),
        (dict[int, str], {"1": "a"}, {1: "a"}),
    ],
    ids=name_of,
)
def test_json_form_is_converted(hint, json_form, value):
    assert arrived(hint, json_form) == value


@pytest.mark.django_db
def test_int_is_a_float():
    assert repr(arrived(float, 5)) == "5.0"
    assert repr(taking(float).load(Stored("[]", '{"value": 5}'))[1]["value"]) == "5.0"


@pytest.mark.django_db
@pytest.mark.parametrize("hint", [str, Any])
@pytest.mark.parametrize("text", [mark_safe("<b>"), Size.SMALL], ids=name_of)
def test_subclass_of_str_arrives_as_its_text(hint, text):
    if hint is str or not isinstance(text, Enum):
        assert arrived(hint, text) == str(text)


REFUSED = [
    (int, "5", "valid integer, got '5'"),
    (int, True, "valid integer, got True"),
    (int, 5.0, "valid integer, got 5.0"),
    (str, 5, "valid string, got 5"),
    (str, None, "valid string, got None"),
    (str, b"5", "bytes is not JSON"),
    (str, lazystr("later"), "a lazy text is not JSON, got 'later': pass str() of it"),
    (list[str], [lazystr("later")], "a lazy text is not JSON"),
    (bool, 1, "valid boolean, got 1"),
    (float, "5", "valid number, got '5'"),
    (float, True, "valid number, got True"),
    (date, datetime(2026, 1, 1), "datetime is not JSON"),
    (date, "2026-02-30", "valid date"),
    (date, "1st of May", "valid date"),
    (datetime, date(2026, 1, 1), "date is not JSON"),
    (uuid.UUID, "abc", "valid UUID"),
    (uuid.UUID, 7, "UUID input should be"),
    (Decimal, True, "decimal"),
    (Decimal, "1,5", "valid decimal"),
    (Colour, "RED", "'red' or 1, got 'RED'"),
    (Size, "XL", "got 'XL'"),
    (Literal["pdf"], "doc", "input should be 'pdf', got 'doc'"),
    (["pdf", "csv"], "doc", "input should be 'pdf' or 'csv', got 'doc'"),
    (Annotated[int, Field(gt=0)], 0, "greater than 0, got 0"),
    (list[int], [1, "2"], "[1] input should be a valid integer, got '2'"),
    (list[int], (1, 2), "tuple is not JSON"),
    (tuple[int, str], [1], "[1] field required"),
    (set[int], [1, "a"], "[1] input should be a valid integer, got 'a'"),
    (Point, {"x": "1"}, "['x'] input should be a valid integer, got '1'"),
    (Point, {}, "['x'] field required"),
    (Address, {"street": "Elm"}, "['since'] field required"),
    (None, 1, "null"),
    (bytes, b"\xff", "utf-8"),
    (Pair, Pair.ONE_TWO, "should be (1, 2), got [1, 2]"),  # JSON has no tuples
]


@pytest.mark.parametrize(("hint", "value", "because"), REFUSED, ids=name_of)
def test_value_that_does_not_fit_its_hint_is_refused(hint, value, because):
    assert because in fault(hint, value)


def test_every_fault_inside_of_a_value_is_named():
    assert fault(Point, {"x": "1", "day": 5}) == (
        "['x'] input should be a valid integer, got '1'; "
        "['day'] input should be a valid date, got 5"
    )
    assert fault(int | str, 1.5) == (
        "['int'] input should be a valid integer, got 1.5; "
        "['str'] input should be a valid string, got 1.5"
    )


def test_many_faults_inside_of_a_value_are_counted():
    assert fault(list[int], ["a"] * 1000).endswith("and 995 more")


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (dict[str, Any], {"day": date(2026, 1, 1)}),
        (dict[str, Any], {"pair": (1, 2)}),
        (list, [{1, 2}]),
        (object, Decimal("1.5")),
        (dict, {1: "a"}),
        (dict, {1: "a", "1": "b"}),
        (date | str, "2026-01-01"),
        (Point, Point3D(1, z=2)),
        (SecretStr, SecretStr("hush")),
        (Iterable[int], iter([1, 2])),
    ],
    ids=name_of,
)
def test_value_that_would_arrive_as_something_else_is_refused(hint, value):
    assert "would arrive as" in fault(hint, value)


# What is no JSON, or none that PostgreSQL and Python can both read


@pytest.mark.parametrize(
    ("value", "because"),
    [
        ("a\0b", "NUL"),
        ({"a\0b": 1}, "NUL"),
        ([{"k": "\0"}], "NUL"),
        ("\ud800", "surrogate"),
        ({"\udfff": 1}, "surrogate"),
        (math.nan, "nan is not JSON"),
        (math.inf, "inf is not JSON"),
        ([-math.inf], "-inf is not JSON"),
        ({1: "a"}, "keys must be strings, got 1"),
        ({1: "a", "1": "b"}, "keys must be strings"),
        ({None: 1}, "keys must be strings"),
        ({Size.SMALL.value: {2: 1}}, "keys must be strings"),
        ((1, 2), "tuple is not JSON"),
        ({1, 2}, "set is not JSON"),
        (b"x", "bytes is not JSON"),
        (Decimal(1), "Decimal is not JSON"),
        (datetime(2026, 1, 1), "datetime is not JSON"),
        (uuid.UUID(int=1), "UUID is not JSON"),
        (Colour.RED, "Colour is not JSON"),
        ((each for each in [1]), "generator is not JSON"),
        (object(), "object is not JSON"),
        (lazystr("later"), "a lazy text is not JSON, got 'later': pass str() of it"),
        ([lazystr("later")], "pass str() of it"),
        (10**5000, "too many digits"),
        ([-(10**5000)], "too many digits"),
        (nested(DEEPEST + 1), "deep"),
        (nested(100_000), "deep"),
        (holding_itself(), "deep (or holds itself)"),
    ],
    ids=name_of,
)
def test_what_is_no_json_is_refused_without_a_hint(value, because):
    assert because in fault(Any, value)


@pytest.mark.parametrize("value", [date(2026, 1, 1), {"days": [date(2026, 1, 1)]}])
def test_what_is_no_json_without_a_hint_is_told_to_have_one(value):
    assert "2026, 1, 1): give the parameter a type hint" in fault(Any, value)


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (str, "\0"),
        (str, "\ud800"),
        (float, math.nan),
        (float, math.inf),
        (float, 10**400),
        (list[float], [math.nan]),
        (Decimal, Decimal("NaN")),
        (Decimal, Decimal("Infinity")),
        (Point, Point(10**5000)),
        (int, 10**5000),
        (dict[str, Any], {"a": nested(3000)}),
        (list, holding_itself()),
        (list[str], ["\0"]),
        (dict[str, int], {"\0": 1}),
        (list[Any], [object()]),
        (Callable, print),
    ],
    ids=name_of,
)
def test_what_is_no_json_is_refused_whatever_the_hint(hint, value):
    fault(hint, value)


@pytest.mark.django_db
def test_deepest_json_that_is_accepted_comes_back():
    value = nested(DEEPEST)
    assert arrived(Any, value) == value


def test_model_instance_is_refused_with_the_cure():
    assert "User is not JSON" in fault(Any, User(username="ann"))
    with pytest.raises(InvalidTask, match=r"'value'.*such as its primary key"):
        taking(User)


def test_value_whose_repr_raises_is_refused_all_the_same():
    class Rude:
        def __repr__(self):
            raise RuntimeError

    assert "Rude is not JSON, got <Rude whose repr raises RuntimeError>" in fault(
        Any, Rude()
    )


def test_value_that_has_every_attribute_is_refused_all_the_same():
    assert "MagicMock is not JSON" in fault(Any, MagicMock())


def test_long_values_are_cut_in_the_message():
    assert len(fault(int, "x" * 10_000)) < 200


def test_arguments_larger_than_the_limit_are_refused():
    text = "é" * 50  # 100 bytes
    with override_settings(PGJOBS={"MAX_ARGUMENT_BYTES": 114}):
        taking(str).store((text,), {})  # {"value":"..."} and []
        with pytest.raises(InvalidArguments, match="115 bytes of JSON, more than the"):
            taking(str).store((text + "x",), {})


# Signatures


@pytest.mark.django_db
def test_defaults_are_filled_in():
    def function(a, b: date = date(2026, 1, 1), *, c=None): ...

    stored = signature(function).store((1,), {})
    assert stored.args == "[]"
    assert json.loads(stored.kwargs) == {"a": 1, "b": "2026-01-01", "c": None}


@pytest.mark.django_db
def test_default_of_the_code_fills_what_an_older_row_lacks():
    def function(a: int, b: date = date(2026, 1, 1)):
        return a, b

    args, kwargs = signature(function).load(Stored("[]", '{"a": 1}'))
    assert function(*args, **kwargs) == (1, date(2026, 1, 1))


def test_default_none_makes_a_hint_optional():
    for hint in (date, list[int], ["pdf", "csv"], Literal["pdf"], "date", int | str):
        stored = taking(hint, default=None).store((), {})
        assert json.loads(stored.kwargs) == {"value": None}
        with pytest.raises(InvalidArguments):
            taking(hint, default=None).store((1.5,), {})


@pytest.mark.django_db
def test_every_kind_of_parameter_is_passed_on():
    def function(a, /, b: date, *rest: Decimal, c: int, **more: uuid.UUID):
        return a, b, rest, c, more

    day, amount, id = date(2026, 1, 1), Decimal("1.5"), uuid.UUID(int=1)
    got = call(function, 1, day, amount, amount, c=3, id=id, args=id)
    assert got == (1, day, (amount, amount), 3, {"id": id, "args": id})


@pytest.mark.django_db
def test_only_what_has_no_name_is_kept_without_one():
    def function(a, /, b, *rest): ...

    assert signature(function).store((1, 2, 3, 4), {}) == ("[3,4]", '{"a":1,"b":2}')


@pytest.mark.django_db
def test_parameters_may_have_any_name():
    def function(self, job, task, using, args, kwargs, function, loop, name):
        return [self, job, task, using, args, kwargs, function, loop, name]

    names = list(inspect.signature(function).parameters)
    assert call(function, **{name: name for name in names}) == names


@pytest.mark.django_db
def test_variable_parameters_may_get_their_own_names():
    def function(*args, **kwargs):
        return args, kwargs

    given = {"args": 1, "kwargs": 2, "args[0]": 3, "": 4}
    assert call(function, 0, **given) == ((0,), given)


def test_faults_of_a_call_are_all_named_at_once():
    def function(a: int, b: date, c, *, d: str): ...

    assert faults(function, "1", "no day", extra=5, d=1) == {
        "a": "input should be a valid integer, got '1'",
        "b": faults(function, 1, "no day", 1, d="")["b"],
        "d": "input should be a valid string, got 1",
        "c": "is missing",
        "extra": "is no parameter of this task",
    }


def test_message_names_the_task_and_every_fault():
    def function(a: int, b: str): ...

    with pytest.raises(InvalidArguments) as caught:
        signature(function).store(("1", 2), {})
    assert isinstance(caught.value, ValueError)
    assert str(caught.value) == (
        "Invalid arguments for tests.example: "
        "a: input should be a valid integer, got '1'; "
        "b: input should be a valid string, got 2."
    )


def test_faults_in_variable_arguments_say_where():
    def function(*rest: int, **more: int): ...

    assert list(faults(function, 1, "2", n="3")) == ["rest[1]", "n"]


@pytest.mark.parametrize("key", ["a\0b", "\ud800"])
def test_names_that_cannot_be_stored_are_refused(key):
    def function(**more): ...

    assert list(faults(function, **{key: 1})) == [key]


class GivenTwice:
    def plain(a, b=1): ...

    def positional_only(a, /, **more): ...


@pytest.mark.parametrize("function", [GivenTwice.plain, GivenTwice.positional_only])
def test_value_given_twice_is_refused(function):
    assert faults(function, 1, a=2) == {"a": "is given twice, by position and by name"}


def test_positional_only_parameter_is_not_given_by_name():
    def function(a, /): ...

    assert faults(function, a=1) == {
        "a": "is missing",
    } | {"a": "is no parameter of this task"}


def test_too_many_arguments_are_counted():
    def function(a, *, b=1): ...

    assert faults(function, 1, 2) == {"arguments": "takes 1 positional, got 2"}


def test_task_without_parameters_takes_nothing():
    def function(): ...

    assert signature(function).store((), {}) == ("[]", "{}")
    assert faults(function, a=1) == {"a": "is no parameter of this task"}


@pytest.mark.parametrize(
    ("args", "kwargs", "fault"),
    [
        ("[]", "{}", "a: is missing"),
        ("[]", '{"a": "1"}', "a: input should be a valid integer, got '1'"),
        ("[1]", '{"a": 1}', "args: holds values"),
        ("[]", '{"a": 1, "z": 1}', "z: is no parameter of this task"),
        ("[]", '{"a": ' + "9" * 5000 + "}", "arguments: cannot be read"),
        # Python 3.14 reads them, and pydantic does not.
        ("[]", '{"a": ' + "[" * 50_000 + "]" * 50_000 + "}", "recursion"),
    ],
    ids=name_of,
)
def test_row_that_does_not_fit_is_refused_with_the_reason(args, kwargs, fault):
    def function(a: int): ...

    with pytest.raises(InvalidArguments) as caught:
        signature(function).load(Stored(args, kwargs))
    assert fault in str(caught.value)


def test_hints_of_the_future_are_resolved():
    assert signature(futuristic.function).store((date(2026, 1, 1),), {}) == (
        "[]",
        '{"day":"2026-01-01","format":"pdf","later":null}',
    )
    assert set(faults(futuristic.function, "x", "doc", [1])) == {
        "day",
        "format",
        "later",
    }


def test_unresolvable_return_hint_does_not_matter():
    signature(futuristic.function_with_unknown_result).store((1,), {})


@pytest.mark.parametrize(
    "hint",
    [
        "Nope",
        list[NOWHERE],
        "list[Nope]",
        "int |",
        "math.nope",
        "1 / 0",
        "no hint",
        [],
        "()",
    ],
)
def test_hint_that_cannot_be_resolved_is_an_invalid_task(hint):
    with pytest.raises(InvalidTask, match=r"tests\.example: .*hint"):
        taking(hint)


@dataclass
class HalfKnown:
    other: NOWHERE


@pytest.mark.parametrize("hint", [5, HalfKnown, object()], ids=name_of)
def test_hint_that_cannot_be_kept_as_json_is_an_invalid_task(hint):
    with pytest.raises(InvalidTask, match="parameter 'value'"):
        taking(hint)


@pytest.mark.parametrize(
    ("hint", "default"),
    [(int, "5"), (Any, object()), (date, 5), (Any, (1,)), (Any, math.nan)],
)
def test_default_that_does_not_fit_its_hint_is_an_invalid_task(hint, default):
    with pytest.raises(InvalidTask, match="default of parameter 'value'"):
        taking(hint, default)


class Brittle(BaseModel):
    """A model whose validator breaks."""

    value: int

    def model_post_init(self, context):
        raise KeyError("broken")


def test_validator_that_breaks_fails_that_argument_only():
    with pytest.raises(InvalidArguments, match=r"value: .*KeyError"):
        taking(Brittle).load(Stored("[]", '{"value": {"value": 1}}'))


# Whatever is accepted can be stored, and comes back

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
finite_floats = st.floats(allow_nan=False, allow_infinity=False)
SCALARS = [
    (int, st.integers(-(2**100), 2**100)),
    (str, texts),
    (bool, st.booleans()),
    (float, finite_floats),
    (date, st.dates()),
    (datetime, st.datetimes(timezones=st.sampled_from([None, UTC]))),
    (time, st.times()),
    (timedelta, st.timedeltas(timedelta(days=-9999), timedelta(days=9999))),
    (uuid.UUID, st.uuids()),
    (Decimal, st.decimals(allow_nan=False, allow_infinity=False)),
    (Colour, st.sampled_from(Colour)),
    (Size, st.sampled_from(Size)),
    (Literal["a", "b"], st.sampled_from("ab")),
    (Point, st.builds(Point, st.integers(), st.none() | st.dates())),
]
KEYS = [str, int, date, uuid.UUID]


def containers_of(typed):
    """Return a strategy of (hint, value) that puts values of a hint into others."""
    hint, values = typed
    return st.sampled_from(
        [
            (list[hint], st.lists(values, max_size=3)),
            (tuple[hint, ...], st.lists(values, max_size=3).map(tuple)),
            (hint | None, st.none() | values),
            *(
                (dict[key, hint], st.dictionaries(dict(SCALARS)[key], values))
                for key in KEYS
            ),
        ]
    )


typed_values = st.sampled_from(SCALARS).flatmap(
    lambda typed: st.just(typed) | containers_of(typed).flatmap(containers_of)
)


@pytest.mark.django_db
@settings(
    max_examples=250,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.data())
def test_typed_values_come_back_equal(data):
    hint, values = data.draw(typed_values)
    value = data.draw(values)
    assert arrived(hint, value) == value


everything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**200), 2**200)
    | st.floats()
    | st.text(st.characters())
    | st.binary()
    | st.dates(),
    lambda each: (
        st.lists(each, max_size=4)
        | st.tuples(each)
        | st.dictionaries(st.text(st.characters()) | st.integers(), each, max_size=4)
    ),
    max_leaves=8,
)


@pytest.mark.django_db
@settings(
    max_examples=250,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(everything, st.sampled_from([Any, str, list, dict[str, Any], object]))
def test_whatever_is_accepted_can_be_stored(value, hint):
    try:
        taking(hint).store((value,), {})
    except InvalidArguments:
        return
    got = arrived(hint, value)
    # A large float is written with all its digits, and read as an integer.
    assert as_floats(got) == as_floats(value)


def as_floats(value):
    if isinstance(value, dict):
        return {key: as_floats(each) for key, each in value.items()}
    if isinstance(value, list):
        return [as_floats(each) for each in value]
    if isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return value


@given(everything)
def test_check_accepts_exactly_what_dump_can_write_and_read(value):
    try:
        check_json(value)
    except ValueError:
        return
    assert json.loads(dump(value)) == value
    assert repr(json.loads(dump_checked(value))) == repr(json.loads(dump(value)))


# The quick ways


def named(a: int, b: str = "b", *, c: int | None = None, d: Any = 4) -> None:
    """Take what can be passed by name."""


values = st.integers(0, 2) | st.sampled_from(["b", None, 1.0, [], math.nan])
names = st.sampled_from(["a", "b", "c", "d", "e"])


def outcome(act: Callable):
    try:
        return act()
    except InvalidArguments as error:
        return str(error)


@given(st.lists(values, max_size=4), st.dictionaries(names, values))
def test_quick_way_to_store_a_call_says_what_the_slow_one_says(args, kwargs):
    quick, slow = Signature("named", named), Signature("named", named)
    slow.named_only = False
    call = tuple(args), kwargs
    assert outcome(lambda: quick.store(*call)) == outcome(lambda: slow.store(*call))


@given(st.lists(values, max_size=1), st.dictionaries(names, values))
def test_quick_way_to_load_arguments_says_what_the_slow_one_says(args, kwargs):
    quick, slow = Signature("named", named), Signature("named", named)
    slow.load_fitting = lambda named: None
    stored = Stored(json.dumps(args), json.dumps(kwargs))
    assert repr(outcome(lambda: quick.load(stored))) == repr(
        outcome(lambda: slow.load(stored))
    )
