"""Keys of locks, limits and rates: made of the arguments, checked when declared."""

import pytest

from pgjobs import enqueue_many, task
from pgjobs.exceptions import InvalidArguments, InvalidTask
from pgjobs.tasks.options import Options
from tests import tasks


def convert(path: str, page: int = 1, colour: str = "red"):
    pass


def declared(**options):
    """Return the function above as a task; the registry forgets it after the test."""
    return task(**options)(convert)


def keys_of_job(bound) -> dict:
    return bound.new_job.keys or {}


def keys_of(*args, lock, **kwargs) -> str | None:
    return keys_of_job(declared(lock=lock).bind(*args, **kwargs)).get("lock")


@pytest.mark.parametrize(
    ("lock", "key"),
    [
        ("plain", "plain"),
        ("file-{path}", "file-a.pdf"),
        ("{path}:{page}", "a.pdf:1"),
        ("{{{path}}}", "{a.pdf}"),
        (lambda path, page, colour: f"{path}/{page}/{colour}", "a.pdf/1/red"),
        (lambda *args: None, None),
    ],
)
def test_key_is_made_of_the_arguments(lock, key):
    assert keys_of("a.pdf", lock=lock) == key


def test_job_without_lock_limit_and_rate_has_no_keys():
    assert keys_of_job(tasks.noop.bind()) == {}


def test_key_is_that_of_the_stored_argument_however_it_was_given():
    assert keys_of(path="a", page=2, lock="{page}") == "2"
    assert keys_of("a", 2, lock="{page}") == "2"


def test_limit_and_rate_are_those_of_the_task_unless_a_key_is_given():
    made = keys_of_job(declared(name="x.y", max_running=2, rate="30/minute").bind("a"))
    assert made == {
        "limit_key": "x.y",
        "max_running": 2,
        "rate_key": "x.y",
        "rate_interval": 2.0,
        "rate_burst": 30,
    }
    keyed = declared(
        max_running=2, limit_key="{path}", rate="30/minute", rate_key="r", burst=1
    )
    made = keys_of_job(keyed.bind("a"))
    assert (made["limit_key"], made["rate_key"], made["rate_burst"]) == ("a", "r", 1)


def test_using_changes_what_was_declared():
    made = keys_of_job(declared(lock="a").using(lock="b", lock_mode="mutex").bind("p"))
    assert made == {"lock": "b", "is_ordered": False}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lock": "file-{name}"}, r"lock 'file-\{name\}': \{name\} is no parameter"),
        ({"lock": "{path.name}"}, "name of a parameter alone"),
        ({"lock": "{0}"}, "name of a parameter alone"),
        ({"lock": "{path!r}"}, "name of a parameter alone"),
        ({"lock": "{path:>9}"}, "name of a parameter alone"),
        ({"lock": "{path"}, "cannot be read"),
        ({"lock": ""}, "lock must be 1 to 500 characters long, got 0"),
        ({"lock": "x" * 501}, "lock must be 1 to 500 characters long, got 501"),
        ({"lock": 5}, "lock must be a text"),
        ({"lock": "a\0b"}, "NUL"),
        ({"lock": "a", "lock_mode": "strict"}, "lock_mode must be 'ordered' or"),
        ({"max_running": 0}, "max_running must be a whole number of at least 1"),
        ({"max_running": True}, "max_running must be a whole number"),
        ({"max_running": "5"}, "max_running must be a whole number"),
        ({"limit_key": "a"}, "limit_key needs max_running"),
        ({"rate": "abc"}, "rate must be a number per second, minute, hour, day"),
        ({"rate": "0/minute"}, "rate must be"),
        ({"rate": "5/week"}, "rate must be"),
        ({"rate": 5}, "rate must be"),
        ({"rate_key": "a"}, "rate_key needs rate"),
        ({"burst": 5}, "burst needs rate"),
        ({"rate": "5/second", "burst": 0}, "burst must be a whole number"),
        ({"rate": "2/day", "burst": 73_001}, "burst must be at most 2 with rate"),
    ],
)
def test_what_cannot_work_is_refused_when_it_is_declared(options, message):
    with pytest.raises(InvalidTask, match=message):
        declared(**options)
    with pytest.raises(InvalidTask, match=message):
        declared().using(**options)


@pytest.mark.parametrize(
    ("lock", "fault"),
    [
        ("{path}", "must be 1 to 500 characters long, got 501"),
        (lambda *args: 5, "must be a text of 1 to 500 characters, got 5"),
        (lambda *args: "", "must be 1 to 500 characters long, got 0"),
        (lambda *args: "a\0", "NUL"),
    ],
)
def test_key_that_cannot_be_stored_is_refused_when_a_job_is_made(lock, fault):
    with pytest.raises(InvalidArguments, match=f"lock: .*{fault}"):
        keys_of("x" * 501, lock=lock)


def test_error_of_a_callable_says_whose_it_is():
    with pytest.raises(ZeroDivisionError) as raised:
        declared(name="x.y", lock=lambda *args: 1 / 0).bind("a")
    assert raised.value.__notes__ == ["Raised by the lock of task x.y."]


def test_placeholder_of_a_name_that_was_not_given_is_refused():
    anything = tasks.anything.using(lock="{customer}")
    assert keys_of_job(anything.bind(customer=5))["lock"] == "5"
    with pytest.raises(InvalidArguments, match="needs the argument 'customer'"):
        anything.bind(other=5)


@pytest.mark.django_db
def test_jobs_with_and_without_keys_are_enqueued_together():
    jobs = enqueue_many([tasks.noop.bind(), tasks.noop.using(lock="a").bind()])
    for job in jobs:
        stored = type(job).objects.get(pk=job.pk)
        assert stored.keys == job.keys
    assert [job.keys for job in jobs] == [None, {"lock": "a", "is_ordered": True}]


def test_options_hold_nothing_back_by_themselves():
    assert not Options().has_flow_control
