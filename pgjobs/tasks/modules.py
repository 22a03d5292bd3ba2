"""Modules with tasks that workers do not load by themselves.

A worker loads what Django loads as it starts, the `tasks` module of each app, and
PGJOBS["TASK_MODULES"]. A task that is declared later stands in another module, which
something else has imported: a view, for instance.
"""

import logging
from typing import TYPE_CHECKING, Any

from django.apps import apps

if TYPE_CHECKING:
    from .task import Task

logger = logging.getLogger("pgjobs.tasks")

CURE = (
    "Move it to the tasks module of an app, or name its module in "
    "PGJOBS['TASK_MODULES']."
)
warned: set[tuple[str, str]] = set()


def is_late(module: str) -> bool:
    """Whether a task that is declared now, in this module, may be unknown to workers.

    Tasks in modules of tests are known to the tests, which is enough.
    """
    is_of_tests = any(
        part.startswith(("test", "conftest")) for part in module.split(".")
    )
    return apps.ready and not is_of_tests


def warn_of_module(task: "Task[Any, Any, Any]") -> None:
    """Log, once for each task, that its jobs may meet workers that do not know it."""
    if task.origin in warned:
        return
    warned.add(task.origin)
    logger.warning(
        "Task name=%s is declared in %s, which workers do not load by themselves. They "
        "fail the jobs of a task that they do not know. %s",
        task.name,
        task.function.__module__,
        CURE,
    )
