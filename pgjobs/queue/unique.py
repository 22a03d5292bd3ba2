"""Enqueueing jobs with unique keys: no caller ever meets an IntegrityError.

PostgreSQL's unique index decides who is first. What becomes of the others is found out
afterwards; if the first has given up its key meanwhile, they are tried again.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from django.db import connections, transaction

from ..exceptions import AlreadyEnqueued
from ..sql import statement
from .acts import BATCH, NewJob, announce_enqueued, columns, inserted

if TYPE_CHECKING:
    from ..models.job import Job
    from ..tasks.bound import BoundTask
    from ..tasks.unique import UniqueKey

# What ties a job to those before and after it, in its `keys`: it stays when another job
# replaces its arguments.
LINK_KEYS = ["after", "after_batches", "needs", "batch_id", "has_successors"]


class NewUniqueJob(NewJob, Protocol):
    @property
    def unique_key(self) -> "UniqueKey | None": ...


def enqueue(
    model: "type[Job]", database: str, bound_tasks: "Sequence[BoundTask]"
) -> "list[Job | None]":
    """Insert the jobs whose keys are free, in the caller's transaction.

    Returns what belongs in each place. Raises AlreadyEnqueued, having inserted nothing.
    """
    enqueueing = Enqueueing(model, database, bound_tasks)
    if len(bound_tasks) == 1:  # what one statement inserts needs no transaction
        enqueueing.run()
    else:
        with transaction.atomic(using=database):
            enqueueing.run()
    announce_enqueued(model, enqueueing.new)
    return enqueueing.jobs


def insert_free(
    execute: Callable[[str, dict], list[tuple]], new_jobs: Sequence[NewUniqueJob]
) -> list[int | None]:
    """Insert the jobs whose keys are free; return the id of each, None: it is taken."""
    if keys := periods_of(new_jobs):
        execute(statement("give_up_keys"), {"unique_keys": keys})
    parameters = {**columns(new_jobs), **key_columns(new_jobs)}
    rows = execute(statement("enqueue_unique"), parameters)
    ids = {position: id for position, _, id, *_ in rows}
    return [ids.get(position) for position in range(len(new_jobs))]


class Enqueueing:
    """The jobs of one call, of which some may find their keys taken."""

    def __init__(
        self, model: "type[Job]", database: str, bound_tasks: "Sequence[BoundTask]"
    ):
        self.model = model
        self.database = database
        self.bound_tasks = bound_tasks
        self.jobs: list[Job | None] = [None] * len(bound_tasks)
        self.new: list[Job] = []

    def run(self) -> None:
        missing = list(range(len(self.bound_tasks)))
        while missing:
            if missing := self.insert(missing):
                missing = self.resolve(missing)

    def insert(self, positions: list[int]) -> list[int]:
        """Insert what can be; return the positions of the others."""
        bound_tasks = [self.bound_tasks[each] for each in positions]
        parameters = {**columns(bound_tasks), **key_columns(bound_tasks)}
        taken = set(positions)
        for index, until, *row in self.execute("enqueue_unique", parameters):
            position = positions[index]
            bound = self.bound_tasks[position]
            key = row_of_key(bound, until)
            job = inserted(self.model, self.database, bound, row, **key)
            self.jobs[position] = job
            self.new.append(job)
            taken.remove(position)
        return sorted(taken)

    def resolve(self, positions: list[int]) -> list[int]:
        """Look who holds the keys; return the positions of those that nobody holds."""
        bound_tasks = [self.bound_tasks[each] for each in positions]
        self.give_up_keys(bound_tasks)
        replaced = self.replace(bound_tasks)
        holders = {
            (job.unique_key, job.unique_for): job for job in self.holders(bound_tasks)
        }
        free = []
        for position, bound in zip(positions, bound_tasks, strict=True):
            holder = holders.get(key_of(bound)[:2])
            on_conflict = bound.options.on_conflict
            if holder is None:
                free.append(position)
            elif on_conflict == "raise":
                raise AlreadyEnqueued(holder)
            elif on_conflict == "replace" and not (
                holder.pk in replaced or holder.attempts or holder.is_finished
            ):
                free.append(position)  # it came only after we had looked
            elif on_conflict != "skip":
                self.jobs[position] = holder
        self.refresh({job.pk: job for job in holders.values()})
        return free

    def give_up_keys(self, bound_tasks: "list[BoundTask]") -> None:
        if keys := periods_of(bound_tasks):
            self.execute("give_up_keys", {"unique_keys": keys})

    def replace(self, bound_tasks: "list[BoundTask]") -> set[int]:
        """Replace what has not started where that is asked for; return those ids."""
        replacing = [
            each for each in bound_tasks if each.options.on_conflict == "replace"
        ]
        if not replacing:
            return set()
        parameters = {
            **columns(replacing),
            **key_columns(replacing),
            "link_keys": LINK_KEYS,
        }
        return {id for id, _ in self.execute("replace", parameters)}

    def holders(self, bound_tasks: "list[BoundTask]") -> "Iterator[Job]":
        keys = list({key_of(each).key for each in bound_tasks})
        holding = self.model.objects.using(self.database).holding_keys()
        for at in range(0, len(keys), BATCH):
            yield from holding.filter(unique_key__in=keys[at : at + BATCH])

    def refresh(self, latest: "dict[int, Job]") -> None:
        """Let jobs that this call has inserted be as it has replaced them."""
        self.new = [latest.get(job.pk, job) for job in self.new]
        self.jobs = [latest.get(job.pk, job) if job else None for job in self.jobs]

    def execute(self, name: str, parameters: dict) -> list[tuple]:
        with connections[self.database].cursor() as cursor:
            cursor.execute(statement(name), parameters)
            return cursor.fetchall() if cursor.description else []


def key_of(bound: "BoundTask") -> "UniqueKey":
    assert bound.unique_key is not None  # nothing else is in anybody's way
    return bound.unique_key


def periods_of(new_jobs: Sequence[NewUniqueJob]) -> list[str]:
    """Return the keys that are held for a period, each once."""
    keys = [each.unique_key for each in new_jobs]
    return list({key.key for key in keys if key is not None and key.seconds})


def key_columns(new_jobs: Sequence[NewUniqueJob]) -> dict[str, list]:
    """Return the keys of jobs to insert as one array for each column."""
    keys = [each.unique_key or (None, None, None) for each in new_jobs]
    unique_keys, unique_fors, periods = map(list, zip(*keys, strict=True))
    return {
        "unique_keys": unique_keys,
        "unique_fors": unique_fors,
        "periods": periods,
    }


def row_of_key(bound: "BoundTask", until) -> dict:
    """Return the columns of the key of a job that was just inserted."""
    if bound.unique_key is None:
        return {}
    return {
        "unique_key": bound.unique_key.key,
        "unique_for": bound.unique_key.held,
        "unique_until": until,
    }
