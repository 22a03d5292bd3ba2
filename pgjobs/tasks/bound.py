"""What one job is made of: a task and its checked arguments."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from .unique import UniqueKey

if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault

    from ..models import Job
    from .arguments import Stored
    from .task import Options, Task

    J = TypeVarWithDefault(
        "J", bound=Job | list[Job] | None, default=Job, covariant=True
    )
else:
    J = TypeVar("J")


@dataclass(frozen=True)
class BoundTask(Generic[J]):
    """A task and its checked arguments: what one job is made of."""

    task: "Task[Any, Any, J]"
    arguments: "Stored"
    # Of lock, limit and rate, of predecessors and batch: see `Job.keys`.
    keys: dict[str, Any] = field(default_factory=dict)
    unique_key: UniqueKey | None = None
    dependencies: dict[str, Any] | None = None  # what it needs and serves

    @property
    def task_name(self) -> str:
        return self.task.name

    @property
    def options(self) -> "Options":
        return self.task.options
