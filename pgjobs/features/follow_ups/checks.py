"""A system check of follow-ups."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from django.core.checks import CheckMessage, Error, register

from ...exceptions import InvalidArguments, InvalidTask, UnknownTask
from ...tasks.flow_control import KEYS
from ...tasks.lookup import nearest_task
from ...tasks.registry import registry

if TYPE_CHECKING:
    from ...tasks.task import Task


@register("pgjobs")
def check_follow_ups(**kwargs) -> list[CheckMessage]:
    """Check that what follows a job's end can be enqueued, and comes to an end."""
    return [
        Error(message, hint=hint, obj=task, id="pgjobs.E062")
        for message, hint, task in faults()
    ]


def faults() -> Iterator[tuple[str, str, "Task"]]:
    """Yield what keeps follow-ups from running: a message, a hint and the task."""
    for task in registry.tasks.values():
        for option, name in task.options.follow_up_keys.items():
            says = f"{option} of {task.name} names {name!r}"
            try:
                target = registry.get(name)
                target.signature.store((), {"job_id": 1})
            except UnknownTask:
                near = nearest_task(name)
                hint = f"Did you mean {near!r}?" if near else "Name a task of the code."
                yield f"{says}, but no task has that name.", hint, task
            except (InvalidArguments, InvalidTask):
                hint = "Declare it as def task(job_id: int): it gets the job's id."
                yield f"{says}, which cannot be enqueued with job_id alone.", hint, task
            else:
                for key in (*KEYS, "unique_key"):
                    if callable(getattr(target.options, key)):
                        hint = "The database, which makes its jobs, cannot call it."
                        yield f"{says}, whose {key} is a function.", hint, task
                if leads_to_itself(target):
                    hint = "Jobs that follow each other would never end."
                    yield f"{says}, which leads back to itself.", hint, task


def leads_to_itself(task: "Task") -> bool:
    """Whether jobs of this task may be followed by jobs of the same task."""
    seen: set[str] = set()
    names = [*task.options.follow_up_keys.values()]
    while names:
        name = names.pop()
        if name == task.name:
            return True
        if name not in seen and name in registry.names():
            seen.add(name)
            names += registry.get(name).options.follow_up_keys.values()
    return False
