"""The tasks of `django.tasks` that one backend has adapted, and their options.

And Django's task with options of pgjobs, which `@task` makes for this backend.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, ClassVar

from django.core.exceptions import ImproperlyConfigured
from django.utils import timezone

from ...base.texts import in_a_log
from ...exceptions import InvalidTask as InvalidOption
from .adapter import AdapterOptions, TaskAdapter
from .backoff import check_backoff
from .compat import InvalidTask, Task
from .declare import (
    DECLARABLE,
    ON_COMMIT,
    PER_JOB,
    PROPOSED,
    check_declared,
    options_of,
)
from .task_lookup import declared_paths, find_declared, import_declared, is_importable

EXTRAS = DECLARABLE | PER_JOB | {ON_COMMIT}
USABLE = EXTRAS | PROPOSED  # by `.using`, which refuses some of them with the cure
# Settings of a backend that are discussed for Django. OPTIONS counts more.
PROPOSED_SETTINGS = {
    "MAX_ATTEMPTS": "max_attempts",
    "BACKOFF": "backoff",
    "ENQUEUE_ON_COMMIT": ON_COMMIT,
}
NO_OPTIONS: Mapping[str, Any] = {}
logger = logging.getLogger("pgjobs.tasks")

Given = Mapping[str, Any]

MOST_VALIDATED = 1_000  # tasks; a project may make up names of queues


@dataclass(frozen=True, slots=True, kw_only=True, init=False)
class PgJobsTask(Task):
    """A Django task that also takes options of pgjobs.

    `@task(max_attempts=5)` (from Django 6.1 on) and `.using(lock="x")` make it.
    """

    options: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __init__(
        self, *, options: Mapping[str, Any] = NO_OPTIONS, **declared: Any
    ) -> None:
        given = {name: declared.pop(name) for name in EXTRAS & declared.keys()}
        object.__setattr__(self, "options", {**options, **given} if given else options)
        # Validates the task. In a class with slots of its own, super() fails.
        Task.__init__(self, **declared)

    def using(self, *, run_after=None, **changes: Any) -> "PgJobsTask":
        """Return the task with other options for the jobs enqueued through it.

        Takes what Django's `using` takes, a timedelta as `run_after`, and the options
        of pgjobs that belong to a job. None leaves an option as it is.
        """
        changes = {name: value for name, value in changes.items() if value is not None}
        given = {name: changes.pop(name) for name in USABLE & changes.keys()}
        if wrong := given.keys() - PER_JOB - PROPOSED:
            raise InvalidTask(
                f".using has no option {', '.join(sorted(map(repr, wrong)))}: it "
                "belongs to the task. Declare it by @task_options."
            )
        if isinstance(run_after, timedelta):
            run_after = timezone.now() + run_after
        if run_after is not None:
            changes["run_after"] = run_after
        return replace(self, **changes, options=with_given(self.options, given))


def with_given(
    options: Mapping[str, Any], given: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return options with changes; the same object if there are none."""
    return {**options, **given} if given else options


class Adapters:
    """What all instances of a backend share; made again when `TASKS` changes."""

    known: ClassVar[dict[str, "Adapters"]] = {}

    def __init__(self, backend: type, alias: str, params: Mapping[str, Any]):
        self.backend = backend
        self.alias = alias
        self.params = params
        self.by_function: dict[Callable, TaskAdapter] = {}
        self.by_path: dict[str, TaskAdapter] = {}
        self.validated: dict[tuple, Given] = {}  # and the options, by their identity

    @classmethod
    def of(cls, backend: type, alias: str, params: Mapping[str, Any]) -> "Adapters":
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

    def remember_validated(self, task: Task) -> None:
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
        named = {
            option: self.params[name]
            for name, option in PROPOSED_SETTINGS.items()
            if name in self.params
        }
        given = self.given.items()
        return named | {
            name: value for name, value in given if name not in ("database", "tasks")
        }

    # Tasks

    def find(self, path: str) -> TaskAdapter | None:
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

    def find_named(self, path: str) -> TaskAdapter | None:
        """Return the task with this path, which the settings name.

        Return None if there is none, or its module cannot be imported.
        """
        try:
            import_declared(path)
        except (Exception, SystemExit):  # from the project's module
            logger.exception("The task %s cannot be loaded", path)
        return self.find(path)

    def known_tasks(self) -> Iterator[TaskAdapter]:
        """Yield the tasks that are adapted, or declared in modules with tasks."""
        for path in declared_paths():
            self.find(path)
        yield from list(self.by_path.values())

    def adapt(self, task: Task) -> TaskAdapter:
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

    def add(self, declared: Task) -> TaskAdapter:
        options = self.options(declared.func, options_given(declared))
        adapter = TaskAdapter(declared, self.alias, self.backend, options)
        self.by_path[declared.module_path] = adapter
        self.by_function[declared.func] = adapter
        return adapter

    def options(self, function: Callable, declared: Given) -> AdapterOptions:
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
        return made_of(chosen)

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
        made_of(self.for_all)
        for path, options in self.by_task.items():
            where = f"OPTIONS['tasks'][{path!r}]"
            if not isinstance(options, Mapping):
                raise ImproperlyConfigured(f"{where} must be a dict, got {options!r}.")
            check_declared(where, options)
            made_of({**self.for_all, **options})


def made_of(chosen: Given) -> AdapterOptions:
    """Return the options of pgjobs among those that were chosen."""
    if "backoff" in chosen:
        check_backoff(chosen["backoff"])
    own = {name: value for name, value in chosen.items() if name not in PROPOSED}
    return AdapterOptions(**own)


def traits_of(task: Task) -> tuple:
    """Return all that a task without time and options is validated for."""
    return task.func, task.queue_name, task.priority, task.takes_context


def options_given(task: Task) -> Given:
    """Return the options of pgjobs that a Django task has."""
    return getattr(task, "options", NO_OPTIONS)
