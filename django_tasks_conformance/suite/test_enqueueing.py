"""Required: what `enqueue` returns, takes and refuses."""

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from uuid import uuid4

import pytest
from asgiref.sync import async_to_sync
from django.conf import settings
from django.db import connections, transaction
from django.utils import timezone

from django_tasks_conformance.journal import entries
from django_tasks_conformance.parts import required
from django_tasks_conformance.standard import (
    InvalidTask,
    Status,
    Task,
    TaskResult,
    task,
)

AT_FIRST = {
    "status": Status.READY,
    "is_finished": False,
    "attempts": 0,
    "worker_ids": [],
    "errors": [],
    **dict.fromkeys(("started_at", "last_attempted_at", "finished_at")),
}
LATER = datetime(2040, 1, 1, tzinfo=UTC)


OPTIONS = ["queue", "-101", "101", "priority", "run_after"]
# What is wrong, unless the backend takes it.
REFUSED: list[Any] = [
    ({"queue_name": f"no-{uuid4().hex[:8]}"}, lambda backend: not backend.queues),
    ({"priority": -101}, lambda backend: False),
    ({"priority": 101}, lambda backend: False),
    ({"priority": 1}, lambda backend: backend.supports_priority),
    ({"run_after": LATER}, lambda backend: backend.supports_defer),
]


def forged(declared: Any, **values: Any) -> Any:
    """Return a task that was never validated with these values."""
    for name, value in values.items():
        object.__setattr__(declared := declared.using(), name, value)
    return declared


def enqueued() -> int:
    return len(entries("task_enqueued"))


@pytest.fixture
def result(tasks, key):
    return tasks.record.enqueue(key)


@pytest.fixture
def fresh(result):
    """The result of a task that waits for its worker."""
    if result.is_finished:
        pytest.skip("enqueue runs the task at once")
    return result


@required("ref: Task.enqueue(), aenqueue()", "ref: TaskResult")
@pytest.mark.parametrize("way", ["enqueue", "aenqueue"])
def test_enqueue_brings_the_arguments(tasks, key, ran, way):
    enqueue = getattr(tasks.record, way)
    enqueue = async_to_sync(enqueue) if way == "aenqueue" else enqueue
    assert isinstance(enqueue(key, a=1), TaskResult)
    assert ran(key)["kwargs"] == "{'a': 1}"


@required("ref: BaseTaskBackend.enqueue(), aenqueue()")
@pytest.mark.parametrize("way", ["enqueue", "aenqueue"])
def test_enqueue_of_the_backend_brings_the_arguments(backend, tasks, key, ran, way):
    enqueue = getattr(backend, way)
    enqueue = async_to_sync(enqueue) if way == "aenqueue" else enqueue
    assert isinstance(enqueue(tasks.record, [key], {"a": 1}), TaskResult)
    assert ran(key)["kwargs"] == "{'a': 1}"


@required("ref: TaskResult.task, backend", "ref: Task.name")
def test_result_has_its_task_and_backend(result, tasks):
    assert isinstance(result.task, Task)
    assert result.task.func is tasks.record.func
    assert (result.task.name, result.backend) == ("record", "default")


@required("ref: TaskResult.id")
def test_id_is_a_text_of_less_than_64_characters(result):
    assert type(result.id) is str
    assert 0 < len(result.id) < 64


@required("ref: TaskResult.id", "topics: Task results")
def test_id_is_unique(tasks, key):
    assert len({tasks.record.enqueue(key).id for _ in range(20)}) == 20


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param(name, value, marks=required(f"ref: TaskResult.{name}"), id=name)
        for name, value in AT_FIRST.items()
    ],
)
def test_task_that_waits_has_at_first(fresh, name, value):
    assert getattr(fresh, name) == value


@required("ref: TaskResult.return_value", "topics: Return values")
def test_return_value_raises_before_the_end(fresh):
    with pytest.raises(ValueError):
        fresh.return_value  # noqa: B018


