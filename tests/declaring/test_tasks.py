"""Tasks: what may be declared, under which names, with which options."""

import asyncio
import functools
import re
import sys
from datetime import UTC, datetime, timedelta
from types import ModuleType
from zoneinfo import ZoneInfo

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.test import override_settings

from pgjobs import task
from pgjobs.exceptions import InvalidArguments, InvalidTask, UnknownTask
from pgjobs.tasks import Task, aenqueue, enqueue, registry
from pgjobs.tasks.backoff import constant
from pgjobs.tasks.options import TASK_OPTIONS, Options
from pgjobs.tasks.registry import Registry
from tests.tasks import add, noop

INF, NAN = float("inf"), float("nan")


def module(source: str, name: str = "tests.written") -> ModuleType:
    """Return a module of this source, as if it had been imported."""
    made = ModuleType(name)
    exec(f"from pgjobs import task\n{source}", made.__dict__)
    return made


def declared(**options) -> Task:
    """Return a task of a module, declared with these options."""
    return task(**options)(module("def function(a: int): return a").function)


# What can be a task


def test_docstring_of_the_decorator_names_every_option():
    assert set(re.findall(r"`(\w+)`", task.__doc__)) >= TASK_OPTIONS


def test_task_is_still_a_plain_function():
    assert add(1, b=2) == 3
    assert add.__name__ == "add"
    assert add.__doc__ is add.function.__doc__
    assert repr(add) == "<Task tests.add>"


def test_bound_task_does_not_show_its_arguments():
    bound = add.bind(1, b=2)
    assert repr(bound) == "<BoundTask tests.add>"
    with pytest.raises(InvalidTask, match="add> is bound"):
        enqueue(bound, 1)


def test_async_function_is_a_task():
    written = module("@task\nasync def later(a): return a")
    assert written.later.is_async
    assert not noop.is_async
    assert asyncio.run(written.later(5)) == 5


def test_decorated_function_keeps_its_signature_as_a_task():
    written = module(
        "import functools\n"
        "def loud(f):\n"
        "    @functools.wraps(f)\n"
        "    def wrapper(*args, **kwargs): return f(*args, **kwargs)\n"
        "    return wrapper\n"
        "@task\n"
        "@loud\n"
        "def function(a: int): return a"
    )
    with pytest.raises(InvalidArguments, match="valid integer"):
        written.function.bind("1")


def test_attributes_of_the_function_do_not_replace_those_of_the_task():
    written = module("def function(): pass\nfunction.options = function.name = 5")
    made = task(written.function)
    assert made.name == "tests.function"
    assert made.options == Options(backoff=made.options.backoff)


class AClass:
    def method(self): ...

    @staticmethod
    def static(): ...


@pytest.mark.parametrize(
    ("thing", "because"),
    [
        (lambda: None, "a lambda, a method or a function inside another"),
        (module("f = lambda: None").f, "a lambda"),
        (AClass.method, "a method"),
        (AClass().method, "takes a function defined by def"),
        (AClass.static, "a method"),
        (staticmethod(module("def f(): ...").f), "takes a function defined by def"),
        (AClass, "takes a function defined by def"),
        (functools.partial(print), "takes a function defined by def"),
        (print, "takes a function defined by def"),
        (5, "takes a function defined by def"),
        (noop, "takes a function defined by def"),
        (module("def f(): yield 1").f, "is a generator"),
        (module("async def f(): yield 1").f, "is a generator"),
        (module("def f(): ...", "__main__").f, "Move it into a tasks module"),
    ],
)
def test_what_a_worker_could_not_find_or_run_is_no_task(thing, because):
    with pytest.raises(InvalidTask, match=because):
        task(thing)


def test_function_inside_another_is_no_task():
    def inner(): ...

    with pytest.raises(InvalidTask, match="inner: a worker could not find"):
        task(inner)


def test_unknown_option_is_named_with_the_cure_or_with_those_that_exist():
    with pytest.raises(InvalidTask, match=r"no option 'queue' \(.*'queue_name'.*\)\.$"):
        declared(queue="mail")
    with pytest.raises(InvalidTask, match=r"no option 'zzz'; it has .*queue_name"):
        declared(zzz="mail")


def test_option_that_belongs_elsewhere_is_sent_there():
    with pytest.raises(
        InvalidTask, match=r"'run_after' \(say \.using\(run_after=\.\.\."
    ):
        declared(run_after=timedelta(1))
    with pytest.raises(InvalidTask, match=r"'atomic' \(say @task\(atomic=\.\.\.\)\)"):
        noop.using(atomic=True)


