"""Django's tasks as tasks of pgjobs, which workers can run.

A worker calls the body of one: the task, with all that Django adds.
"""

import copy
import inspect
import logging
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property, update_wrapper
from typing import Any, Literal

from asgiref.sync import sync_to_async
from django.db import connections

from ... import signals
from ...base.moments import aware
from ...base.texts import in_a_log
from ...conf import settings
from ...exceptions import InvalidTask, non_negative_seconds
from ...queue.claiming import ClaimedJob
from ...queue.new_job import NewJob
from ...tasks.arguments import Stored
from ...tasks.options import Options
from ...tasks.registry import registry
from ...tasks.running_job import current_job
from ...tasks.task import Task as NativeTask
from .backoff import takes_error
from .compat import (
    Task,
    TaskContext,
    is_heard,
    log_task_started,
    only_logs,
    task_started,
)
from .declare import PROPOSED
from .metadata import own_meta, save_metadata
from .plain_signature import PlainSignature, json_form
from .results import JobResult

logger = logging.getLogger("pgjobs.tasks")

SEPARATOR = ":"
NOTHING_SAID = ("default", 0, None)  # about queue, priority and time
# The result of the job that runs here, as it was when it began.
begun: ContextVar[JobResult] = ContextVar("pgjobs_result_as_it_began")


class Unstorable:
    """Marks the errors that a result or metadata raise because they are not JSON."""

    MARK = "_pgjobs_unstorable"

    @classmethod
    def caused(cls, error: BaseException) -> bool:
        return getattr(error, cls.MARK, False)


class JobContext(TaskContext):
    """What Django gives a task, and all that `current_job()` can do.

    And `metadata`, a dict whose changes are saved when the attempt ends.
    """

    @property
    def metadata(self) -> dict[str, Any]:
        return self.task_result.metadata

    def save_metadata(self) -> None:
        """Save the metadata now. Raises ValueError, InvalidStep and LeaseLost."""
        save_metadata(current_job(), self.metadata)
        if not connections[settings.DATABASE].in_atomic_block:  # or it may be undone
            self.remember()

    async def asave_metadata(self) -> None:
        """Save the metadata now. Raises ValueError, InvalidStep and LeaseLost."""
        await sync_to_async(self.save_metadata)()

    def remember(self) -> None:
        object.__setattr__(self, "stored", copy.deepcopy(self.metadata))

    def save_changes(self) -> None:
        """Save the metadata if it has changed since it was read or saved."""
        if self.metadata != self.stored:
            self.save_metadata()

    def save_at_end(self) -> None:
        """Save what has changed. As of a result, what is no JSON fails the job."""
        try:
            self.save_changes()
        except ValueError as error:
            setattr(error, Unstorable.MARK, True)
            raise

    def save_after_error(self) -> None:
        """Save what has changed; the error of the task matters more than one of it."""
        try:
            self.save_changes()
        except Exception:
            name = in_a_log(self.task_result.task.module_path)
            logger.exception("The metadata of a job of %s is lost", name)

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
        if task.asks_result:
            begun.set(result_here(task))
        if not takes_context:
            return json_of(function(*args, **kwargs))
        context = context_here()
        try:
            value = function(context, *args, **kwargs)
        except BaseException:
            if not task.options.atomic:  # it would be rolled back, too
                context.save_after_error()
            raise
        context.save_at_end()
        return json_of(value)

    return body


def async_callable(task: "TaskAdapter") -> Callable:
    function, takes_context = task.declared.func, task.declared.takes_context

    async def body(*args, **kwargs):
        if not only_logs(task_started, log_task_started):
            # The receivers may ask the database.
            await sync_to_async(announce_started)(task)
        elif is_start_heard():
            announce_started(task)
        if task.asks_result:
            begun.set(await sync_to_async(result_here)(task))
        if not takes_context:
            return json_of(await function(*args, **kwargs))
        context = context_here()
        try:
            value = await function(context, *args, **kwargs)
        except BaseException:
            await sync_to_async(context.save_after_error)()
            raise
        await sync_to_async(context.save_at_end)()
        return json_of(value)

    return body


def is_start_heard() -> bool:
    return is_heard(task_started, log_task_started, logging.INFO)


def announce_started(task: "TaskAdapter") -> None:
    result = JobResult.running(task, current_job())
    signals.send(task_started, task.sender, task_result=result)


def result_here(task: "TaskAdapter") -> JobResult:
    """Return the result of the job that runs here: one query."""
    result = JobResult.running(task, current_job())
    result.load()  # an async task could not send the query
    return result


def result_as_claimed(job: ClaimedJob) -> JobResult:
    """Return the result of a job by what its worker has of it: no query."""
    task = registry.find(job.task)
    assert isinstance(task, TaskAdapter)
    return JobResult.claimed(task, job)


def context_here() -> JobContext:
    """Return what a task learns of its job."""
    context = JobContext(task_result=begun.get())
    context.remember()
    return context


def json_of(value: Any) -> Any:
    """Return a result as JSON data; raise TypeError or ValueError as Django does."""
    if value is None:
        return None
    try:
        return json_form(value)
    except (TypeError, ValueError) as error:
        setattr(error, Unstorable.MARK, True)
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

    @cached_property
    def takes_error(self) -> bool:
        """Whether the backoff takes the exception and the result."""
        return takes_error(self.backoff)

    def wait_after(self, job: ClaimedJob, error: BaseException) -> float | None:
        if not self.takes_error:
            return super().wait_after(job, error)
        # Of a body that does not stop, or whose process died, another thread says so.
        result = (begun.get(None) or result_as_claimed(job)).ended_by(error)
        wait = self.backoff(error, result)  # type: ignore[call-arg, arg-type]
        return None if wait is None else non_negative_seconds("backoff", wait)

    def retries(self, error: BaseException) -> bool:
        # Another attempt would do again what this one has done.
        return not Unstorable.caused(error) and super().retries(error)


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
        # The task, or its backoff, wants to know the result as it begins.
        self.asks_result = declared.takes_context or options.takes_error
        self.function = self.signed = make_callable(self)
        options.check(self.function)

    @cached_property
    def signature(self) -> PlainSignature:  # type: ignore[override]
        return PlainSignature(self.name, self.declared)

    def new_job(self, task: Task, stored: Stored, args: tuple, kwargs: dict) -> NewJob:
        """Return the job of an enqueued task. Raises InvalidTask, InvalidArguments."""
        given = getattr(task, "options", {})
        chosen = self.chosen(given)
        job = chosen.options.new_job(self.name, stored)
        if "metadata" in given:
            job = job._replace(meta=own_meta(given["metadata"]))
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
            if name not in PROPOSED
            and (name not in declared or declared[name] is not value)
        }
        return self.using(**changes) if changes else self  # type: ignore[return-value]

    def key_columns(self, stored: Stored, args: tuple, kwargs: dict) -> dict[str, Any]:
        named = self.signature.by_name(args, kwargs)
        return super().key_columns(named, args, kwargs)


def name_of(alias: str, path: str) -> str:
    return f"{alias}{SEPARATOR}{path}"
