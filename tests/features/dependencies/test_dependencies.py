"""Dependencies: what `@task(dependencies=...)` takes, and what the check says of it."""

import json
import re
from datetime import date, timedelta

import pytest

from pgjobs import Dependency, same, task
from pgjobs.exceptions import InvalidArguments, InvalidTask, UnknownTask
from pgjobs.features.dependencies.checks import check_dependencies
from pgjobs.features.dependencies.declare import DEFAULT_WINDOW


def refresh(client_id: int):
    pass


def generate(client_id: int, month: date = date(2026, 10, 1), hours: int = 0):
    pass


def send(client_id: int, email: str = "", year: int = 2026):
    pass


def anything(**values):
    pass


def made(function, *dependencies, **options):
    """Return the task, registered with these dependencies."""
    return task(dependencies=list(dependencies), **options)(function)


def needs(sender, *args, **kwargs) -> list[dict]:
    return json.loads(sender.bind(*args, **kwargs).new_job.dependencies)["needs"]


# Declaring


@pytest.mark.parametrize(
    ("window", "seconds"),
    [
        ({}, DEFAULT_WINDOW),
        ({"hours": 2}, 7_200),
        ({"hours": 0.5}, 1_800),
        ({"minutes": 5}, 300),
        ({"within": 90}, 90),
        ({"within": timedelta(days=1)}, 86_400),
    ],
)
def test_window_is_given_in_hours_minutes_or_seconds(window, seconds):
    assert Dependency("tests.noop", **window).seconds == seconds
    assert Dependency("tests.noop", 2).seconds == 7_200


@pytest.mark.parametrize(
    "wrong",
    [
        {"hours": 0},
        {"hours": -1},
        {"hours": "2"},
        {"hours": True},
        {"hours": float("nan")},
        {"hours": timedelta(hours=1)},
        {"minutes": float("inf")},
        {"within": 1e300},
        {"hours": 1, "minutes": 1},
    ],
)
def test_wrong_window_is_refused(wrong):
    with pytest.raises(InvalidTask, match=next(iter(wrong))):
        Dependency("tests.noop", **wrong)


@pytest.mark.parametrize("target", [refresh, None, 5, b"tests.noop"])
def test_what_is_no_task_is_refused(target):
    with pytest.raises(InvalidTask, match="takes a task or its name"):
        Dependency(target)


@pytest.mark.parametrize("given", ["tests.noop", [5], refresh, {"a": 1}])
def test_what_is_no_dependency_is_refused(given):
    with pytest.raises(InvalidTask, match="one Dependency or a list"):
        task(dependencies=given)(send)


def test_args_are_for_parameters_that_have_the_name_of_an_option():
    task(generate)
    dependency = Dependency("tests.generate", hours=3, args={"hours": 5}, client_id=1)
    assert dependency.seconds == 10_800
    assert dependency.arguments == {"hours": 5, "client_id": 1}
    with pytest.raises(InvalidTask, match="client_id twice"):
        Dependency("tests.generate", client_id=1, args={"client_id": 2})
    with pytest.raises(InvalidTask, match="must be a dict"):
        Dependency("tests.generate", args=[1])


@pytest.mark.parametrize(
    ("given", "month"),
    [
        (same, date(2026, 10, 5)),
        (same + timedelta(days=1), date(2026, 10, 6)),
        (same - timedelta(days=1), date(2026, 10, 4)),
        (same("other"), date(2026, 1, 1)),
        (same("other") + timedelta(days=1), date(2026, 1, 2)),
        ((same + timedelta(days=1))("other"), date(2026, 1, 2)),
        (date(2026, 3, 1), date(2026, 3, 1)),
        ("2026-03-01", date(2026, 3, 1)),
    ],
)
def test_value_is_that_of_the_job_changed_or_given(given, month):
    generator = task(generate)

    sender = made(month_sender, Dependency(generator, month=given))
    (need,) = needs(sender, date(2026, 10, 5))
    assert need["key"] == f'tests.generate:{{"month":"{month}"}}'


def month_sender(month: date, other: date = date(2026, 1, 1)):
    pass


@pytest.mark.parametrize(
    ("given", "number"),
    [
        (same + 1, 7),
        (1 + same, 7),
        (same - 1, 5),
        (10 - same, 4),
        (same * 2, 12),
        (2 * same, 12),
        ((same - 1) * 2, 10),
        (same("year") + 1, 2027),
    ],
)
def test_arithmetic_of_same(given, number):
    sender = made(send, Dependency(task(refresh), client_id=given))
    assert needs(sender, 6)[0]["key"] == f'tests.refresh:{{"client_id":{number}}}'


def test_quotient_of_same():
    sender = made(send, Dependency(task(anything), half=same("client_id") / 4))
    assert needs(sender, 6)[0]["key"] == 'tests.anything:{"half":1.5}'
    sender = made(send, Dependency(task(anything), part=3 / same("client_id")))
    assert needs(sender, 6)[0]["key"] == 'tests.anything:{"part":0.5}'


