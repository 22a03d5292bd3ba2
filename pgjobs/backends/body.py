"""What a worker calls for a task of Django's: the task, with all that Django adds."""

import inspect
from collections.abc import Callable
from functools import update_wrapper
from typing import TYPE_CHECKING, Any

from asgiref.sync import sync_to_async

from .. import signals
from ..tasks.running_job import current_job
from .compat import TaskContext, log_task_started, normalize_json, task_started
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
        result = JobResult.running(task, current_job())
        announce_started(task.sender, result)
        if takes_context:
            args = (TaskContext(task_result=result), *args)
        return json_of(function(*args, **kwargs))

    return body


def async_body(task: "AdoptedTask") -> Callable:
    function, takes_context = task.declared.func, task.declared.takes_context

    async def body(*args, **kwargs):
        result = JobResult.running(task, current_job())
        if only_logs():
            announce_started(task.sender, result)
        else:  # receivers may ask the database
            await sync_to_async(announce_started)(task.sender, result)
        if takes_context:
            await sync_to_async(result.load)()  # the task must not ask the database
            args = (TaskContext(task_result=result), *args)
        return json_of(await function(*args, **kwargs))

    return body


def announce_started(sender: type, result: JobResult) -> None:
    signals.send(task_started, sender, task_result=result)


def only_logs() -> bool:
    """Whether Django's own receiver, which asks for nothing, is the only one."""
    return all(key[0] == id(log_task_started) for key, *_ in task_started.receivers)


def json_of(value: Any) -> Any:
    """Return a result as JSON data; raise TypeError or ValueError as Django does."""
    if value is None:
        return None
    try:
        return normalize_json(value)
    except (TypeError, ValueError) as error:
        setattr(error, UnstorableResult.MARK, True)
        raise
