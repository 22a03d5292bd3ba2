"""Backoff: how long a job waits after its first, second, ... failure."""

import sys
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgjobs import constant, exponential, linear, task
from pgjobs.exceptions import InvalidTask
from tests.tasks import noop


async def waits_async(failures: int) -> int:
    return 5


def waits(backoff, failures: int = 4) -> list[float]:
    return [backoff(number) for number in range(1, failures + 1)]


def test_exponential_doubles_up_to_its_cap():
    assert waits(exponential(jitter=False)) == [2, 4, 8, 16]
    assert waits(exponential(base=10, cap=500, jitter=False)) == [10, 100, 500, 500]


def test_linear_grows_by_a_step_up_to_its_cap():
    assert waits(linear(step=10, cap=25)) == [10, 20, 25, 25]


def test_constant_stays():
    assert waits(constant(7)) == [7, 7, 7, 7]


def test_at_once_is_a_backoff():
    for backoff in (constant(0), linear(0), exponential(0, jitter=False)):
        assert waits(backoff) == [0, 0, 0, 0]


def test_jitter_is_up_to_five_seconds_or_as_many_as_asked_for():
    for jitter, most in ((True, 5), (1, 1), (0.5, 0.5), (timedelta(minutes=1), 60)):
        backoff = exponential(jitter=jitter)
        got = [backoff(1) for _ in range(200)]
        assert 2 <= min(got) < max(got) <= 2 + most
        assert max(got) - min(got) > most / 2


def test_default_of_a_task_is_exponential_up_to_an_hour():
    backoff = noop.options.backoff
    assert 2 <= backoff(1) <= 7
    assert 1024 <= backoff(10) <= 1029
    assert backoff(12) == backoff(10_000) == 3600


@given(st.floats(0, 1e6), st.floats(0, 1e9), st.integers(1, 32_767), st.floats(0, 1e6))
def test_wait_is_never_negative_nor_beyond_the_cap(base, cap, failures, jitter):
    for backoff in (exponential(base, cap, jitter), linear(base, cap)):
        assert 0 <= backoff(failures) <= cap


def body(): ...


@pytest.mark.parametrize(
    ("backoff", "because"),
    [
        (exponential, "backoff=exponential lacks parentheses: say exponential()."),
        (linear, "say linear()"),
        (constant, "say constant()"),
        (lambda failures: constant, "backoff(1) must be seconds or a timedelta, got"),
        (lambda failures: "5", "backoff(1) must be seconds or a timedelta, got '5'"),
        (lambda failures: -1, "backoff(1) must be between 0 s and 100 years"),
        (lambda failures: None, "got None"),
        (lambda: 5, "backoff must take one argument, the number of failures"),
        (lambda failures, job: 5, "backoff must take one argument"),
        (waits_async, "backoff(1) must be seconds or a timedelta, got <coroutine"),
    ],
)
def test_backoff_that_gives_no_seconds_is_refused_at_its_declaration(backoff, because):
    with pytest.raises(InvalidTask) as refused:
        task(backoff=backoff)(body)
    assert because in str(refused.value)


@pytest.mark.parametrize(
    "backoff",
    [
        lambda failures: timedelta(1),
        lambda failures: 1 // (failures - 1),
        sys.exit,
        abs,
    ],
)
def test_backoff_that_works_or_breaks_later_is_accepted(backoff):
    assert task(backoff=backoff)(body).options.backoff is backoff


def test_durations_may_be_timedeltas():
    assert constant(timedelta(minutes=1))(1) == 60
    assert linear(timedelta(minutes=1), timedelta(minutes=2))(9) == 120
    assert exponential(10, timedelta(minutes=2), jitter=False)(9) == 120


@pytest.mark.parametrize("value", [-1, "5", True, float("nan"), float("inf"), None])
@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("seconds", constant),
        ("step", linear),
        ("cap", lambda value: linear(cap=value)),
        ("base", exponential),
        ("cap", lambda value: exponential(cap=value)),
    ],
)
def test_what_is_no_duration_is_refused_at_once(name, make, value):
    with pytest.raises(InvalidTask, match=f"^{name} must be"):
        make(value)


@pytest.mark.parametrize("value", [-1, "5", float("nan"), float("inf"), None])
def test_what_is_no_jitter_is_refused_at_once(value):
    with pytest.raises(InvalidTask, match=r"^jitter must be"):
        exponential(jitter=value)


def test_any_callable_is_a_backoff():
    made = task(backoff=lambda failures: failures * 3)(noop.function)
    assert made.options.backoff(2) == 6
