"""Required: how tasks run, what is known of them then, and the signals."""

from typing import Any

import pytest

from django_tasks_conformance.journal import entries
from django_tasks_conformance.listening import TIMES, path_of
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
    ("end raise", "Expected"),
]
# What the result of a task has in the end, and on whose word.
AT_LAST = [
    ("record", "status", Status.SUCCESSFUL, "ref: TaskResultStatus.SUCCESSFUL"),
    ("record", "is_finished", True, "ref: TaskResult.is_finished"),
    ("record", "errors", [], "ref: TaskResult.errors"),
    ("record", "attempts", 1, "ref: TaskResult.attempts"),
    ("end tuple", "return_value", [1, [2, []]], "topics: Enqueueing Tasks"),
    ("end object", "status", Status.FAILED, "topics: Enqueueing Tasks"),
    ("fail", "status", Status.FAILED, "ref: TaskResultStatus.FAILED"),
    ("fail", "is_finished", True, "ref: TaskResult.is_finished"),
]


@required("topics: Background Task fundamentals")
def test_task_runs_once(tasks, key, ran):
    for each in (key, f"{key}-behind"):
        tasks.record.enqueue(each)
        ran(each)
    assert len(entries("ran", key=key)) == 1


@required("ref: Task.enqueue()", "topics: Enqueueing Tasks")
def test_arguments_arrive_as_json_has_them(tasks, key, ran):
    tasks.record.enqueue(key, *VALUES, (1, (2,)), b=(3,), a={"c": VALUES})
    noted = ran(key)
    assert noted["args"] == repr((*VALUES, [1, [2]]))
    assert noted["kwargs"] == repr({"a": {"c": VALUES}, "b": [3]})


@pytest.mark.parametrize(
    ("name", "attribute", "value"),
    [
        pytest.param(*each, marks=required(place), id=f"{each[0]} {each[1]}")
        for *each, place in AT_LAST
    ],
)
def test_finished_task_has(tasks, key, finish, name, attribute, value):
    name, *args = name.split()
    result = finish(getattr(tasks, name).enqueue(key, *args))
    assert getattr(result, attribute) == value


@required("ref: TaskResult.return_value", "topics: Return values")
@pytest.mark.parametrize("value", VALUES, ids=str)
def test_return_value_is_what_the_task_returned(tasks, key, finish, value):
    assert finish(tasks.give.enqueue(key, value)).return_value == value


@required("ref: TaskResult.errors", "ref: TaskError.exception_class")
@pytest.mark.parametrize(("name", "cls"), ERRORS)
def test_error_has_the_class_of_the_exception(tasks, key, finish, name, cls):
    name, *args = name.split()
    result = finish(getattr(tasks, name).enqueue(key, *args))
    assert {each.exception_class.__name__ for each in result.errors} == {cls}
    assert result.attempts == len(result.errors)  # it may have run more than once


@required("ref: TaskError.traceback", "topics: Errors")
def test_error_has_the_traceback_as_a_text(tasks, key, finish):
    *_, error = finish(tasks.fail.enqueue(key, f"because of {key}")).errors
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


# What a task sees of its context.
CONTEXT: list[Any] = [
    ("args", [1], "topics: Task context"),
    ("attempt", 1, "ref: TaskContext.attempt"),
    ("status", Status.RUNNING, "ref: TaskResultStatus.RUNNING"),
    ("started", True, "ref: TaskResult.started_at"),
    ("changed", [], "ref: TaskContext"),
]


@pytest.mark.parametrize(
    ("name", "value"),
    [pytest.param(*each, marks=required(place)) for *each, place in CONTEXT],
)
def test_context_of_a_running_task_has(tasks, key, ran, name, value):
    tasks.look.enqueue(key, 1)
    assert ran(key)[name] == value


@required("ref: TaskContext.task_result")
def test_context_has_the_result_of_the_task(tasks, key, ran):
    result = tasks.look.enqueue(key)
    assert ran(key)["id"] == result.id


# Signals


@pytest.fixture
def heard(worker, finish, tasks, key, backend):
    """Let a task run; return what was sent of it."""

    def hear(name: str, signal: str) -> list[dict]:
        result = getattr(tasks, name).enqueue(key)
        if signal == "task_enqueued":
            return entries(signal, id=result.id)
        if backend.supports_get_result:
            finish(result)
        worker.wait(lambda: entries("task_finished", id=result.id), "task_finished")
        return entries(signal, id=result.id)

    return hear


OUTCOMES = [
    pytest.param(name, signal, status, marks=required(f"signals: {signal}"))
    for name, signal, status in [
        ("record", "task_enqueued", Status.READY),
        ("record", "task_started", Status.RUNNING),
        ("record", "task_finished", Status.SUCCESSFUL),
        ("fail", "task_finished", Status.FAILED),
    ]
]


@pytest.mark.parametrize(("name", "signal", "status"), OUTCOMES)
def test_signal_is_sent_once(heard, name, signal, status):
    entries = heard(name, signal)
    assert entries[-1]["result"]["status"] == status
    assert len(entries) == 1 or name == "fail"  # which may run more than once


@pytest.mark.parametrize(("name", "signal", "status"), OUTCOMES)
def test_sender_is_the_class_of_the_backend(heard, backend, name, signal, status):
    senders = {each["sender"] for each in heard(name, signal)}
    assert senders == {path_of(type(backend))}


@required("signals: task_started", "signals: task_finished")
def test_signals_surround_the_task(heard, key):
    (finished,) = heard("record", "task_finished")
    (started,) = entries("task_started", id=finished["id"])
    (ran,) = entries("ran", key=key)
    assert started["at"] <= ran["at"] <= finished["at"]


@required("signals: task_finished")
def test_task_finished_brings_the_return_value(heard, key):
    (finished,) = heard("record", "task_finished")
    assert finished["result"]["return_value"] == key
