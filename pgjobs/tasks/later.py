"""Placeholders: what stands for an argument that a job gets when it begins.

Features make them, and say in a module `later` what their jobs store.
"""

from typing import TYPE_CHECKING, Any

from ..features import modules

if TYPE_CHECKING:
    from ..queue.new_job import NewJob
    from .task import BoundTask, Task


class Later:
    """What stands for a value that is not known yet."""

    __slots__ = ()


def check_later(task: "Task[..., Any, Any]", later: dict[str, Later]) -> None:
    """Raise InvalidArguments for placeholders of which something else is made."""
    for module in modules("later"):
        module.check(task, later)


def job_with_later(bound: "BoundTask[Any]") -> "NewJob":
    """Return the job to insert. Raises InvalidTask where nothing gives the values."""
    new_job = bound.made
    for module in modules("later"):
        new_job = module.with_values(bound, new_job)
    return new_job


def result_of(bound: "BoundTask[Any]") -> Any:
    """Return what stands for the result of a job that is not enqueued yet."""
    (module,) = modules("later")
    return module.result_of(bound)
