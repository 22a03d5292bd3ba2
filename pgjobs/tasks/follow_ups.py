"""Follow-ups: the job that the end of another one makes.

`Job.keys` names the follow-ups of a job. The database inserts them in the transaction
that stores the end, whatever ends the job: a worker, a rescue, an operator, a
dependency. See database/functions/jobs/follow_up.sql.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..exceptions import InvalidArguments, InvalidTask, UnknownTask
from .registry import registry

if TYPE_CHECKING:
    from .task import Task

FOLLOW_UPS = ("on_success", "on_failure")
KEYS = ("lock", "unique_key", "limit_key", "rate_key")


@dataclass(frozen=True, kw_only=True)
class FollowUps:
    """The options of `@task` and `.using(...)` for what follows a job's end."""

    #: The task whose job is enqueued in the transaction that stores the job's success.
    #: It gets the job's id as `job_id`.
    on_success: "Task | str | None" = None
    #: The same for a job that ends FAILED.
    on_failure: "Task | str | None" = None

    def __post_init__(self) -> None:
        for option in FOLLOW_UPS:
            check_follow_up(option, getattr(self, option))

    @property
    def follow_up_keys(self) -> dict[str, str]:
        """The part of `Job.keys` that names the follow-ups."""
        given = {option: getattr(self, option) for option in FOLLOW_UPS}
        return {option: name_of(task) for option, task in given.items() if task}


def check_follow_up(option: str, value: Any) -> None:
    if value is None or (isinstance(value, str) and value):
        return
    if not hasattr(value, "signature"):
        raise InvalidTask(f"{option} must be a task or a task's name, got {value!r}.")
    if value.original is not value:
        raise InvalidTask(
            f"{option} must be a task as it was declared, got one with .using(...): "
            "the database makes its job, and knows the options of @task only."
        )


def name_of(task: "Task | str") -> str:
    return task if isinstance(task, str) else task.name


def faults() -> Iterator[tuple[str, str, "Task"]]:
    """Yield what keeps follow-ups from running: a message, a hint and the task."""
    for task in registry.tasks.values():
        for option, name in task.options.follow_up_keys.items():
            says = f"{option} of {task.name} names {name!r}"
            try:
                target = registry.get(name)
                target.signature.store((), {"job_id": 1})
            except UnknownTask:
                yield (
                    f"{says}, but no task has that name.",
                    "Its jobs would fail.",
                    task,
                )
            except (InvalidArguments, InvalidTask):
                hint = "Declare it as def task(job_id: int): it gets the job's id."
                yield f"{says}, which cannot be enqueued with job_id alone.", hint, task
            else:
                for key in KEYS:
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
