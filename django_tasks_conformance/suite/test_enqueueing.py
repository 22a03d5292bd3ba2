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
    task_backends,
)

WAYS = {
    "enqueue": "Task.enqueue",
    "aenqueue": "Task.aenqueue",
    "backend.enqueue": "BaseTaskBackend.enqueue",
    "backend.aenqueue": "BaseTaskBackend.aenqueue",
}
AT_FIRST = {
    "status": Status.READY,
    "is_finished": False,
    "attempts": 0,
    "worker_ids": [],
    "errors": [],
    **dict.fromkeys(("started_at", "last_attempted_at", "finished_at")),
}
LATER = datetime(2040, 1, 1, tzinfo=UTC)


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


@required("ref: Task.enqueue()", "ref: BaseTaskBackend.enqueue()")
def test_enqueue_returns_a_result(result):
    assert isinstance(result, TaskResult)


@pytest.mark.parametrize(
    "way",
    [
        pytest.param(way, marks=required(f"ref: {place}()"))
        for way, place in WAYS.items()
    ],
)
def test_each_way_to_enqueue_brings_the_arguments(backend, tasks, key, ran, way):
    name = way.removeprefix("backend.")
    call = getattr(tasks.record if way == name else backend, name)
    if name == "aenqueue":
        call = async_to_sync(call)
    if way != name:
        call = partial(call, tasks.record)
    result = call(key, a=1) if way == name else call([key], {"a": 1})
    assert isinstance(result, TaskResult)
    assert ran(key)["kwargs"] == '{"a": 1}'


@required("ref: TaskResult.task")
def test_result_has_its_task(result, tasks):
    assert isinstance(result.task, Task)
    assert result.task.func is tasks.record.func


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


@required("ref: TaskResult.backend", "ref: Task.backend")
def test_result_has_the_alias_of_its_backend(result):
    assert result.backend == "default"


@required("ref: TaskResult", "ref: Task", "topics: Modifying Tasks")
@pytest.mark.parametrize("name", ["id", "status", "errors", "queue_name", "priority"])
def test_attributes_of_results_and_tasks_cannot_be_modified(result, name):
    changed = result if hasattr(result, name) else result.task
    with pytest.raises(AttributeError):
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


@required("ref: Task.name")
def test_name_of_a_task_is_that_of_its_function(tasks):
    assert tasks.record.name == "record"


@required("ref: BaseTaskBackend.options", "settings: TASKS OPTIONS")
def test_backend_has_its_options(backend):
    assert backend.options == settings.TASKS["default"].get("OPTIONS", {})


@required("topics: Retrieving backends")
def test_backend_is_found_by_its_alias():
    assert task_backends["default"].alias == "default"


# What is refused


@required("topics: Defining Tasks")
def test_function_that_is_not_of_a_module_is_refused():
    with pytest.raises(InvalidTask):
        task(lambda: None)


@required("ref: Task.queue_name", "settings: TASKS QUEUES")
def test_unknown_queue_is_refused(tasks, backend):
    if not backend.queues:
        pytest.skip("QUEUES is empty: any name is one")
    with pytest.raises(InvalidTask):
        tasks.record.using(queue_name=f"no-{uuid4().hex}")


@required("ref: Task.priority")
@pytest.mark.parametrize("priority", [-101, 101, 1_000_000])
def test_priority_out_of_bounds_is_refused(tasks, priority):
    with pytest.raises(InvalidTask):
        tasks.record.using(priority=priority)


@required("ref: BaseTaskBackend.supports_priority, supports_defer")
@pytest.mark.parametrize(
    ("flag", "given"),
    [("supports_priority", {"priority": 1}), ("supports_defer", {"run_after": LATER})],
)
def test_what_is_not_supported_is_refused(tasks, backend, flag, given):
    if getattr(backend, flag):
        pytest.skip(f"{flag} is True")
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
