"""Required: how tasks run, and what is known of them then."""

import builtins
import json
from typing import Any

import pytest

from django_tasks_conformance.journal import entries
from django_tasks_conformance.listening import TIMES
from django_tasks_conformance.parts import required
from django_tasks_conformance.standard import Status

VALUES: list[Any] = [
    None,
    True,
    0,
    -7,
    2**53 - 1,
    1.5,
    "",
    "Ä ☃ 😀",
    [],
    {},
    [1, [2, {"a": None}]],
]
ERRORS = [
    ("fail", "ValueError"),
    ("fail_in_its_own_way", "Expected"),
    ("give_object", "TypeError"),
]
# What the result of a task has in the end, and on whose word.
AT_LAST = [
    ("record", "status", Status.SUCCESSFUL, "ref: TaskResultStatus.SUCCESSFUL"),
    ("record", "is_finished", True, "ref: TaskResult.is_finished"),
    ("record", "errors", [], "ref: TaskResult.errors"),
    ("record", "attempts", 1, "ref: TaskResult.attempts"),
    ("give_tuple", "return_value", [1, [2, []]], "topics: Enqueueing Tasks"),
    ("give_object", "status", Status.FAILED, "topics: Enqueueing Tasks"),
    ("fail", "status", Status.FAILED, "ref: TaskResultStatus.FAILED"),
    ("fail", "is_finished", True, "ref: TaskResult.is_finished"),
    ("fail", "attempts", 1, "ref: TaskResult.attempts"),
]


@required("topics: Background Task fundamentals")
def test_task_runs_with_its_arguments(tasks, key, ran):
    tasks.record.enqueue(key, 1, "two", three=3, four=[4])
    noted = ran(key)
    assert noted["args"] == '[1, "two"]'
    assert noted["kwargs"] == '{"four": [4], "three": 3}'


@required("topics: Background Task fundamentals")
def test_task_runs_once(tasks, key, finish):
    finish(tasks.record.enqueue(key))
    finish(tasks.record.enqueue(f"{key}-behind"))
    assert len(entries("ran", key=key)) == 1


@required("ref: Task.enqueue()", "topics: Enqueueing Tasks")
def test_arguments_arrive_as_json_has_them(tasks, key, ran):
    tasks.record.enqueue(key, *VALUES, named={"a": VALUES})
    noted = ran(key)
    assert json.loads(noted["args"]) == VALUES
    assert json.loads(noted["kwargs"]) == {"named": {"a": VALUES}}


@required("topics: Enqueueing Tasks")
def test_tuple_arrives_as_a_list(tasks, key, ran):
    tasks.record.enqueue(key, (1, (2,)), named=(3,))
    noted = ran(key)
    assert noted["is_json"]
    assert (noted["args"], noted["kwargs"]) == ("[[1, [2]]]", '{"named": [3]}')


@pytest.mark.parametrize(
    ("name", "attribute", "value"),
    [
        pytest.param(*each, marks=required(place), id=f"{each[0]} {each[1]}")
        for *each, place in AT_LAST
    ],
)
def test_finished_task_has(tasks, key, finish, name, attribute, value):
    assert getattr(finish(getattr(tasks, name).enqueue(key)), attribute) == value


@required("ref: TaskResult.return_value", "topics: Return values")
@pytest.mark.parametrize("value", VALUES, ids=str)
def test_return_value_is_what_the_task_returned(tasks, key, finish, value):
    assert finish(tasks.give.enqueue(key, value)).return_value == value


@required("ref: TaskResult.errors", "ref: TaskError.exception_class")
@pytest.mark.parametrize(("name", "cls"), ERRORS)
def test_error_has_the_class_of_the_exception(tasks, key, finish, name, cls):
    (error,) = finish(getattr(tasks, name).enqueue(key)).errors
    assert error.exception_class is {**vars(builtins), **vars(tasks)}[cls]


@required("ref: TaskError.traceback", "topics: Errors")
def test_error_has_the_traceback_as_a_text(tasks, key, finish):
    (error,) = finish(tasks.fail.enqueue(key, f"because of {key}")).errors
    assert isinstance(error.traceback, str)
    assert error.traceback.startswith("Traceback")
    assert f"ValueError: because of {key}" in error.traceback
    assert "in fail" in error.traceback


@required("ref: TaskResult.return_value", "topics: Return values")
def test_return_value_raises_after_a_failure(tasks, key, finish):
    result = finish(tasks.fail.enqueue(key))
    with pytest.raises(ValueError):
        result.return_value  # noqa: B018


@required(f"ref: TaskResult.{', '.join(TIMES)}")
@pytest.mark.parametrize("name", ["record", "fail"])
def test_times_of_a_finished_task_are_in_order(tasks, key, finish, name):
    result = finish(getattr(tasks, name).enqueue(key))
    times = [getattr(result, each) for each in TIMES]
    assert None not in times
    assert times == sorted(times)


@required("ref: TaskResult.worker_ids")
def test_finished_task_has_the_id_of_its_worker(tasks, key, finish):
    (worker,) = finish(tasks.record.enqueue(key)).worker_ids
    assert type(worker) is str
    assert worker


@required("topics: Background Task fundamentals")
def test_failure_is_no_end_of_the_worker(tasks, key, finish):
    finish(tasks.fail.enqueue(key))
    assert finish(tasks.record.enqueue(f"{key}-behind")).status == Status.SUCCESSFUL


# The context


@required("ref: TaskContext", "topics: Task context")
def test_context_is_no_argument_of_callers(tasks, key, ran):
    tasks.look.enqueue(key, 1)
    assert ran(key)["args"] == [1]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param("attempt", 1, marks=required("ref: TaskContext.attempt")),
        pytest.param(
            "status", Status.RUNNING, marks=required("ref: TaskResultStatus.RUNNING")
        ),
        pytest.param("started", True, marks=required("ref: TaskResult.started_at")),
    ],
)
def test_context_of_a_running_task_has(tasks, key, ran, name, value):
    tasks.look.enqueue(key)
    assert ran(key)[name] == value


@required("ref: TaskContext.task_result")
def test_context_has_the_result_of_the_task(tasks, key, ran):
    result = tasks.look.enqueue(key)
    assert ran(key)["id"] == result.id


@required("ref: TaskContext")
def test_attributes_of_a_context_cannot_be_modified(tasks, key, ran):
    tasks.look.enqueue(key)
    assert ran(key)["changed"] == []
