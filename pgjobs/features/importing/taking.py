"""What all sources share: finding tasks, and making jobs and schedules of them."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from django.db import InterfaceError, OperationalError, connections, transaction

from ...base.queue_database import database_time
from ...exceptions import InvalidArguments, InvalidTask, UnknownTask
from ...models.job import Job
from ...queue.new_job import NewJob
from ...tasks.registry import registry
from ...tasks.task import Task
from ..schedules.options import Recurrence
from ..schedules.tables import Schedule

BATCH = 1_000
LONGEST_NAME = 200
LONGEST_REASON = 1_000


class CannotTake(Exception):
    """Why a row stays where it is."""


EXPLAINED = (CannotTake, InvalidTask, InvalidArguments, UnknownTask)


@dataclass
class Taken:
    """What was taken over, and what was not."""

    number: int = 0
    left: list[Any] = field(default_factory=list)  # ids
    reasons: Counter[str] = field(default_factory=Counter)
    # What was taken without some of its options, and without which.
    losses: Counter[str] = field(default_factory=Counter)

    def loses(self, name: str, options: Iterable[str]) -> None:
        """Remember the options of a row that have no counterpart here."""
        if listed := ", ".join(options):
            self.losses[f"{name[:LONGEST_NAME]}: {listed}"] += 1

    @contextmanager
    def or_left(self, id: Any, name: str) -> Iterator[None]:
        """Remember why the row of this id cannot be taken, if the block raises that.

        What another queue has stored may raise anything.
        """
        try:
            yield
        except (OperationalError, InterfaceError):
            raise
        except Exception as error:  # noqa: BLE001
            self.left.append(id)
            self.reasons[f"{name[:LONGEST_NAME]}: {why(error)}"] += 1


def why(error: Exception) -> str:
    """Return what an error says, in one line."""
    name = "" if isinstance(error, EXPLAINED) else f"{type(error).__name__}: "
    lines = str(error).splitlines() or [""]
    return (name + lines[0].removesuffix("."))[:LONGEST_REASON]


class JobSource(NamedTuple):
    """Where waiting jobs are: two statements, and how a row becomes a job."""

    select: str  # gives id, name and more; takes %(left)s, %(limit)s and the parameters
    delete: str  # takes an array of ids
    new_job: Callable[..., NewJob]  # takes what follows the id
    parameters: dict[str, Any] = {}


def take_jobs(database: str, source: JobSource, taken: Taken) -> None:
    """Make jobs of all rows of the source, and delete these; in a transaction."""
    with connections[database].cursor() as cursor:
        while True:
            parameters = {**source.parameters, "left": taken.left, "limit": BATCH}
            cursor.execute(source.select, parameters)
            if not (rows := cursor.fetchall()):
                return
            new_jobs = dict(new_jobs_of(rows, source, taken))
            Job.objects.db_manager(database).insert([*new_jobs.values()])
            cursor.execute(source.delete, [[*new_jobs]])
            taken.number += len(new_jobs)


def new_jobs_of(
    rows: Iterable[tuple], source: JobSource, taken: Taken
) -> Iterator[tuple[Any, NewJob]]:
    for id, name, *rest in rows:
        with taken.or_left(id, name):
            yield id, source.new_job(name, *rest)


def task_at(path: str) -> Task:
    """Return the task of a name, or of the function with this dotted path."""
    module, _, function = path.rpartition(".")
    return registry.tasks.get((module, function)) or registry.get(path)


def save_schedule(
    database: str, name: str, path: str, args: tuple, kwargs: dict, when: dict[str, Any]
) -> None:
    """Insert a schedule, as if an operator had made it in the admin."""
    task = task_at(path)
    if Schedule.objects.using(database).filter(name=name).exists():
        raise CannotTake("there is a schedule of this name")
    stored = task.signature.store(args, kwargs)
    schedule = Schedule(
        name=name,
        task=task.name,
        args=json.loads(stored.args),
        kwargs=json.loads(stored.kwargs),
        **Recurrence(**when).values,
    )
    schedule.plan_again(database_time(database))
    with transaction.atomic(using=database):  # for what the database refuses
        schedule.save(using=database)
