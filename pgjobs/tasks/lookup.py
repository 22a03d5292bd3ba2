"""Tasks by their names: `get_task`, and what a pickle of a task says."""

import importlib
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from ..exceptions import UnknownTask
from .registry import registry

if TYPE_CHECKING:
    from .task import Task


def get_task(name: str) -> "Task[..., Any, Any]":
    """Return the task that has this name or alias, to enqueue it.

    `name`: such as "reports.generate", or the path of a task of `django.tasks`. Raises
    UnknownTask, which names the nearest.
    """
    if task := registry.find(str(name)) or registry.find_by_path(str(name)):
        return task
    raise UnknownTask(name, nearest_task(name))


def nearest_task(name: str) -> str | None:
    """Return the name that was probably meant: a similar one, or of the same ending."""
    known = [each for task in registry.all_tasks() for each in task.names]
    if near := get_close_matches(str(name), known, n=1):
        return near[0]
    ending = str(name).rpartition(".")[2]
    same = [each for each in known if each.rpartition(".")[2] == ending]
    return same[0] if len(same) == 1 else None


def unpickled(name: str, module: str, changes: dict[str, Any]) -> "Task[..., Any, Any]":
    """Return the task that was pickled, with what `using` had changed.

    A new process may not have imported the task's module yet.
    """
    try:
        task = registry.get(name)
    except UnknownTask:
        importlib.import_module(module)
        task = registry.get(name)
    return task.using(**changes) if changes else task