def test_number_in_place_of_a_time_is_told_what_to_say():
    with pytest.raises(InvalidTask, match=r"such as timedelta\(seconds=60\), got 60"):
        noop.using(run_after=60)


def test_hints_are_looked_at_when_needed_not_when_declared():
    made = module("@task\ndef f(a: 'Nope'): ...").f
    with pytest.raises(InvalidTask, match="'Nope' is not defined"):
        made.enqueue(1)


# Names


def test_name_is_app_label_and_function_unless_given():
    assert noop.name == "tests.noop"
    assert declared(name="reports.make").name == "reports.make"
    outside = module("@task\ndef f(): ...", name="somewhere.deep").f
    assert outside.name == "somewhere.deep.f"


@pytest.mark.parametrize(
    "name", ["", " ", "a b", "a,b", "a\0", "a\n", "\x85", "x" * 201, "\ud800", 5, b"a"]
)
def test_name_with_separators_or_what_cannot_be_stored_is_refused(name):
    with pytest.raises(InvalidTask, match="name of a task must be 1 to 200"):
        declared(name=name)
    with pytest.raises(InvalidTask, match="an alias of a task must be 1 to 200"):
        declared(aliases=(name,))


@pytest.mark.parametrize("name", ["x" * 200, "naïve.🙂", "a'b\"c;DROP"])
def test_unusual_names_are_names(name):
    assert declared(name=name).name == name


@pytest.mark.parametrize("aliases", ["one", 5, None])
def test_aliases_are_several(aliases):
    with pytest.raises(InvalidTask, match="aliases must be a tuple"):
        declared(aliases=aliases)


def test_default_name_that_is_too_long_is_refused():
    made = module(f"@task\ndef {'f' * 201}(): ...").__dict__["f" * 201]
    with pytest.raises(InvalidTask, match="name of a task must be 1 to 200"):
        made.enqueue()


# Options


WRONG_OPTIONS = [
    ("queue_name", ["", "a,b", "a\n", "\0", "\x9f", "x" * 201, "\ud800", 5, b"a"]),
    ("queue_name", [" ", " a", "a ", "  a  "]),
    ("priority", [101, -101, 40_000, True, 1.5, "5", NAN]),
    ("max_attempts", [0, -1, 10**9, True, 1.5, "3"]),
    ("max_crashes", [0, -1, 10**9, True, 1.5, "3"]),
    ("timeout", [0, -1, NAN, INF, True, "10", 10**12, timedelta(-1), timedelta.max]),
]
OPTIONS_OF_THE_TASK = [
    ("backoff", [5, None, "exponential"]),
    ("retry_on", [5, "OSError", (OSError, 5), (int,), [OSError], OSError()]),
    ("cancel", ["", "never", None, True, 0, []]),
    ("no_retry_on", [5, "OSError", (OSError, None), [OSError]]),
]
RUN_AFTER = [
    datetime(2026, 1, 1),
    datetime.max,
    datetime.max.replace(tzinfo=UTC),
    datetime.min.replace(tzinfo=UTC),
    datetime(1969, 12, 31, tzinfo=UTC),
    timedelta.max,
    timedelta(days=40_000),
    5,
    NAN,
    "tomorrow",
    datetime(2026, 1, 1).date(),
]


def cases(table):
    return [(name, value) for name, values in table for value in values]


@pytest.mark.parametrize(("name", "value"), cases(WRONG_OPTIONS + OPTIONS_OF_THE_TASK))
def test_wrong_option_is_refused_at_declaration(name, value):
    with pytest.raises(InvalidTask, match=name):
        declared(**{name: value})


@pytest.mark.parametrize(
    ("name", "value"), cases([*WRONG_OPTIONS, ("run_after", RUN_AFTER)])
)
def test_wrong_option_is_refused_by_using(name, value):
    with pytest.raises(InvalidTask, match=name):
        noop.using(**{name: value})


@pytest.mark.parametrize(
    "name", ["x" * 200, "a b", "é🙂", "a;DROP TABLE", "RTL \u202e"]
)
def test_unusual_queue_names_are_names(name):
    assert noop.using(queue_name=name).options.queue_name == name


@pytest.mark.parametrize(
    "run_after",
    [
        datetime(1970, 1, 1, tzinfo=UTC),
        datetime(9998, 12, 31, tzinfo=UTC),
        datetime(2026, 7, 1, tzinfo=ZoneInfo("Asia/Kolkata")),
        timedelta(),
        timedelta(days=36_500),
    ],
)
def test_aware_time_or_timedelta_can_be_waited_for(run_after):
    assert noop.using(run_after=run_after).options.run_after == run_after


