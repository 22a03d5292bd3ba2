"""The tasks of `django.tasks` that one backend has adopted, and their options."""

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

from django.core.exceptions import ImproperlyConfigured

from ..base.texts import in_a_log
from ..exceptions import InvalidTask as InvalidOption
from ..tasks.django_options import check_declared, options_of
from .adopted import AdoptedOptions, AdoptedTask
from .compat import InvalidTask, Task
from .django_task import NO_OPTIONS
from .finding import (
    declared_paths,
    find_declared,
    import_declared,
    is_importable,
)

logger = logging.getLogger("pgjobs.tasks")

Given = Mapping[str, Any]

MOST_VALIDATED = 1_000  # tasks; a project may make up names of queues


class Adoptions:
    """What all instances of a backend share; made again when `TASKS` changes."""

    known: ClassVar[dict[str, "Adoptions"]] = {}

    def __init__(self, backend: type, alias: str, params: Mapping[str, Any]):
        self.backend = backend
        self.alias = alias
        self.params = params
        self.by_function: dict[Callable, AdoptedTask] = {}
        self.by_path: dict[str, AdoptedTask] = {}
        self.validated: dict[tuple, Given] = {}  # and the options, by their identity

    @classmethod
    def of(cls, backend: type, alias: str, params: Mapping[str, Any]) -> "Adoptions":
        """Return those of the alias, as long as its settings are the same object."""
        known = cls.known.get(alias)
        if known is None or known.params is not params:
            known = cls.known[alias] = cls(backend, alias, params)
        return known

    # Validating

    def is_validated(self, task: Task) -> bool:
        """Whether a task just like this one was validated before."""
        known = self.validated.get(traits_of(task))
        return known is options_given(task) and task.run_after is None

    def note_validated(self, task: Task) -> None:
        if len(self.validated) >= MOST_VALIDATED:
            self.validated.clear()
        self.validated[traits_of(task)] = options_given(task)

    # The settings

    @property
    def given(self) -> Given:
        return self.params.get("OPTIONS") or NO_OPTIONS

    @property
    def database(self) -> str | None:
        return self.given.get("database")

    @property
    def by_task(self) -> Mapping[str, Given]:
        return self.given.get("tasks") or NO_OPTIONS

    @property
    def for_all(self) -> Given:
        return {
            name: value
            for name, value in self.given.items()
            if name not in ("database", "tasks")
        }

    # Tasks

    def find(self, path: str) -> AdoptedTask | None:
        """Return the task with this path.

        Return None if there is none, or its module is not imported in this process.
        """
        if path in self.by_path:
            return self.by_path[path]
        declared = find_declared(path)
        try:
            return self.add(declared) if declared else None
        except Exception:  # no row may stop a worker
            logger.exception(
                "The task %s has options that it cannot have", in_a_log(path)
            )
            return None

    def find_named(self, path: str) -> AdoptedTask | None:
        """Return the task with this path, which the settings name.

        Return None if there is none, or its module cannot be imported.
        """
        try:
            import_declared(path)
        except (Exception, SystemExit):  # from the project's module
            logger.exception("The task %s cannot be loaded", path)
        return self.find(path)

    def known_tasks(self) -> Iterator[AdoptedTask]:
        """Yield the tasks that are adopted, or declared in modules with tasks."""
        for path in declared_paths():
            self.find(path)
        yield from list(self.by_path.values())

    def adopt(self, task: Task) -> AdoptedTask:
        """Return the task that a worker finds by the path of this one.

        Raises Django's InvalidTask if there is none, or it is another one.
        """
        path = task.module_path
        module_name = task.func.__module__
        if not is_importable(module_name):
            raise InvalidTask(
                f"{path}: workers do not import {module_name}, which is in no package "
                "of INSTALLED_APPS. Name it in PGJOBS['TASK_MODULES']."
            )
        declared = import_declared(path)
        if declared is None or declared.func is not task.func:
            raise InvalidTask(
                f"{path} is not this task: workers look it up there. Let the name of "
                "the function lead to the task, as @task does."
            )
        try:
            return self.add(declared)
        except InvalidOption as error:
            raise InvalidTask(str(error)) from error

    def add(self, declared: Task) -> AdoptedTask:
        options = self.options(declared.func, options_given(declared))
        adopted = AdoptedTask(declared, self.alias, self.backend, options)
        self.by_path[declared.module_path] = adopted
        self.by_function[declared.func] = adopted
        return adopted

    def options(self, function: Callable, declared: Given) -> AdoptedOptions:
        """Return the options of a task.

        Each of these counts more than the one before: OPTIONS for all tasks,
        `@task_options`, OPTIONS["tasks"], the task's own.
        Raises pgjobs' InvalidTask.
        """
        path = f"{function.__module__}.{function.__qualname__}"
        chosen = {
            **self.for_all,
            **options_of(function),
            **self.by_task.get(path, NO_OPTIONS),
            **declared,
        }
        for name, replaced in (("unique", "unique_key"), ("unique_key", "unique")):
            if name in declared and replaced not in declared:
                chosen.pop(replaced, None)
        return AdoptedOptions(**chosen)

    def check_options(self, function: Callable, declared: Given) -> None:
        """Raise pgjobs' InvalidTask for options that a task cannot have."""
        if declared.get("on_conflict") == "skip":
            check_declared("A task of django.tasks", declared)
        self.options(function, declared)

    def check_settings(self) -> None:
        """Raise pgjobs' InvalidTask or ImproperlyConfigured for wrong OPTIONS."""
        if not isinstance(self.given, Mapping) or not isinstance(self.by_task, Mapping):
            raise ImproperlyConfigured("OPTIONS and OPTIONS['tasks'] must be dicts.")
        check_declared("OPTIONS", self.for_all)
        AdoptedOptions(**self.for_all)
        for path, options in self.by_task.items():
            where = f"OPTIONS['tasks'][{path!r}]"
            if not isinstance(options, Mapping):
                raise ImproperlyConfigured(f"{where} must be a dict, got {options!r}.")
            check_declared(where, options)
            AdoptedOptions(**{**self.for_all, **options})


def traits_of(task: Task) -> tuple:
    """Return all that a task without time and options is validated for."""
    return task.func, task.queue_name, task.priority, task.takes_context


def options_given(task: Task) -> Given:
    """Return the options of pgjobs that a Django task has."""
    return getattr(task, "options", NO_OPTIONS)
