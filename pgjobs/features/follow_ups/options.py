"""The options for follow-ups.

`Job.keys` names the follow-ups of a job. The database inserts them in the transaction
that stores the end, whatever ends the job: a worker, a rescue, an operator, a
dependency. See functions/jobs/follow_up.sql.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict

from ...exceptions import InvalidTask
from ...tasks.option_group import OptionGroup

if TYPE_CHECKING:
    from ...tasks.task import Task

FOLLOW_UPS = ("on_success", "on_failure")


@dataclass(frozen=True, kw_only=True)
class FollowUps(OptionGroup):
    """The options of `@task` and `.using(...)` for what follows a job's end."""

    #: The task whose job is enqueued in the transaction that stores the job's success.
    #: It gets the job's id as `job_id`.
    on_success: "Task | str | None" = None
    #: The same for a job that ends FAILED.
    on_failure: "Task | str | None" = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for option in FOLLOW_UPS:
            check_follow_up(option, getattr(self, option))

    @property
    def follow_up_keys(self) -> dict[str, str]:
        """The part of `Job.keys` that names the follow-ups."""
        given = {option: getattr(self, option) for option in FOLLOW_UPS}
        return {option: name_of(task) for option, task in given.items() if task}

    def fixed_keys(self) -> dict[str, Any]:
        return super().fixed_keys() | self.follow_up_keys


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


GROUPS = (FollowUps,)


class TaskOptions(TypedDict, total=False):
    on_success: "Task | str"
    on_failure: "Task | str"