def test_value_that_cannot_be_made_is_refused_before_anything_is_written():
    sender = made(send, Dependency(task(refresh), client_id=same("email") + 1))
    with pytest.raises(InvalidArguments, match=r"client_id of tests\.refresh: Type"):
        sender.bind(5)
    sender = made(send, Dependency(task(refresh), client_id=same("email")))
    with pytest.raises(InvalidArguments, match="should be a valid integer"):
        sender.bind(5)


def test_same_of_what_is_no_parameter_is_refused():
    with pytest.raises(InvalidTask, match="'month' is no parameter of send, which has"):
        made(send, Dependency("tests.generate", month=same))
    with pytest.raises(InvalidTask, match="'clientid' is no parameter"):
        made(send, Dependency("tests.generate", client_id=same("clientid")))
    with pytest.raises(InvalidTask, match="same takes the name of a parameter"):
        same(5)
    # Any name may be given; what is missing shows with the job.
    sender = made(anything, Dependency(task(refresh), client_id=same))
    assert needs(sender, client_id=5)[0]["key"] == 'tests.refresh:{"client_id":5}'
    with pytest.raises(InvalidArguments, match="the job has no argument 'client_id'"):
        sender.bind()


def test_job_knows_what_it_needs_and_what_it_provides():
    generator = made(generate, Dependency(task(refresh), minutes=5, client_id=same))
    made(send, Dependency(generator, hours=1, client_id=same))
    made(
        anything,
        Dependency("tests.generate", hours=2, client_id=1),
        Dependency(generator, client_id=2, month=date(2026, 1, 1)),
    )
    bound = generator.bind(42)
    key = 'tests.generate:{"client_id":42}'
    both = 'tests.generate:{"client_id":42,"month":"2026-10-01"}'
    assert json.loads(bound.new_job.dependencies) == {
        "needs": [{"key": 'tests.refresh:{"client_id":42}', "within": 300}],
        "provides": [{"key": key, "for": 7_200}, {"key": both, "for": DEFAULT_WINDOW}],
    }


def test_task_without_dependencies_has_none():
    assert task(refresh).bind(1).new_job.dependencies is None
    made(send, Dependency("tests.refresh", client_id=same))
    assert task(refresh).bind(1).new_job.dependencies is not None


def test_dependency_on_a_task_that_is_not_here_is_refused():
    sender = made(send, Dependency("tests.nothing"))
    with pytest.raises(UnknownTask, match=re.escape("tests.nothing")):
        sender.bind(1)


# Checks


def found() -> list[tuple[str, str]]:
    return [(each.id, each.msg) for each in check_dependencies()]


def test_good_dependencies_pass_the_check():
    made(generate, Dependency(task(refresh), client_id=same))
    made(send, Dependency("tests.generate", hours=1, client_id=same))
    assert found() == []


def test_unknown_target_is_an_error_with_the_nearest_name():
    task(generate)
    made(send, Dependency("tests.genrate", client_id=same))
    (error,) = check_dependencies()
    assert error.id == "pgjobs.E041"
    assert "'tests.genrate'" in error.msg
    assert error.hint == "Did you mean 'tests.generate'?"


@pytest.mark.parametrize(
    "arguments", [{"clientid": 1}, {"client_id": "abc"}, {"month": "no month"}]
)
def test_arguments_that_the_target_does_not_take_are_an_error(arguments):
    made(send, Dependency(task(generate), **{"client_id": 1, **arguments}))
    ((id, message),) = found()
    assert id == "pgjobs.E042"
    assert list(arguments)[-1] in message


def test_parameter_without_a_value_is_a_warning():
    made(send, Dependency(task(generate)))
    ((id, message),) = found()
    assert id == "pgjobs.W043"
    assert "no value for 'client_id'" in message


def test_circles_are_errors():
    made(refresh, Dependency("tests.send", client_id=same))
    made(generate, Dependency("tests.refresh", client_id=same))
    made(send, Dependency("tests.generate", client_id=same))
    made(anything, Dependency("tests.anything"))
    messages = sorted(message for id, message in found() if id == "pgjobs.E040")
    assert len(messages) == 2
    assert "tests.anything -> tests.anything" in messages[0] + messages[1]
    assert any(message.count("->") == 3 for message in messages)


@pytest.mark.parametrize(("mode", "ids"), [("ordered", ["pgjobs.W044"]), ("mutex", [])])
def test_line_in_which_a_job_waits_for_one_behind_it_is_warned_of(mode, ids):
    made(refresh, lock="client-{client_id}")
    made(generate, Dependency("tests.refresh", client_id=same))
    made(
        send,
        Dependency("tests.generate", client_id=same),
        lock="client-{client_id}",
        lock_mode=mode,
    )
    assert [id for id, _ in found()] == ids
