"""The tasks that the suite enqueues, and that workers find by their paths."""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .journal import note
from .standard import InvalidTask, task

# Names tasks that a worker shall not find, as after a release that renamed them.
WITHOUT = os.environ.get("TASKS_CONFORMANCE_WITHOUT", "").split()
LONGEST_HOLD = 120.0  # seconds


class Expected(Exception):
    """What a task of the suite raises."""


def declared(function: Callable) -> Any:
    """Declare a task; leave it a function if the backend refuses its kind."""
    try:
        return task(function)
    except InvalidTask:
        return function


def is_json(value: Any) -> bool:
    """Whether the value has no other types than those that JSON gives back."""
    if type(value) is dict:
        return all(type(name) is str and is_json(value[name]) for name in value)
    if type(value) is list:
        return all(is_json(each) for each in value)
    return value is None or type(value) in (str, int, float, bool)


@task
def record(label, *args, **kwargs):
    note(
        "ran",
        key=label,
        args=json.dumps(args),
        kwargs=json.dumps(kwargs, sort_keys=True),
        is_json=is_json([*args]) and is_json(kwargs),
    )
    return label


@task
def other(label):
    note("ran", key=label)


@task
def give(label, value):
    note("ran", key=label)
    return value


@task
def give_tuple(label):
    return (1, [2, ()])


@task
def give_object(label):
    note("ran", key=label)
    return object()


@task
def fail(label, text="expected"):
    note("ran", key=label)
    raise ValueError(text.replace("<NUL>", "\0"))


@task
def fail_in_its_own_way(label):
    raise Expected(label)


@task
def leave(label):
    note("ran", key=label)
    raise SystemExit(3)


@task
def hold(label, path):
    """Run until the file appears."""
    note("ran", key=label)
    end = time.monotonic() + LONGEST_HOLD
    while not Path(path).exists() and time.monotonic() < end:
        time.sleep(0.05)
    note("held", key=label)


@task(takes_context=True)
def look(context, label, *args):
    result = context.task_result
    changed = []
    for name in ("task_result", "attempt"):
        try:
            setattr(context, name, None)
        except (AttributeError, TypeError):  # which dataclasses with slots raise
            continue
        changed.append(name)
    note(
        "ran",
        key=label,
        args=args,
        id=result.id,
        attempt=context.attempt,
        status=str(result.status),
        started=result.started_at is not None,
        changed=changed,
    )
    return context.attempt


async def wait(label):
    note("ran", key=label)
    return label


wait = declared(wait)


if "moved" not in WITHOUT:

    @task
    def moved(label):
        note("ran", key=label)
        return label
