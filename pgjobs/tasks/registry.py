"""The tasks that this process knows, by name. Nothing is ever imported from a row."""

import importlib
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import autodiscover_modules

from ..conf import settings
from ..exceptions import UnknownTask

if TYPE_CHECKING:
    from .dependencies import Dependency
    from .task import Task


class Registry:
    """The tasks that this process knows."""

    def __init__(self) -> None:
        self.tasks: dict[tuple[str, str], Task] = {}
        # A function, and another one of the same module and name that replaced it.
        self.replaced: list[tuple[Task, Task]] = []
        self.by_name: dict[str, Task] | None = None
        self.served_by_name: dict[str, dict[frozenset[str], float]] | None = None

    def add(self, task: "Task") -> "Task":
        """Register a task. The same function imported again replaces itself."""
        before = self.tasks.get(task.origin)
        if before and is_other(before, task):
            self.replaced.append((before, task))
        self.tasks[task.origin] = task
        self.forget_names()
        return task

    def forget_names(self) -> None:
        """Derive again, at the next use, what is derived from the tasks."""
        self.by_name = self.served_by_name = None

    def get(self, name: str) -> "Task":
        """Return the task of that name or alias; raise UnknownTask."""
        by_name = self.by_name
        if by_name is None:
            by_name = self.by_name = {
                each: task for task in self.tasks.values() for each in task.names
            }
        try:
            return by_name[name]
        except KeyError:
            raise UnknownTask(name) from None

    @property
    def served(self) -> dict[str, dict[frozenset[str], float]]:
        """Return the tasks that others depend on.

        For each there are the sets of parameters that the others name, and for how many
        seconds a success counts at most.
        """
        if self.served_by_name is None:
            served: dict[str, dict[frozenset[str], float]] = {}
            for each in self.dependencies():
                with suppress(UnknownTask):  # the system check reports it
                    name = self.get(each.task_name).name
                    windows = served.setdefault(name, {})
                    names = frozenset(each.arguments)
                    windows[names] = max(each.seconds, windows.get(names, 0.0))
            self.served_by_name = served
        return self.served_by_name

    def dependencies(self) -> "Iterator[Dependency]":
        for task in self.tasks.values():
            yield from task.options.dependencies

    def names(self) -> list[str]:
        """Return the names and aliases of all tasks."""
        return [name for task in self.tasks.values() for name in task.names]

    def discover(self) -> None:
        """Import the `tasks` module of every app, and PGJOBS["TASK_MODULES"]."""
        autodiscover_modules("tasks")
        for module in task_modules():
            try:
                importlib.import_module(module)
            except ImportError as error:
                error.add_note(f"PGJOBS['TASK_MODULES'] names {module!r}.")
                raise

    def clashes(self) -> "dict[str, list[Task]]":
        """Return the names that more than one task claims."""
        claims: dict[str, list[Task]] = {}
        for task in self.tasks.values():
            for name in task.names:
                claims.setdefault(name, []).append(task)
        return {name: tasks for name, tasks in claims.items() if len(tasks) > 1}


def is_other(before: "Task", after: "Task") -> bool:
    """Whether two functions of one name stand in different lines of a module."""
    return line_of(before) != line_of(after)


def line_of(task: "Task") -> int:
    return task.function.__code__.co_firstlineno


def task_modules() -> tuple[str, ...]:
    """Return PGJOBS["TASK_MODULES"].

    There are none if it cannot be read. The system check reports that, so that it must
    be able to run.
    """
    try:
        return settings.TASK_MODULES
    except ImproperlyConfigured:
        return ()


registry = Registry()
