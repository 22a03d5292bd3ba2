"""Django's tasks as tasks of pgjobs, which workers can run.

A worker calls the body of one: the task, with all that Django adds.
"""

import inspect
import logging
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, update_wrapper
from typing import Any, Literal

from asgiref.sync import sync_to_async

from ... import signals
from ...base.moments import aware
from ...exceptions import InvalidTask
from ...queue.new_job import NewJob
from ...tasks.arguments import Stored
from ...tasks.options import Options
from ...tasks.running_job import current_job
from ...tasks.task import Task as NativeTask
from .compat import (
    Task,
    TaskContext,
    is_heard,
    log_task_started,
    only_logs,
    task_started,
)
from .plain_signature import PlainSignature, json_form
from .results import JobResult

SEPARATOR = ":"
NOTHING_SAID = ("default", 0, None)  # about queue, priority and time


class UnstorableResult:
    """Marks the errors that a result raises because it is not JSON."""

    MARK = "_pgjobs_unstorable_result"

    @classmethod
    def caused(cls, error: BaseException) -> bool:
        return getattr(error, cls.MARK, False)


class JobContext(TaskContext):
    """What Django gives a task, and all that `current_job()` can do."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(current_job(), name)


def make_callable(task: "TaskAdapter") -> Callable:
    """Return the function that a worker calls with the arguments of a job."""
    function = task.declared.func
    make = async_callable if inspect.iscoroutinefunction(function) else plain_callable
    body = update_wrapper(make(task), function)
    # Without the context, which callers do not give.
    signature = PlainSignature("", task.declared).signature
    body.__signature__ = signature  # type: ignore[attr-defined]
    return body


def plain_callable(task: "TaskAdapter") -> Callable:
    function, takes_context = task.declared.func, task.declared.takes_context

    def body(*args, **kwargs):
        if is_start_heard():
            announce_started(task)
        if takes_context:
            args = (context_of(task), *args)
        return json_of(function(*args, **kwargs))

    return body


def async_callable(task: "TaskAdapter") -> Callable:
    function, takes_context = task.declared.func, task.declared.takes_context

    async def body(*args, **kwargs):
        if not only_logs(task_started, log_task_started):
            # The receivers may ask the database.
            await sync_to_async(announce_started)(task)
        elif is_start_heard():
            announce_started(task)
        if takes_context:
            args = (await sync_to_async(context_of)(task), *args)
        return json_of(await function(*args, **kwargs))

    return body


def is_start_heard() -> bool:
    return is_heard(task_started, log_task_started, logging.INFO)


def announce_started(task: "TaskAdapter") -> None:
    result = JobResult.running(task, current_job())
    signals.send(task_started, task.sender, task_result=result)


def context_of(task: "TaskAdapter") -> TaskContext:
    """Return what a task learns of its job: one query."""
    result = JobResult.running(task, current_job())
    result.load()  # an async task could not send the query
    return JobContext(task_result=result)


def json_of(value: Any) -> Any:
    """Return a result as JSON data; raise TypeError or ValueError as Django does."""
    if value is None:
        return None
    try:
        return json_form(value)
    except (TypeError, ValueError) as error:
        setattr(error, UnstorableResult.MARK, True)
        raise


@dataclass(frozen=True, kw_only=True)
class AdapterOptions(Options):
    """Options with the defaults of `django.tasks`, which knows no second attempt."""

    max_attempts: int = 1
    keep: Literal["all"] = "all"  # whoever has the id of a result reads it from the row

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.keep != "all":
            raise InvalidTask(
                "keep must be 'all' for tasks of django.tasks, whose results are read "
                f"from the rows of jobs, got {self.keep!r}."
            )

    def check(self, function: Callable) -> None:
        if self.encrypted:
            raise InvalidTask(
                "encrypted is no option of a task of django.tasks, which keeps "
                "arguments by position. Declare the task by pgjobs' @task."
            )
        super().check(function)

    def retries(self, error: BaseException) -> bool:
        # Another attempt would do again what this one has done.
        return not UnstorableResult.caused(error) and super().retries(error)


class TaskAdapter(NativeTask[..., Any, Any]):
    """A task of `django.tasks`, as a backend runs it.

    Jobs have the name "<alias of the backend>:<path of the function>".
    """

    is_late = False  # workers find the function by its path

    def __init__(
        self, declared: Task, alias: str, sender: type, options: AdapterOptions
    ):
        self.declared = declared
        self.alias = alias
        self.sender = sender  # of Django's signals
        self.given_name = name_of(alias, declared.module_path)
        self.aliases = ()
        self.options = options
        self.declarations = defaultdict(list)
        self.given_options = frozenset()
        self.original = self
        self.function = self.signed = make_callable(self)
        options.check(self.function)

    @cached_property
    def signature(self) -> PlainSignature:  # type: ignore[override]
        return PlainSignature(self.name, self.declared)

    def new_job(self, task: Task, stored: Stored, args: tuple, kwargs: dict) -> NewJob:
        """Return the job of an enqueued task. Raises InvalidTask, InvalidArguments."""
        chosen = self.chosen(getattr(task, "options", {}))
        job = chosen.options.new_job(self.name, stored)
        if (task.queue_name, task.priority, task.run_after) != NOTHING_SAID:
            job = job._replace(
                queue_name=task.queue_name,
                priority=int(task.priority),
                run_after=task.run_after and aware(task.run_after),
            )
        if chosen.options.has_keys:
            job = job._replace(**chosen.key_columns(stored, args, kwargs))
        return job

    def chosen(self, options: Mapping[str, Any]) -> "TaskAdapter":
        """Return the task with what `.using` has changed since its declaration."""
        declared = getattr(self.declared, "options", {})
        if options is declared or not options:
            return self
        changes = {
            name: value
            for name, value in options.items()
            if name not in declared or declared[name] is not value
        }
        return self.using(**changes) if changes else self  # type: ignore[return-value]

    def key_columns(self, stored: Stored, args: tuple, kwargs: dict) -> dict[str, Any]:
        named = self.signature.by_name(args, kwargs)
        return super().key_columns(named, args, kwargs)


def name_of(alias: str, path: str) -> str:
    return f"{alias}{SEPARATOR}{path}"
