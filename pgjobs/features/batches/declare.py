"""Chains and groups: jobs that are built first, and enqueued together."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Never

from django.core.exceptions import SynchronousOnlyOperation
from django.db import transaction

from ...exceptions import InvalidTask
from ...queue.inserting import IN_ASYNC_CODE
from ...queue.new_job import NewJob
from ...tasks import tables
from ...tasks.destination import common_database
from ...tasks.enqueueing import Composition
from ...tasks.task import BoundTask
from ..results.placeholders import Placeholder
from ..results.sources import End, with_sources
from .options import NEEDS, keys_of

if TYPE_CHECKING:
    from ...models import Batch, Job

LONGEST_DESCRIPTION = 200
CALLBACKS = {"then": "end", "on_failure": "failure"}  # what they need of the batch


@dataclass(frozen=True)
class Chain(Composition["list[Job | Batch]"]):
    """Jobs and groups, each to run after the success of the one before: `parts`."""

    parts: "tuple[BoundTask[Any] | Group, ...]"

    def enqueue(self) -> "list[Job | Batch]":
        """Insert the jobs in the caller's transaction, all or none.

        Returns a job for each part, or the batch if the part is a group. Raises
        AlreadyEnqueued.
        """
        return Plan().enqueue(self)


@dataclass(frozen=True)
class Group(Composition["Batch"]):
    """Jobs and chains that run side by side, as one batch; `group` says more."""

    parts: "tuple[BoundTask[Any] | Chain | Group, ...]"
    then: BoundTask[Any] | None = None
    on_failure: BoundTask[Any] | None = None
    description: str = ""

    def enqueue(self) -> "Batch":
        """Insert the jobs in the caller's transaction, all or none; return the batch.

        Raises AlreadyEnqueued.
        """
        return Plan().enqueue(self)

    @property
    def has_callbacks(self) -> bool:
        return self.then is not None or self.on_failure is not None


Part = BoundTask[Any] | Chain | Group


def chain(*parts: Part) -> Chain:
    """Return jobs that run one after the other, each if the one before succeeded.

    `parts`: what `task.bind(...)` returns, and groups, whose jobs run side by side. The
    next part waits for the success of all of them. If one does not succeed, the next
    part is cancelled, unless its task says `.using(after_failure="run")`. Raises
    InvalidTask.
    """
    checked = checked_parts("chain", parts)
    flat: list[BoundTask | Group] = []
    for part in checked:  # a chain in a chain is a longer chain
        flat += part.parts if isinstance(part, Chain) else [part]
    return Chain(tuple(flat))


def group(
    parts: Iterable[Part],
    *others: Never,
    then: BoundTask[Any] | None = None,
    on_failure: BoundTask[Any] | None = None,
    description: str = "",
) -> Group:
    """Return jobs that run side by side, as one batch.

    - `parts`: what `task.bind(...)` returns, chains, and groups without callbacks,
      whose jobs belong to the batch of this group.
    - `others` are refused: the parts stand in one list.
    - `then` runs once when all jobs of the batch have ended, whatever became of them.
    - `on_failure` runs when the first of them has failed. It is cancelled if none
      fails.
    - `description`: for people, up to 200 characters.

    Raises InvalidTask.
    """
    if others:
        raise InvalidTask("group takes one list of jobs: group([first, second]).")
    checked = checked_parts("group", parts)
    for name, callback in (("then", then), ("on_failure", on_failure)):
        if not (callback is None or isinstance(callback, BoundTask)):
            raise InvalidTask(
                f"{name} must be what task.bind(...) returns, got {callback!r}."
            )
    if not isinstance(description, str) or len(description) > LONGEST_DESCRIPTION:
        raise InvalidTask(
            f"description must be a text of at most {LONGEST_DESCRIPTION} characters, "
            f"got {description!r}."
        )
    for part in members(checked):
        if isinstance(part, Group) and part.has_callbacks:
            raise InvalidTask(
                "A group in a group belongs to the same batch, and can have no "
                "callbacks of its own."
            )
        if isinstance(part, BoundTask) and part.options.batch is not None:
            raise InvalidTask(
                f"{part.task.name} says batch= and stands in a group, which is another."
            )
    return Group(checked, then, on_failure, description)


def members(parts: Iterable[Part]) -> Iterable[Part]:
    """Yield the parts, and the parts of chains and groups among them."""
    for part in parts:
        yield part
        if not isinstance(part, BoundTask):
            yield from members(part.parts)


def checked_parts(kind: str, parts: Any) -> tuple[Part, ...]:
    if isinstance(parts, BoundTask | Chain | Group) or not isinstance(parts, Iterable):
        raise InvalidTask(f"{kind} takes a list of jobs, got {parts!r}.")
    parts = tuple(parts)
    if not parts:
        raise InvalidTask(f"A {kind} of nothing: give it at least one job.")
    for position, part in enumerate(parts):
        if not isinstance(part, BoundTask | Chain | Group):
            raise InvalidTask(
                f"{kind} takes what task.bind(...), chain(...) and group(...) return, "
                f"got {part!r} at position {position}."
            )
    return parts


class Node:
    """A job of a plan."""

    place: int | None = None  # among the ends of its group

    def __init__(
        self,
        bound: BoundTask,
        after: "list[Node | Members]",
        batch: "Members | None" = None,
        callback: str = "",
    ):
        self.bound = bound
        self.after = after
        self.batch = batch
        self.callback = callback
        self.needs = CALLBACKS.get(callback) or NEEDS[bound.options.after_failure]
        # Jobs of a level wait for those of lower ones, which have lower ids.
        self.level: int = 1 + max((each.level for each in after), default=0)
        self.has_successors = False
        self.job: Job | None = None  # None after `insert` if it was skipped
        self.sources: list[Node] = []  # further ones, whose results it names
        for each in after:
            each.has_successors = True

    @property
    def result(self) -> "Job | None":
        return self.job

    @property
    def ends(self) -> "list[Job | Batch]":
        """The jobs or batches to wait for."""
        return [] if self.job is None else [self.job]

    @property
    def end(self) -> End:
        """What it is for those that name its result."""
        return End(bound=self.bound, job=None if self.job is None else self.job.pk)

    def wait_for(self, source: "Node") -> None:
        """Wait for a job before those for which it waits, too, to name its result."""
        if source not in self.after:
            self.sources.append(source)
            source.has_successors = True

    def made(self) -> NewJob:
        """Return its own part of the new job. Raises InvalidTask."""
        if self.bound.later is None:
            return self.bound.new_job
        ends = [each.end for each in self.after]
        own = self.bound.options.after
        named = [End.of(*each) for each in zip(own, own.names, strict=True)]
        if not ends:
            ends, named = named, []
        more = [end for end in named if end.name or end.bound]
        more += [each.end for each in self.sources]
        return with_sources(self.bound, self.bound.made, ends, self.callback, more)

    def prepared(self) -> NewJob:
        """Return the new job, once all that it waits for is inserted."""
        after = [*self.bound.options.after]
        for each in (*self.after, *self.sources):
            after += each.ends
        batch = self.batch.row if self.batch else self.bound.options.batch
        new_job = self.made()
        keys = {**(new_job.keys or {}), **keys_of(after, self.needs, batch)}
        if self.has_successors:
            keys["has_successors"] = True
        if self.batch is not None and self.batch.has_places:
            keys["place"] = self.place
        return new_job._replace(keys=keys)


class Members:
    """The batch of a plan's group."""

    def __init__(self, description: str):
        self.description = description
        self.nodes: list[Node] = []
        self.lasts: list[Node] = []  # the ends of its parts
        self.has_successors = False
        self.has_places = False  # the order of the ids is not that of the group
        self.row: Batch | None = None  # until it is inserted

    @property
    def level(self) -> int:
        return max(node.level for node in self.nodes)

    @property
    def result(self) -> "Batch | None":
        return self.row

    @property
    def ends(self) -> "list[Job | Batch]":
        """What to wait for: jobs that held a unique key are of no batch, or another."""
        assert self.row is not None
        others = [
            node.job
            for node in self.nodes
            if node.job is not None and node.job.batch_id != self.row.pk
        ]
        return [self.row, *others]

    @property
    def end(self) -> End:
        """What it is for those that name the results of its jobs."""
        if self.row is None:
            return End(is_group=True)
        seen: set[int] = set()
        others: list[tuple[int, int]] = []
        for node in self.nodes:
            if node.place is not None and node.job is not None:
                if node.job.batch_id != self.row.pk or node.job.pk in seen:
                    others.append((node.place, node.job.pk))
                seen.add(node.job.pk)
        expected = sum(node.job is not None for node in self.lasts)
        return End(is_group=True, batch=self.row.pk, others=others, expected=expected)

    def order(self, lasts: "list[Node]", is_flat: bool) -> None:
        """Remember the order of its ends, unless that of the ids says it."""
        self.lasts = lasts
        keyed = any(node.bound.options.is_unique for node in lasts)
        self.has_places = keyed or not is_flat
        if self.has_places:
            for place, node in enumerate(lasts):
                node.place = place


