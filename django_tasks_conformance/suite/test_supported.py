"""Required of a backend that says so by a flag."""

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from uuid import UUID

import pytest
from asgiref.sync import async_to_sync
from django.conf import settings
from django.db import connections
from django.utils import timezone

from django_tasks_conformance.journal import entries
from django_tasks_conformance.parts import supported
from django_tasks_conformance.standard import (
    InvalidTask,
    Status,
    TaskResultDoesNotExist,
    TaskResultMismatch,
)

RESULTS = "supports_get_result"
DEFER = "supports_defer"
PRIORITY = "supports_priority"
ASYNC = "supports_async_task"
ATTRIBUTES = ("id", "status", "backend")
LATER = timedelta(seconds=3)
UNKNOWN = str(UUID(int=2**122 + 5))


@supported(RESULTS, "ref: Task.get_result()", "ref: BaseTaskBackend.get_result()")
def test_result_is_read_by_its_id(tasks, backend, key, worker):
    with worker.paused():
        result = tasks.record.enqueue(key, 1, a=2)
        read = backend.get_result(result.id)
    for name in ATTRIBUTES:
        assert getattr(read, name) == getattr(result, name), name
    assert abs(read.enqueued_at - result.enqueued_at) < timedelta(seconds=1)
    assert read.task.func is tasks.record.func
    assert tasks.record.get_result(result.id).id == result.id


@supported(RESULTS, "ref: Task.get_result()", "ref: TaskResultMismatch")
def test_result_of_another_task_is_refused(tasks, key):
    result = tasks.record.enqueue(key)
    with pytest.raises(TaskResultMismatch):
        tasks.give.get_result(result.id)


@supported(RESULTS, "ref: BaseTaskBackend.get_result()", "ref: TaskResultDoesNotExist")
@pytest.mark.parametrize("unknown", [UNKNOWN, "1099511627776", "no id", ""])
def test_unknown_id_is_refused(tasks, backend, unknown):
    for get_result in (backend.get_result, tasks.record.get_result):
        with pytest.raises(TaskResultDoesNotExist):
            get_result(unknown)


@supported(RESULTS, "ref: BaseTaskBackend.aget_result()", "ref: Task.aget_result()")
def test_result_is_read_in_async_code(tasks, backend, key):
    result = tasks.record.enqueue(key)
    for get_result in (backend.aget_result, tasks.record.aget_result):
        assert async_to_sync(get_result)(result.id).id == result.id
        with pytest.raises(TaskResultDoesNotExist):
            async_to_sync(get_result)(UNKNOWN)


@supported(RESULTS, "ref: BaseTaskBackend.supports_get_result")
def test_result_is_read_in_another_thread(tasks, key):
    result = tasks.record.enqueue(key)
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit(tasks.record.get_result, result.id).result()
        pool.submit(connections.close_all)
    assert read.id == result.id


@supported(RESULTS, "ref: TaskResult.refresh(), arefresh()", "topics: Updating results")
@pytest.mark.parametrize("way", ["refresh", "arefresh"])
def test_result_changes_when_it_is_refreshed(later, tasks, key, finish, worker, way):
    with worker.paused():
        result = tasks.give.enqueue(key, 42)
    read = finish(result)
    assert result.status == Status.READY
    async_to_sync(result.arefresh)() if way == "arefresh" else result.refresh()
    assert (result.status, result.return_value) == (Status.SUCCESSFUL, 42)
    for name in ("started_at", "finished_at", "attempts", "worker_ids"):
        assert getattr(result, name) == getattr(read, name), name


@supported(RESULTS, "ref: TaskResultStatus.RUNNING")
def test_running_task_has_started_and_not_finished(
    later, tasks, key, ran, tmp_path, finish
):
    result = tasks.hold.enqueue(key, str(tmp_path / "go"))
    ran(key)
    result.refresh()
    (tmp_path / "go").touch()
    assert (result.status, result.is_finished) == (Status.RUNNING, False)
    assert result.started_at
    assert result.finished_at is None
    with pytest.raises(ValueError):
        result.return_value  # noqa: B018
    finish(result)


@supported(DEFER, "ref: Task.run_after", "ref: BaseTaskBackend.supports_defer")
def test_task_does_not_run_before_its_time(tasks, key, ran):
    time = timezone.now() + LATER
    result = tasks.record.using(run_after=time).enqueue(key)
    assert (result.status, result.task.run_after) == (Status.READY, time)
    tasks.record.enqueue(f"{key}-at-once")
    ran(f"{key}-at-once")
    assert entries("ran", key=key) == [] or timezone.now() >= time
    assert ran(key)["at"] >= time.timestamp()


@supported(DEFER, "ref: Task.run_after")
def test_time_without_a_zone_is_refused(tasks):
    if not settings.USE_TZ:
        pytest.skip("USE_TZ is False")
    with pytest.raises(InvalidTask):
        tasks.record.using(run_after=datetime(2040, 1, 1))


@supported(PRIORITY, "ref: Task.priority", "ref: BaseTaskBackend.supports_priority")
def test_higher_priority_runs_first(later, tasks, key, ran, worker):
    priorities = (0, -100, 50, 100, -1)
    with worker.paused():
        for priority in priorities:
            task = tasks.record.using(priority=priority)
            result = task.enqueue(f"{key}{priority}")
            assert result.task.priority == priority
    begun = {priority: ran(f"{key}{priority}")["at"] for priority in priorities}
    assert sorted(begun, key=begun.__getitem__) == sorted(priorities, reverse=True)


@supported(ASYNC, "ref: BaseTaskBackend.supports_async_task")
def test_async_task_runs(tasks, key, ran):
    tasks.wait.enqueue(key)
    assert ran(key)
