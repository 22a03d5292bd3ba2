"""What the core asks of placeholders; see `tasks/later.py`."""

from typing import TYPE_CHECKING, Any

from ...exceptions import InvalidArguments
from ...queue.new_job import NewJob
from ...tasks.flow_control import KEYS
from ...tasks.later import Later
from ...tasks.sensitive import placeholders as names_in
from ...tasks.task import BoundTask
from .placeholders import Placeholder
from .sources import End, with_sources

if TYPE_CHECKING:
    from ...tasks.task import Task


def check(task: "Task[..., Any, Any]", later: dict[str, Later]) -> None:
    """Refuse placeholders of which a key or a dependency would be made."""
    faults = {}
    for name, value in later.items():
        if made := next(made_of(task, name), None):
            faults[name] = (
                f"cannot be {value!r}: the job's {made} is made of it, and is needed "
                "when it is enqueued"
            )
        elif task.options.is_unique and task.options.on_conflict == "replace":
            faults[name] = (
                f"cannot be {value!r}: on_conflict='replace' gives a job that waits "
                "other arguments, and leaves the jobs before it. Say "
                "on_conflict='return'"
            )
        elif value_may_lack(task) and refuses_none(task, name, value):
            faults[name] = (
                f"{value!r} is None if the job before fails, because of "
                "after_failure='run'. Let the type hint allow None"
            )
    if faults:
        raise InvalidArguments(task.name, faults)


def made_of(task: "Task[..., Any, Any]", name: str):
    """Yield what is made of an argument: keys, dependencies."""
    options = task.options
    for option in (*KEYS, "unique_key"):
        key = getattr(options, option)
        if callable(key) or (isinstance(key, str) and name in names_in(key)):
            yield option
    if options.unique is True or (options.unique and name in options.unique):
        yield "unique key"
    if name in options.chunk_by:
        yield "chunk_by"
    if options.has_dependencies(task):
        yield "key of its dependencies"


def value_may_lack(task: "Task[..., Any, Any]") -> bool:
    return task.options.after_failure == "run"


def refuses_none(task: "Task[..., Any, Any]", name: str, value: Later) -> bool:
    if not isinstance(value, Placeholder) or value._kind != "result":
        return False
    try:
        hint_of(task.signature, name).load(None)
    except ValueError:
        return True
    return False


def hint_of(signature: Any, name: str) -> Any:
    """Return the hint of an argument, which may be one of `**kwargs`."""
    parameter = signature.parameters.get(name)
    return (parameter or signature.parameters[signature.var_keyword]).hint


def with_values(bound: BoundTask, new_job: NewJob) -> NewJob:
    """Return the job of `task.using(after=...).bind(...)`, which names its sources."""
    ends = [
        End.of(each, name)
        for name, each in zip(
            bound.options.after.names, bound.options.after, strict=True
        )
    ]
    return with_sources(bound, new_job, ends)


def result_of(bound: BoundTask) -> Placeholder:
    return Placeholder("result", bound=bound)