class Plan:
    """The jobs of a chain or group, and the order in which they wait."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.batches: list[Members] = []

    def enqueue(self, part: Chain | Group) -> Any:
        results: list[Node | Members] = []
        after: list[Node | Members] = []
        for each in part.parts if isinstance(part, Chain) else (part,):
            after = self.add(each, after, None)
            results += after
        self.wait_for_named()
        named = common_database(node.bound.options for node in self.nodes)
        database = named or tables.Job.objects.db_to_write
        try:
            with transaction.atomic(using=database):
                self.insert(database)
        except SynchronousOnlyOperation as error:
            raise SynchronousOnlyOperation(IN_ASYNC_CODE) from error
        enqueued = [result.result for result in results]
        return enqueued if isinstance(part, Chain) else enqueued[0]

    def add(
        self, part: Part, after: "list[Node | Members]", batch: Members | None
    ) -> "list[Node | Members]":
        """Add the jobs after these; return those that the next ones wait for."""
        if isinstance(part, BoundTask):
            return [self.add_node(part, after, batch)]
        if isinstance(part, Chain):
            for each in part.parts:
                after = self.add(each, after, batch)
            return after
        if batch is None:
            return [self.add_batch(part, after)]
        return [last for each in part.parts for last in self.add(each, after, batch)]

    def wait_for_named(self) -> None:
        """Let jobs wait for those whose results they name. Raises InvalidTask."""
        made: dict[int, list[Node]] = {}
        for node in self.nodes:
            made.setdefault(id(node.bound), []).append(node)
        for node in self.nodes:
            for value in (node.bound.later or {}).values():
                if isinstance(value, Placeholder) and value._bound is not None:
                    sources = made.get(id(value._bound), [])
                    if len(sources) > 1:
                        raise InvalidTask(
                            f"{node.bound.task.name} takes {value!r}, which stands "
                            "there twice. Bind the task once for each job."
                        )
                    if sources and sources[0].level < node.level:
                        node.wait_for(sources[0])
            node.made()

    def add_node(self, bound, after, batch=None, callback="") -> Node:
        node = Node(bound, after, batch, callback)
        self.nodes.append(node)
        if batch is not None:
            batch.nodes.append(node)
        return node

    def add_batch(self, part: Group, after: "list[Node | Members]") -> Members:
        batch = Members(part.description)
        self.batches.append(batch)
        lasts = [last for each in part.parts for last in self.add(each, after, batch)]
        nodes = [last for last in lasts if isinstance(last, Node)]
        batch.order(nodes, all(isinstance(each, BoundTask) for each in part.parts))
        if part.then is not None:
            self.add_node(part.then, [batch], callback="then")
        if part.on_failure is not None:
            self.add_node(part.on_failure, [batch], callback="on_failure")
        return batch

    def insert(self, database: str) -> None:
        """Insert the batches, then the jobs, one statement for each level."""
        all_jobs = tables.Job.objects.db_manager(database)
        rows = [tables.Batch(description=each.description) for each in self.batches]
        tables.Batch.objects.using(database).bulk_create(rows)
        for batch, row in zip(self.batches, rows, strict=True):
            batch.row = row
        levels: dict[int, list[Node]] = {}
        for node in self.nodes:
            levels.setdefault(node.level, []).append(node)
        for level in sorted(levels):
            new_jobs = [node.prepared() for node in levels[level]]
            jobs = all_jobs.insert(new_jobs)
            for node, job in zip(levels[level], jobs, strict=True):
                node.job = job
