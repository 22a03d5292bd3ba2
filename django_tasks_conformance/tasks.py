"""The tasks that the suite enqueues, and that workers find by their paths."""

import os
import time
from collections.abc import Callable
from contextlib import suppress
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


@task
def record(label, *args, **kwargs):
    note("ran", key=label, args=repr(args), kwargs=repr(dict(sorted(kwargs.items()))))
    return label


@task
def give(label, value):
    note("ran", key=label)
    return value


@task
def fail(label, text="expected"):
    note("ran", key=label)
    raise ValueError(text.replace("<NUL>", "\0"))


@task
def end(label, how):
    """End as no argument could say."""
    note("ran", key=label)
    if how in ("tuple", "object"):
        return (1, [2, ()]) if how == "tuple" else object()
    raise SystemExit(3) if how == "exit" else Expected(label)


@task
def hold(label, path):
    """Run until the file appears."""
    note("ran", key=label)
    end = time.monotonic() + LONGEST_HOLD
    while not os.path.exists(path) and time.monotonic() < end:
        time.sleep(0.05)
    note("held", key=label)


@task(takes_context=True)
def look(context, label, *args):
    result = context.task_result
    changed = []
    for name in ("task_result", "attempt"):
        with suppress(AttributeError, TypeError):  # which dataclasses with slots raise
            setattr(context, name, None)
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
