"""Schedules that code declares, and the jobs that schedules enqueue."""

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from random import uniform
from typing import TYPE_CHECKING, Any, NamedTuple

from django.db import transaction

from ...base.plain_json import check_text, dump, shortened
from ...base.queue_database import database_of_acts
from ...exceptions import InvalidTask
from ...queue.new_job import NewJob
from ...tasks import tables
from ...tasks.arguments import Stored
from ...tasks.registry import registry
from ...tasks.stored_jobs import job_of
from ...tasks.task import J, P, R, Task
from .options import Recurrence
from .queue import Fired, store_run

if TYPE_CHECKING:
    from ...models import Job
    from .tables import Schedule

LONGEST_NAME = 200
ENCRYPTED = (
    "is encrypted, and a schedule would store it in the clear: let the task look it "
    "up, or enqueue another one"
)


class Declaration(NamedTuple):
    """A schedule of a task, under the name that its row has."""

    name: str
    task: Task
    recurrence: Recurrence

    def belongs_in(self, database: str) -> bool:
        own = self.recurrence.database or self.task.options.database
        return own in (None, database)

    @property
    def values(self) -> dict[str, Any]:
        """The fields of the row; raises InvalidArguments, InvalidTask."""
        stored = self.task.signature.store((), dict(self.recurrence.arguments))
        return {
            "task": self.task.name,
            "args": json.loads(stored.args),
            "kwargs": json.loads(stored.kwargs),
            **self.recurrence.values,
        }


def schedule(
    *, name: str | None = None, arguments: Mapping[str, Any] | None = None, **when: Any
) -> Callable[[Task[P, R, J]], Task[P, R, J]]:
    """Make a task run again and again. Stands above `@task`, as often as you like.

    - `every` (seconds or a timedelta) or `cron` (five fields, or "@daily"), with
      `timezone` (default: TIME_ZONE).
    - `arguments`: the arguments of the task, by name.
    - `name`: unique; the default is the task's name with the arguments.
    - `overlap`: "skip" (no run while the last one is unfinished) or "allow".
    - `catch_up`: which missed runs follow after a time without workers: "latest" (one
      for all of them), "all" or "none".
    - `anchor`: "end" counts `every` from the end of the run.
    - `jitter`: the longest random delay of a run, in seconds or as a timedelta.
    - `start`, `end`: aware datetimes.
    - `database`: the alias of the only database that has the schedule. By default each
      database with a queue has it, and runs it with its own data.

    All but `name` and `arguments` say when. Returns what decorates the task. Raises
    InvalidTask.
    """
    unknown = when.keys() - Recurrence.__dataclass_fields__
    if unknown:
        known = ", ".join(Recurrence.__dataclass_fields__)
        raise InvalidTask(
            f"@schedule has no option {', '.join(sorted(map(repr, unknown)))}; "
            f"it has {known}."
        )
    recurrence = Recurrence(name=name, arguments=arguments or {}, **when)
    if name is not None:
        check_name(name)

    def add(task: Task[P, R, J]) -> Task[P, R, J]:
        if not isinstance(task, Task):
            raise InvalidTask(
                f"@schedule takes a task, got {task!r}: write it above @task."
            )
        for name in recurrence.arguments:
            if task.options.covers(name):
                raise InvalidTask(f"arguments of a schedule: {name} {ENCRYPTED}.")
        task.declarations[Recurrence].append(recurrence)
        return task

    return add


def declarations() -> Iterator[Declaration]:
    """Yield every schedule that the tasks of this process declare."""
    for task in registry.tasks.values():
        for recurrence in task.declarations[Recurrence]:
            name = recurrence.name or default_name(task, recurrence)
            yield Declaration(name, task, recurrence)


def default_name(task: Task, recurrence: Recurrence) -> str:
    """Return a name that stays as it is when the schedule's times change."""
    if not recurrence.arguments:
        return task.name
    given = ", ".join(
        f"{name}={value!r}" for name, value in recurrence.arguments.items()
    )
    return f"{task.name}({given})"[:LONGEST_NAME]


def clashes() -> dict[str, list[Declaration]]:
    """Return the names that more than one declaration has."""
    by_name: dict[str, list[Declaration]] = {}
    for declaration in declarations():
        by_name.setdefault(declaration.name, []).append(declaration)
    return {name: found for name, found in by_name.items() if len(found) > 1}


def declared(database: str) -> dict[str, dict[str, Any]]:
    """Return {name: fields} of the schedules that are declared for this database.

    Raises InvalidTask if two have the same name.
    """
    for name, found in clashes().items():
        tasks = " and ".join(each.task.name for each in found)
        raise InvalidTask(f"{len(found)} schedules have the name {name!r}: {tasks}.")
    return {
        declaration.name: declaration.values
        for declaration in declarations()
        if declaration.belongs_in(database)
    }


# Jobs of schedules


def bind(fired: Fired) -> NewJob:
    """Return the job of a tick."""
    delay = timedelta(seconds=uniform(0, fired.jitter)) if fired.jitter else None
    return job_of(fired.task, Stored(fired.args, fired.kwargs), delay)


def run_now(schedule: "Schedule") -> "Job":
    """Enqueue a job of the schedule at once; its times stay as they are.

    Raises AlreadyEnqueued if another job holds its unique key.
    """
    database = database_of_acts(schedule)
    stored = Stored(dump(schedule.args), dump(schedule.kwargs))
    new_job = job_of(schedule.task, stored)._replace(on_conflict="raise")
    with transaction.atomic(using=database):
        (job,) = tables.Job.objects.db_manager(database).insert([new_job])
        store_run(database, schedule.pk, job.pk)
    schedule.refresh_from_db(using=database)
    return job


def check_name(name: Any) -> None:
    fault = f"must be 1 to {LONGEST_NAME} characters, got {shortened(name)}"
    try:
        if isinstance(name, str) and 0 < len(name.strip()) <= len(name) <= LONGEST_NAME:
            return check_text(name)
    except ValueError as error:
        fault = str(error)
    raise InvalidTask(f"name of a schedule {fault}.")
