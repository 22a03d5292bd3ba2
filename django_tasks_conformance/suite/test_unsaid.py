"""Beyond: what the documentation leaves open. Each test tells what it saw."""

import time
from datetime import timedelta

import pytest
from django.conf import settings
from django.db import connections, transaction
from django.test import override_settings

from django_tasks_conformance.journal import entries
from django_tasks_conformance.parts import beyond
from django_tasks_conformance.standard import task_backends


@pytest.fixture
def database():
    if not connections["default"].features.supports_transactions:
        pytest.skip("the project has no database")


@pytest.fixture
def process(worker, later):
    if not worker.is_process:
        pytest.skip("the worker is no process")


@pytest.fixture
def fate(worker, backend):
    """Wait until a task has ended, or the patience has; say how, and after how long."""

    def tell(result, key, runs: int = 1) -> str:
        begun, deaths = time.monotonic(), worker.deaths

        def ended():
            if len(entries("ran", key=key)) > runs:
                return "it runs again"
            if backend.supports_get_result:
                read = backend.get_result(result.id)
                if read.is_finished:
                    names = [each.exception_class_path for each in read.errors]
                    return f"{read.status} {' '.join(names)}".strip()
            elif heard := entries("task_finished", id=result.id):
                return heard[0]["result"]["status"]
            return None

        try:
            found = f"{worker.wait(ended, '')}, after {time.monotonic() - begun:.0f} s"
        except AssertionError:
            known = backend.supports_get_result and backend.get_result(result.id).status
            found = f"nothing within {worker.patience:g} s, {known or 'unknown'}"
        return found + ("; the worker died" if worker.deaths > deaths else "")

    return tell


@pytest.mark.parametrize(
    "is_other",
    [
        pytest.param(is_other, marks=beyond(f"a transaction{text} is rolled back"))
        for is_other, text in ((False, ""), (True, " of another database"))
    ],
)
def test_rollback(database, tasks, key, ran, say, is_other):
    aliases = sorted({*connections}, key="default".__ne__)[is_other:]
    if not aliases:
        pytest.skip("the project has one database")
    with transaction.atomic(using=aliases[0]):
        tasks.record.enqueue(key)
        transaction.set_rollback(True, using=aliases[0])
    tasks.record.enqueue(f"{key}-behind")
    ran(f"{key}-behind")
    say("the task runs" if entries("ran", key=key) else "the task is gone with it")


@beyond("enqueue in a transaction that is still open")
def test_open_transaction(database, tasks, key, ran, worker, say):
    if not (worker.is_process or worker.runs_at_once):
        pytest.skip("the worker is no process")
    tasks.record.enqueue(f"{key}-before")
    ran(f"{key}-before")  # the worker is there
    with transaction.atomic():
        tasks.record.enqueue(key)
        end = time.monotonic() + min(5, worker.patience)
        while time.monotonic() < end and not entries("ran", key=key):
            time.sleep(0.05)
        early = entries("ran", key=key)
    say("the task runs before the commit" if early else "the task waits for the commit")


@beyond("a worker that is killed (SIGKILL) during a task")
def test_killed_worker(process, tasks, key, ran, worker, tmp_path, fate, say):
    result = tasks.hold.enqueue(key, str(tmp_path / "go"))
    ran(key)
    worker.kill()
    say(fate(result, key))
    (tmp_path / "go").touch()


@beyond("a worker that is stopped (SIGTERM) during a task of two seconds")
def test_stopped_worker(process, tasks, key, ran, worker, tmp_path, fate, say):
    result = tasks.hold.enqueue(key, str(tmp_path / "go"))
    ran(key)
    worker.process.terminate()
    time.sleep(2)
    (tmp_path / "go").touch()
    code = worker.ended()
    ending = "does not exit" if code is None else f"exits with {code}"
    held = "the task ends first" if entries("held", key=key) else "the task is cut off"
    say(f"{held}, the worker {ending}; then: {fate(result, key)}")


@beyond("a task whose function the worker does not find")
def test_renamed_task(process, tasks, key, worker, fate, say):
    with worker.paused(without="moved"):
        result = tasks.moved.enqueue(key)
    say(fate(result, key, runs=0))
    with worker.paused():
        """From here on the worker has it again."""


@beyond("a result whose function is gone")
def test_result_of_a_task_that_is_gone(backend, ended, tasks, say, monkeypatch):
    monkeypatch.delattr(tasks, "record")
    say(read(backend, ended))


@beyond("a result whose queue was taken out of QUEUES")
def test_result_of_a_queue_that_is_gone(ended, say):
    other = {**settings.TASKS["default"], "QUEUES": ["another-queue"]}
    with override_settings(TASKS={**settings.TASKS, "default": other}):
        say(read(task_backends["default"], ended))


@pytest.fixture
def ended(backend, tasks, key, finish):
    """A result that a later process reads."""
    if not backend.supports_get_result:
        pytest.skip("supports_get_result is False")
    result = tasks.record.enqueue(key)
    finish(result)
    return result


def read(backend, result) -> str:
    try:
        return f"it is read: {backend.get_result(result.id).status}"
    except Exception as error:  # noqa: BLE001  # that is what is asked
        return f"{type(error).__name__}: {error}"


@pytest.mark.parametrize(
    ("name", "args"),
    [
        pytest.param("end", ("exit",), marks=beyond("a task that raises SystemExit")),
        pytest.param(
            "fail", ("a<NUL>b",), marks=beyond("an error whose text has a NUL")
        ),
    ],
)
def test_hard_end(process, tasks, key, fate, say, name, args):
    say(fate(getattr(tasks, name).enqueue(key, *args), key))


@beyond("run_after as a timedelta, which the reference allows")
def test_timedelta(backend, tasks, say):
    if not backend.supports_defer:
        pytest.skip("supports_defer is False")
    try:
        tasks.record.using(run_after=timedelta(hours=1))
    except Exception as error:  # noqa: BLE001  # that is what is asked
        say(f"{type(error).__name__}: {error}")
    else:
        say("it is taken")


@beyond("arguments that JSON writes and databases may refuse")
@pytest.mark.parametrize("value", [float("nan"), "a\0b", "\ud800"], ids=range(3))
def test_argument_beyond_json(database, tasks, key, say, value):
    try:
        with transaction.atomic():
            tasks.record.enqueue(key, value)
    except Exception as error:  # noqa: BLE001  # that is what is asked
        say(f"{value!a}: {type(error).__name__}")
    else:
        say(f"{value!a}: it is taken")
