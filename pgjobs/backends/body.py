"""What a worker calls for a Django task: the task, with all that Django adds."""

import inspect
import logging
from collections.abc import Callable
from functools import update_wrapper
from typing import TYPE_CHECKING, Any

from asgiref.sync import sync_to_async

from .. import signals
from ..tasks.running_job import current_job
from .compat import TaskContext, log_task_started, task_started
from .hearing import is_heard, only_logs
from .json_form import json_form
from .plain_signature import PlainSignature
from .results import JobResult

if TYPE_CHECKING:
    from .adopted import AdoptedTask


class UnstorableResult:
    """Marks the errors that a result raises because it is not JSON."""

    MARK = "_pgjobs_unstorable_result"

    @classmethod
    def caused(cls, error: BaseException) -> bool:
        return getattr(error, cls.MARK, False)


def make_body(task: "AdoptedTask") -> Callable:
    """Return the function that a worker calls with the arguments of a job."""
    function = task.declared.func
    make = async_body if inspect.iscoroutinefunction(function) else plain_body
    body = update_wrapper(make(task), function)
    # Without the context, which callers do not give.
    signature = PlainSignature("", task.declared).signature
    body.__signature__ = signature  # type: ignore[attr-defined]
    return body


def plain_body(task: "AdoptedTask") -> Callable:
    function, takes_context = task.declared.func, task.declared.takes_context

    def body(*args, **kwargs):
        if is_start_heard():
            announce_started(task)
        if takes_context:
            args = (context_of(task), *args)
        return json_of(function(*args, **kwargs))

    return body


def async_body(task: "AdoptedTask") -> Callable:
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


def announce_started(task: "AdoptedTask") -> None:
    result = JobResult.running(task, current_job())
    signals.send(task_started, task.sender, task_result=result)


def context_of(task: "AdoptedTask") -> TaskContext:
    """Return what a task learns of its job: one query."""
    result = JobResult.running(task, current_job())
    result.load()  # an async task could not send the query
    return TaskContext(task_result=result)


def json_of(value: Any) -> Any:
    """Return a result as JSON data; raise TypeError or ValueError as Django does."""
    if value is None:
        return None
    try:
        return json_form(value)
    except (TypeError, ValueError) as error:
        setattr(error, UnstorableResult.MARK, True)
        raise
