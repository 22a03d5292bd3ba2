"""The tasks that this process knows, by name. A row never makes it import a module."""

import importlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import autodiscover_modules

from ..conf import settings
from ..exceptions import UnknownTask

if TYPE_CHECKING:
    from .task import Task

T = TypeVar("T")


class TaskSource(Protocol):
    """Knows tasks that pgjobs' own `@task` has not made: a backend of django.tasks."""

    def find_task(self, name: str) -> "Task | None": ...

    def find_by_path(self, path: str) -> "Task | None": ...

    def load_tasks(self) -> None: ...

    def known_tasks(self) -> "Iterator[Task]": ...

    def queue_names(self) -> set[str]: ...


class Registry:
    """The tasks that this process knows."""

    def __init__(self) -> None:
        self.tasks: dict[tuple[str, str], Task] = {}
        # A function, and another one of the same module and name that replaced it.
        self.replaced: list[tuple[Task, Task]] = []
        self.by_name: dict[str, Task] | None = None
        self.made: dict[Callable[[], Any], Any] = {}  # see `derived`
        self.sources: list[TaskSource] = []

    def add(self, task: "Task") -> "Task":
        """Register a task. The same function imported again replaces itself."""
        before = self.tasks.get(task.origin)
        if before and is_other(before, task):
            self.replaced.append((before, task))
        self.tasks[task.origin] = task
        self.forget_names()
        return task

    def forget_names(self) -> None:
        """Drop what was derived from the tasks; the next use derives it again."""
        self.by_name = None
        self.made.clear()

    def get(self, name: str) -> "Task":
        """Return the task of that name or alias; raise UnknownTask."""
        if (task := self.find(name)) is None:
            raise UnknownTask(name)
        return task

    def find(self, name: str) -> "Task | None":
        """Return the task of that name or alias, also one of a source, or None."""
        if task := self.declared().get(name):
            return task
        for source in self.sources:
            if task := source.find_task(name):
                return task
        return None

    def find_by_path(self, path: str) -> "Task | None":
        """Return the task of a source at this path, which stands in no row, or None."""
        self.load_sources()
        found = (source.find_by_path(path) for source in self.sources)
        return next(filter(None, found), None)

    def declared(self) -> "dict[str, Task]":
        """Return the tasks that code declares, by their names and aliases."""
        if (by_name := self.by_name) is None:
            by_name = self.by_name = {
                each: task for task in self.tasks.values() for each in task.names
            }
        return by_name

    def derived(self, make: Callable[[], T]) -> T:
        """Return what a function makes of the tasks, made once until they change."""
        try:
            return self.made[make]
        except KeyError:
            made = self.made[make] = make()
            return made

    def all_tasks(self) -> "Iterator[Task]":
        """Yield the tasks of this process, also those of the sources."""
        yield from self.tasks.values()
        for source in self.sources:
            yield from source.known_tasks()

    def names(self) -> list[str]:
        """Return the names and aliases of all tasks."""
        return [name for task in self.tasks.values() for name in task.names]

    def queue_names(self) -> set[str]:
        """Return the queues that declarations name."""
        names = {task.options.queue_name for task in self.tasks.values()}
        return names.union(*(source.queue_names() for source in self.sources))

    def discover(self) -> None:
        """Import the `tasks` module of every app, and PGJOBS["TASK_MODULES"]."""
        autodiscover_modules("tasks")
        for module in task_modules():
            try:
                importlib.import_module(module)
            except ImportError as error:
                error.add_note(f"PGJOBS['TASK_MODULES'] names {module!r}.")
                raise

    def load_sources(self) -> None:
        """Import what else declares tasks, before this process looks at any row."""
        for source in self.sources:
            source.load_tasks()

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

    It is empty if the setting cannot be read. A system check reports that, and must be
    able to run.
    """
    try:
        return settings.TASK_MODULES
    except ImproperlyConfigured:
        return ()


registry = Registry()
