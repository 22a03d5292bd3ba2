"""Task definitions: what SQL needs of a task to check arguments and make jobs."""

import inspect
from datetime import timedelta
from string import Formatter
from typing import Any

from ..conf import settings
from .dependencies import Dependency
from .flow_control import Key, numbers_of_rate
from .options import TASK_OPTIONS
from .registry import registry
from .schemas import parameters_of, summary_of
from .task import Task
from .unique import seconds_of

# The definition has these options in another form.
OTHERWISE = frozenset(
    {
        "lock",
        "max_running",
        "limit_key",
        "rate",
        "rate_key",
        "burst",
        "unique",
        "unique_key",
        "unique_for",
        "on_conflict",
        "write_all",
        "on_success",
        "on_failure",
    }
)


def declared() -> list[dict[str, Any]]:
    """Return the fields of every task's definition; raise InvalidTask.

    Of two tasks with the same name, which `check` reports, it is the one that a worker
    runs.
    """
    by_name = {task.name: task for task in registry.tasks.values()}
    return [definition_of(task) for task in by_name.values()]


def definition_of(task: Task) -> dict[str, Any]:
    docstring = inspect.getdoc(task.function)
    return {
        "name": task.name,
        "origin": ".".join(task.origin),
        "description": summary_of(docstring),
        "parameters": parameters_of(task.signature, docstring),
        "options": options_of(task),
    }


def options_of(task: Task) -> dict[str, Any]:
    """Return the task's options as JSON, without options that are None."""
    options = task.options
    found = {
        name: as_json(getattr(options, name))
        for name in sorted(TASK_OPTIONS - OTHERWISE)
        if getattr(options, name) is not None
    }
    if options.sensitive:
        found["sensitive"] = list(options.sensitive)
    if task.aliases:
        found["aliases"] = list(task.aliases)
    if keys := keys_of(task):
        found["keys"] = keys
    if options.is_unique:
        found |= unique_options_of(task)
    if values := options.values(task.signature):
        found["write_all"] = values
    return found | {"max_argument_bytes": settings.MAX_ARGUMENT_BYTES}


def as_json(value: Any) -> Any:
    match value:
        case None | bool() | int() | float() | str():
            return value
        case timedelta():
            return value.total_seconds()
        case list() | tuple():
            return [as_json(each) for each in value]
        case Dependency():
            return {"task": value.task_name, "seconds": value.seconds}
        case type():
            return f"{value.__module__}.{value.__qualname__}"
    return named(value)


def named(function: Any) -> str:
    """Return where a callable is defined. Its repr could change with each start."""
    if inspect.isfunction(function):
        name = function.__qualname__.partition(".<locals>")[0]  # exponential, not wait
        return f"{function.__module__}.{name}"
    return type(function).__qualname__


def keys_of(task: Task) -> dict[str, Any]:
    """Return the keys of a job as `FlowControl` does, with texts to fill in."""
    options = task.options
    found: dict[str, Any] = {}
    if options.lock is not None:
        found["lock"] = template(options.lock)
        found["is_ordered"] = options.lock_mode == "ordered"
    if options.max_running is not None:
        found["limit_key"] = template_or_name(options.limit_key, task)
        found["max_running"] = options.max_running
    if options.rate is not None:
        found["rate_key"] = template_or_name(options.rate_key, task)
        found |= numbers_of_rate(options.rate, options.burst)
    return found | options.follow_up_keys


def unique_options_of(task: Task) -> dict[str, Any]:
    options = task.options
    found: dict[str, Any] = {"on_conflict": options.on_conflict}
    if options.unique_key is not None:
        found["unique_key"] = template(options.unique_key)
    elif isinstance(options.unique, tuple):
        found["unique"] = sorted(options.unique)
    else:
        found["unique"] = True
    if isinstance(options.unique_for, str):
        return found | {"unique_for": options.unique_for}
    return found | {
        "unique_for": "period",
        "unique_period": seconds_of(options.unique_for),
    }


def template_or_name(key: Key | None, task: Task) -> dict[str, Any]:
    return {"parts": [[task.name, None]]} if key is None else template(key)


def template(key: Key) -> dict[str, Any]:
    """Return a key in parts: texts, each followed by the argument to fill in.

    Of a callable it has only the name, because SQL cannot call it.
    """
    if not isinstance(key, str):
        return {"function": named(key)}
    if "{" not in key and "}" not in key:
        return {"parts": [[key, None]]}
    parts = [[text, name] for text, name, _, _ in Formatter().parse(key)]
    return {"parts": parts}
