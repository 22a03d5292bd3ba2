"""Required: the signals, and what they bring."""

import pytest

from django_tasks_conformance.journal import entries
from django_tasks_conformance.listening import path_of
from django_tasks_conformance.parts import required
from django_tasks_conformance.standard import Status


@pytest.fixture
def heard(worker, finish, tasks, key):
    """Let a task run; return what was sent of it."""

    def hear(name: str, signal: str) -> list[dict]:
        result = getattr(tasks, name).enqueue(key)
        if signal == "task_enqueued":
            return entries(signal, id=result.id)
        finish(result)
        return worker.wait(
            lambda: entries(signal, id=result.id), f"{signal} is sent with the result"
        )

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
    (entry,) = heard(name, signal)
    assert entry["result"]["status"] == status


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
    assert finished["result"]["finished_at"]
