"""The options for predecessors, which must end before a job runs, and for the batch."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from keyword import iskeyword
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypedDict

from ...exceptions import InvalidTask
from ...tasks import tables
from ...tasks.option_group import OptionGroup

if TYPE_CHECKING:
    from ...models import Batch, Job


class After(tuple["Job | Batch", ...]):
    """Jobs and batches, each with the name that `after={...}` gives it, or None."""

    names: tuple[str | None, ...] = ()


NONE = After()
AfterFailure = Literal["cancel", "run"]
# What a job needs of its predecessors: values of pgjobs_predecessor.needs.
NEEDS = {"cancel": "success", "run": "end"}


@dataclass(frozen=True, kw_only=True)
class Predecessors(OptionGroup):
    """The options of `.using(...)` for predecessors and the batch."""

    only_of_jobs: ClassVar[tuple[str, ...]] = ("after", "batch")

    #: Jobs and batches that must end before the job runs. A dict gives them names, by
    #: which `result.name` finds them.
    after: After = NONE
    #: If one of them fails, the job is cancelled too, or runs all the same (`"run"`).
    after_failure: AfterFailure = "cancel"
    #: The batch to which the job is added.
    batch: "Batch | None" = None

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "after", check_after(self.after))
        if self.after_failure not in NEEDS:
            raise InvalidTask(
                f"after_failure must be 'cancel' or 'run', got {self.after_failure!r}."
            )
        if self.batch is not None:
            check_batch(self.batch)

    def fixed_columns(self) -> dict[str, Any]:
        own = {"holds": tuple(each.pk for each in self.after if may_go(each))}
        return super().fixed_columns() | own

    def fixed_keys(self) -> dict[str, Any]:
        own = keys_of(self.after, NEEDS[self.after_failure], self.batch)
        return super().fixed_keys() | own

    def rows(self) -> "tuple[Job | Batch, ...]":
        batch = () if self.batch is None else (self.batch,)
        return (*super().rows(), *self.after, *batch)


def may_go(waited: "Job | Batch") -> bool:
    """Whether a worker may delete the row once the job has succeeded."""
    return isinstance(waited, tables.Job) and waited.keep not in (None, "all")


def keys_of(
    after: "Iterable[Job | Batch]", needs: str, batch: "Batch | None"
) -> dict[str, Any]:
    """Return the part of `Job.keys` for a job after these ones, in this batch."""
    waited_for = list(after)
    jobs = sorted(
        {waited.pk for waited in waited_for if isinstance(waited, tables.Job)}
    )
    batches = sorted(
        {waited.pk for waited in waited_for if isinstance(waited, tables.Batch)}
    )
    keys: dict[str, Any] = {}
    if jobs:
        keys["after"] = jobs
    if batches:
        keys["after_batches"] = batches
    if keys and needs != "success":
        keys["needs"] = needs
    if batch is not None:
        keys["batch_id"] = batch.pk
    return keys


def check_after(after: Any) -> After:
    """Return jobs and batches as a tuple; raise InvalidTask for anything else."""
    if isinstance(after, After):
        return after
    names: list[str | None] = []
    if isinstance(after, Mapping):
        names = [checked_name(name) for name in after]
        after = after.values()
    if isinstance(after, tables.Job | tables.Batch):
        after = (after,)
    if isinstance(after, str) or not isinstance(after, Iterable):
        raise InvalidTask(f"after must be a list of jobs and batches, got {after!r}.")
    made = After(after)
    made.names = tuple(names) or (None,) * len(made)
    for position, each in enumerate(made):
        if not isinstance(each, tables.Job | tables.Batch):
            raise InvalidTask(
                f"after must be jobs and batches that are enqueued, got {each!r} at "
                f"position {position}. Jobs that are not: use chain() and group()."
            )
        if each.pk is None:
            raise InvalidTask(f"after: the job at position {position} was not saved.")
    return made


def checked_name(name: Any) -> str:
    """Return a name of `after={...}`; raise InvalidTask if it cannot follow a dot."""
    is_name = isinstance(name, str) and name.isidentifier() and name[0] != "_"
    if not is_name or iskeyword(name):
        raise InvalidTask(
            f"after={{{name!r}: ...}}: a name must be one that result.name can have."
        )
    return name


def check_batch(batch: Any) -> None:
    if not isinstance(batch, tables.Batch):
        raise InvalidTask(f"batch must be a batch, got {batch!r}.")
    if batch.pk is None:
        raise InvalidTask("batch: it was not saved.")


GROUPS = (Predecessors,)


class TaskOptions(TypedDict, total=False):
    after_failure: AfterFailure


class JobOptions(TaskOptions, total=False):
    after: "Job | Batch | Iterable[Job | Batch] | Mapping[str, Job | Batch] | None"
    batch: "Batch | None"
