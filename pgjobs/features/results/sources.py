"""Whose result a placeholder stands for, and how the row of its job says it.

`Job.keys["results"]` has, by argument, what it gets (`of`: result, results or
outcomes), and of whom: `jobs`, or a `batch` and `others`, each with its place in the
order of the group, which belong to no batch or to another one.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from ...conf import settings
from ...exceptions import InvalidTask
from ...queue.new_job import NewJob
from ...tasks import tables
from ...tasks.later import Later
from ...tasks.task import BoundTask
from .placeholders import Placeholder

MOST_MEMBERS = 10_000  # of a group; see functions/ends_before.sql
MOST_BYTES = 10  # times PGJOBS["MAX_RESULT_BYTES"], of all members of a group
CURE = (
    "Put it behind a job in a chain, give it as then= of a group, or say "
    ".using(after=...)"
)


class End(NamedTuple):
    """A job or a group that ends before: something that has a result."""

    name: str | None = None  # in `after={...}`
    bound: BoundTask | None = None  # of which the job was made
    job: int | None = None  # its id; None until it is inserted
    is_group: bool = False
    batch: int | None = None
    others: Sequence[tuple[int, int]] = ()
    expected: int = 0  # how many results a group has, as far as it is known

    @classmethod
    def of(cls, row: Any, name: str | None = None) -> "End":
        """Return the end of an enqueued job or batch."""
        if isinstance(row, tables.Job):
            return cls(name, getattr(row, "bound", None), row.pk)
        return cls(name, is_group=True, batch=row.pk)


def with_sources(
    bound: BoundTask,
    new_job: NewJob,
    ends: Sequence[End],
    callback: str = "",
    named: Sequence[End] = (),
) -> NewJob:
    """Return the job with what its placeholders stand for.

    - `ends`: what runs before it, which placeholders without a name mean.
    - `callback`: then or on_failure, if the job is one of a group.
    - `named`: what else runs before it.

    Raises InvalidTask.
    """
    assert bound.later is not None
    entries = {
        name: entry_of(bound, name, value, ends, callback, named)
        for name, value in bound.later.items()
    }
    return new_job._replace(keys={**(new_job.keys or {}), "results": entries})


def entry_of(
    bound: BoundTask,
    name: str,
    value: Later,
    ends: Sequence[End],
    callback: str,
    named: Sequence[End],
) -> dict[str, Any]:
    assert isinstance(value, Placeholder)
    is_named = value._bound is not None or value._name is not None
    ends = [*ends, *named] if is_named else ends
    found = meant(value, ends)
    who = f"{bound.task.name}: {name}={value!r}"
    if fault := fault_of(value, found, ends, callback):
        raise InvalidTask(f"{who} {fault}.")
    entry: dict[str, Any] = {"of": value._kind}
    if value._path:
        entry["path"] = list(value._path)
    if found[0].is_group:
        entry["batch"] = found[0].batch
        if found[0].expected:
            entry["expected"] = found[0].expected
        if found[0].others:
            entry["others"] = [list(each) for each in found[0].others]
    else:
        entry["jobs"] = [each.job for each in found]
        entry["is_one"] = is_named or len(found) == 1
    if value._kind != "result":
        entry["bytes"] = MOST_BYTES * settings.MAX_RESULT_BYTES
    return entry


def meant(value: Placeholder, ends: Sequence[End]) -> list[End]:
    """Return the jobs, or the group, that a placeholder means."""
    if value._bound is not None:
        return [end for end in ends if end.bound is value._bound]
    if value._name is not None:
        return [end for end in ends if end.name == value._name]
    return list(ends)


def fault_of(
    value: Placeholder, found: Sequence[End], ends: Sequence[End], callback: str
) -> str:
    """Return why a placeholder stands for nothing here, or an empty text."""
    if not ends:
        return f"stands for nothing: no job runs before it. {CURE}"
    if not found:
        return missing(value, ends)
    if any(may_be_skipped(end.bound) for end in found if end.bound is not None):
        return (
            "may stand for nothing: the job is skipped if another one holds its unique "
            "key. Say on_conflict='return'"
        )
    if callback == "on_failure" and value._kind != "outcomes":
        return (
            "cannot be: on_failure runs before the jobs of its group have ended. It "
            "takes outcomes, which are those of that moment"
        )
    is_group = any(end.is_group for end in found)
    if value._kind == "result" and is_group:
        return "stands after a group, which has several: say results, or outcomes"
    if value._kind == "result" and len(found) > 1:
        return (
            "may stand for several jobs: name them, after={'user': job}, and say "
            "result.user"
        )
    if is_group and len(found) > 1:
        return "may stand for several: name them, after={'pages': batch}"
    if value._kind == "results" and not is_group and len(found) == 1:
        return "stands for one job: say result"
    return ""


def may_be_skipped(bound: BoundTask) -> bool:
    return bound.options.is_unique and bound.options.on_conflict == "skip"


def missing(value: Placeholder, ends: Sequence[End]) -> str:
    if value._bound is not None:
        return (
            f"does not run before this job. {CURE}, once the job itself is enqueued "
            "by enqueue(bound) or stands before it"
        )
    names = ", ".join(sorted(end.name for end in ends if end.name))
    known = f"after has {names}" if names else "after has no names"
    return f"names no job: {known}. Say after={{{value._name!r}: job}}"
