"""What every group of options can do: those of the core, and those of features."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from . import arguments

if TYPE_CHECKING:
    from ..models import Batch, Job
    from .arguments import Signature, Stored
    from .task import Task


class OptionGroup:
    """Options that belong together: a frozen dataclass, from which `Options` inherits.

    A group overrides what it has a part in, and calls `super()` for the other groups.
    """

    for_jobs: ClassVar[bool] = True  # whether `.using` takes them, too
    bounds_life = False  # whether jobs have `RunningJob.seconds_left`
    prepares = False  # whether the `arriving.py` of a feature looks at each job first
    only_of_jobs: ClassVar[tuple[str, ...]] = ()  # which `@task` does not take

    def __post_init__(self) -> None:
        """Raise InvalidTask for values that cannot be."""

    def signed(self, function: Callable) -> Callable:
        """Return what has the jobs' parameters: the function itself, or another one."""
        return function

    def signature(self, task_name: str, function: Callable) -> "Signature":
        """Return the checked parameters of what `signed` has returned."""
        return arguments.Signature(task_name, function)

    @property
    def execution(self) -> "Callable[..., Any] | None":
        """Return the class of the executions of its jobs, if it has one of its own."""
        return None

    @property
    def gathered(self) -> "Callable[..., Any] | None":
        """Return what takes claimed jobs of the task before they begin, if anything.

        It gets the claimer and all jobs of a claim. It begins those of other tasks, and
        returns those of its own that begin next.
        """
        return None

    def check(self, function: Callable) -> None:
        """Raise InvalidTask for names that are no parameters of the function."""

    def complete(self, signature: "Signature") -> None:
        """Change what the parameters of the task say of values."""

    def kept(self, running: Any, text: str | None) -> str | None:
        """Return the JSON text that is stored of a running job's result."""
        return text

    def fixed_columns(self) -> dict[str, Any]:
        """Return the values of a `NewJob` that do not depend on its arguments."""
        return {}

    def fixed_keys(self) -> dict[str, Any]:
        """Return the part of `Job.keys` that does not depend on the arguments.

        Of a declared task its values are no JSON objects: in a definition these are
        templates.
        """
        return {}

    def rows(self) -> "tuple[Job | Batch, ...]":
        """Return the rows to which the job belongs, in whose database it must be."""
        return ()

    def read_before(self) -> tuple[str, ...]:
        """Return attributes of the running job to read before a coroutine runs."""
        return ()

    def has_dependencies(self, task: "Task[..., Any, Any]") -> bool:
        """Whether jobs of the task have the column `dependencies`."""
        return False

    def dependencies_of(
        self, task: "Task[..., Any, Any]", stored: "Stored"
    ) -> dict[str, Any]:
        """Return the column `dependencies` of a job with these arguments."""
        raise NotImplementedError

    def enqueue_several(
        self, task: "Task[..., Any, Any]", args: tuple, kwargs: dict
    ) -> list | None:
        """Insert several jobs and return them, or return None if a call makes one."""
        return None

    def words_of_calls(self, signature: "Signature") -> dict[str, dict[str, Any]]:
        """Return, by parameter, what `enqueue` takes besides values, with labels."""
        return {}

    def definition(self, signature: "Signature") -> dict[str, Any]:
        """Return what the task's definition has of the options of features.

        Raises InvalidTask for what does not go with the hints of the parameters.
        """
        return {}