@required("ref: TaskResult.enqueued_at")
def test_enqueued_at_is_the_time_of_enqueue(tasks, key):
    before = timezone.now()
    enqueued_at = tasks.record.enqueue(key).enqueued_at
    second = timedelta(seconds=1)  # another machine's clock may stamp it
    assert before - second <= enqueued_at <= timezone.now() + second


@required("ref: TaskResult", "ref: Task", "topics: Modifying Tasks")
@pytest.mark.parametrize("name", ["id", "status", "errors", "queue_name", "priority"])
def test_attributes_of_results_and_tasks_cannot_be_modified(result, name):
    changed = result if hasattr(result, name) else result.task
    with pytest.raises((AttributeError, TypeError)):
        setattr(changed, name, None)


@required("ref: Task.using()", "topics: Modifying Tasks")
def test_using_leaves_the_task_as_it_is(tasks, backend):
    other = sorted({*backend.queues} - {"default"}) or ["default"]
    changed = tasks.record.using(queue_name=other[0])
    assert (changed.queue_name, tasks.record.queue_name) == (other[0], "default")
    assert changed.func is tasks.record.func


@required("ref: Task.queue_name", "settings: TASKS QUEUES")
def test_result_has_the_queue_of_its_task(tasks, backend, key):
    for queue in sorted(backend.queues) or ["default", "any-name"]:
        result = tasks.record.using(queue_name=queue).enqueue(key)
        assert result.task.queue_name == queue


@required("ref: BaseTaskBackend.options", "topics: Retrieving backends")
def test_backend_has_its_alias_and_options(backend):
    assert backend.alias == "default"
    assert backend.options == settings.TASKS["default"].get("OPTIONS", {})


# What is refused


@required("topics: Defining Tasks")
def test_function_that_is_not_of_a_module_is_refused():
    with pytest.raises(InvalidTask):
        task(lambda: None)


@required("ref: Task.queue_name, priority, run_after", "settings: TASKS QUEUES")
@pytest.mark.parametrize(("given", "unless"), REFUSED, ids=OPTIONS)
def test_wrong_option_is_refused(tasks, backend, given, unless):
    if unless(backend):
        pytest.skip("the backend takes it")
    with pytest.raises(InvalidTask):
        tasks.record.using(**given)


@required("ref: BaseTaskBackend.supports_async_task")
def test_async_task_is_refused_unless_it_is_supported(tasks, backend):
    if backend.supports_async_task:
        pytest.skip("supports_async_task is True")
    assert not isinstance(tasks.wait, Task)


@required("ref: Task.enqueue(), aenqueue()", "ref: BaseTaskBackend.validate_task()")
@pytest.mark.parametrize("is_async", [False, True], ids=["enqueue", "aenqueue"])
def test_invalid_task_is_not_enqueued(tasks, key, is_async):
    before, invalid = enqueued(), forged(tasks.record, priority=101)
    enqueue = async_to_sync(invalid.aenqueue) if is_async else invalid.enqueue
    with pytest.raises(InvalidTask):
        enqueue(key)
    assert enqueued() == before


@required("topics: Enqueueing Tasks")
@pytest.mark.parametrize("value", [LATER, object(), {1, 2}, [{"a": {1}}]], ids=str)
def test_argument_that_is_not_json_is_refused(tasks, key, value):
    before = enqueued()
    for enqueue in (tasks.record.enqueue, async_to_sync(tasks.record.aenqueue)):
        with pytest.raises(TypeError):
            enqueue(key, value)
        with pytest.raises(TypeError):
            enqueue(key, value=value)
    assert enqueued() == before


@required("topics: Transactions")
def test_task_enqueued_on_commit_runs(tasks, key, ran):
    if not connections["default"].features.supports_transactions:
        pytest.skip("the project has no database")
    with transaction.atomic():
        transaction.on_commit(partial(tasks.record.enqueue, key))
        assert entries("ran", key=key) == []
    assert ran(key)
