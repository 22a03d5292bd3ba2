"""Task definitions: what SQL needs of a task to check arguments and make jobs."""

import inspect
import json
from datetime import timedelta
from string import Formatter
from typing import Any, NamedTuple

from django.db import transaction
from django.db.models.functions import Now

from ...base.queue_database import declare_alone
from ...conf import settings
from ...models.definition import TaskDefinition
from ...queue.statements import execute_on
from ...sql import statement
from ...tasks.flow_control import KEYS, Key
from ...tasks.options import GROUPS, TASK_OPTIONS, names_in
from ...tasks.registry import registry
from ...tasks.task import Task
from ...tasks.unique import seconds_of
from .schemas import parameters_of, summary_of
from .tables import ManifestEntry

# The definition has these options in another form.
OTHERWISE = names_in(*GROUPS) | {
    *KEYS,
    "max_running",
    "rate",
    "burst",
    "unique",
    "unique_key",
    "unique_for",
    "on_conflict",
}
FIELDS = ("name", "origin", "description", "parameters", "options")


class Synced(NamedTuple):
    """The names of the tasks that a synchronisation has changed."""

    new: list[str]
    changed: list[str]
    gone: list[str]


def declared() -> list[dict[str, Any]]:
    """Return the fields of every task's definition; raise InvalidTask.

    Of two tasks with the same name, which `check` reports, it is the one that a worker
    runs. Those of django.tasks are among them, also in a process that needs none.
    """
    registry.load_sources()
    by_name = {task.name: task for task in registry.all_tasks()}
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
    found |= options.definition(task.signature)
    return found | {"max_argument_bytes": settings.MAX_ARGUMENT_BYTES}


def as_json(value: Any) -> Any:
    match value:
        case None | bool() | int() | float() | str():
            return value
        case timedelta():
            return value.total_seconds()
        case list() | tuple():
            return [as_json(each) for each in value]
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

    def make(name: str, key: Key | None) -> dict[str, Any] | None:
        return None if key is None else template(key)

    options = task.options
    default = {"parts": [[task.name, None]]}
    return options.keys_made_by(make, default) | options.fixed_keys()


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


def sync(
    database: str, declared: list[dict[str, Any]], others_go: bool = True
) -> Synced:
    """Store the tasks that code declares, in one statement.

    `others_go`: whether the other tasks are marked as gone. Several processes may do
    so at the same time.
    """
    columns: dict[str, Any] = {
        field: [
            json.dumps(each[field])
            if field in ("parameters", "options")
            else each[field]
            for each in declared
        ]
        for field in FIELDS
    }
    with transaction.atomic(using=database):
        declare_alone(database)
        parameters = {**columns, "others_go": others_go}
        return synced(execute_on(database)(statement("sync_tasks"), parameters))


def differences(database: str, declared: list[dict[str, Any]]) -> Synced:
    """Return what `sync` would change.

    A task that another version of the code declares, which lives, is not gone.
    """
    active = TaskDefinition.objects.using(database).active()
    stored = {row[0]: row for row in active.values_list(*FIELDS)}
    rows = {each["name"]: tuple(each[field] for field in FIELDS) for each in declared}
    living = ManifestEntry.objects.using(database).filter(
        manifest__lives_until__gt=Now(), kind="task"
    )
    elsewhere = set(living.values_list("name", flat=True))
    return synced(
        [(name, "new") for name in rows.keys() - stored.keys()]
        + [
            (name, "changed")
            for name in rows.keys() & stored.keys()
            if rows[name] != stored[name]
        ]
        + [(name, "gone") for name in stored.keys() - rows.keys() - elsewhere]
    )


def synced(found: list[tuple[str, str]]) -> Synced:
    return Synced(
        *(
            sorted(name for name, kind in found if kind == wanted)
            for wanted in Synced._fields
        )
    )