@pytest.mark.parametrize("name", ["queue_name", "priority", "colour", "unique_for"])
def test_wrong_option_is_a_value_error_like_wrong_arguments(name):
    """So one `except` catches all mistakes of a caller."""
    with pytest.raises(ValueError, match=name):
        noop.using(**{name: "\n"})
    with pytest.raises(ImproperlyConfigured, match=name):
        declared(**{name: "\n"})


def test_using_leaves_the_task_as_it_is():
    urgent = add.using(priority=90, queue_name="fast")
    assert (add.options.priority, add.options.queue_name) == (0, "default")
    assert (urgent.options.priority, urgent.options.queue_name) == (90, "fast")
    assert urgent(1, b=1) == 2
    assert (urgent.name, urgent.aliases) == (add.name, add.aliases)


def test_using_adds_to_what_using_said_before():
    twice = add.using(priority=90).using(max_attempts=9)
    assert (twice.options.priority, twice.options.max_attempts) == (90, 9)
    assert twice.using(priority=None).options == twice.options


def test_using_does_not_read_the_signature_again():
    made = declared()
    assert made.using(priority=1).signature is made.using(priority=2).signature


def test_using_refuses_options_it_does_not_know():
    with pytest.raises(InvalidTask, match=r"\.using has no option 'backoff'"):
        noop.using(backoff=constant(1))


@pytest.mark.parametrize(
    ("options", "error", "retried"),
    [
        ({}, ValueError(), True),
        ({}, SystemExit(), True),
        ({"retry_on": OSError}, ConnectionError(), True),
        ({"retry_on": (OSError,)}, ValueError(), False),
        ({"no_retry_on": (ValueError,)}, UnicodeError(), False),
        ({"no_retry_on": ValueError}, OSError(), True),
        ({"retry_on": OSError, "no_retry_on": ConnectionError}, OSError(), True),
        (
            {"retry_on": OSError, "no_retry_on": ConnectionError},
            BrokenPipeError(),
            False,
        ),
        ({"retry_on": ()}, ValueError(), False),
    ],
)
def test_exception_classes_say_what_is_retried(options, error, retried):
    assert declared(**options).options.retries(error) is retried


# The registry


def test_task_is_found_by_its_name_and_its_aliases():
    made = declared(name="new", aliases=("old", "older"))
    assert [registry.get(name) for name in ("new", "old", "older")] == [made] * 3


def test_unknown_name_is_an_unknown_task():
    with pytest.raises(UnknownTask, match=r"No task registered as 'nowhere\.to'\."):
        registry.get("nowhere.to")
    assert issubclass(UnknownTask, LookupError)


def test_same_function_imported_again_replaces_itself():
    one, other = Registry(), module("@task\ndef f(): ...").f
    one.add(other)
    again = module("@task\ndef f(): ...").f
    one.add(again)
    assert one.clashes() == {}
    assert one.get("tests.f") is again


def test_name_of_two_tasks_is_a_clash():
    mine = Registry()
    first = mine.add(module("@task(name='n')\ndef f(): ...").f)
    second = mine.add(module("@task(name='m', aliases=['n'])\ndef g(): ...").g)
    mine.add(module("@task(name='other')\ndef h(): ...").h)
    assert mine.clashes() == {"n": [first, second]}


def test_task_that_is_registered_late_is_found():
    mine = Registry()
    with pytest.raises(UnknownTask):
        mine.get("late")
    late = mine.add(module("@task(name='late')\ndef f(): ...").f)
    assert mine.get("late") is late


def test_tasks_module_of_each_app_is_discovered():
    assert registry.get("tests.noop") is noop


def test_more_modules_can_be_named_in_the_settings(tmp_path, monkeypatch):
    path = tmp_path / "errands.py"
    path.write_text("from pgjobs import task\n@task\ndef fetch(): ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    with override_settings(PGJOBS={"TASK_MODULES": ["errands"]}):
        registry.discover()
    assert registry.get("errands.fetch") is sys.modules["errands"].fetch


def test_missing_task_module_is_an_import_error_that_names_the_setting():
    with (
        override_settings(PGJOBS={"TASK_MODULES": ["no_such_module"]}),
        pytest.raises(ModuleNotFoundError, match="no_such_module") as caught,
    ):
        registry.discover()
    (note,) = caught.value.__notes__
    assert note == "PGJOBS['TASK_MODULES'] names 'no_such_module'."


# Passing on what is no task


@pytest.mark.parametrize(
    ("thing", "cure"),
    [(print, "decorate the function with @task"), ("tests.noop", "pass the task")],
)
def test_enqueue_takes_tasks_only(thing, cure):
    with pytest.raises(InvalidTask, match=cure):
        enqueue(thing)
    with pytest.raises(InvalidTask, match=cure):
        asyncio.run(aenqueue(thing))
