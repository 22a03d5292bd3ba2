"""Inserting jobs. No caller ever meets an IntegrityError because of a unique key.

PostgreSQL's unique index decides which of several jobs is first. Afterwards
`on_conflict` decides what becomes of the others. If the first one has lost its key
meanwhile, the others are tried again.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import psycopg
from django.core.exceptions import ImproperlyConfigured, SynchronousOnlyOperation
from django.db import DatabaseError, connections, transaction
from psycopg import errors

from .. import signals
from ..conf import settings
from ..exceptions import AlreadyEnqueued
from ..features import modules
from ..sql import statement, statement_of
from .instances import inserted, inserted_alike
from .meta import with_meta
from .new_job import (
    NewJob,
    are_alike,
    parameters_of,
    parameters_of_alike,
    parameters_of_one,
)
from .observing import observe_insert, observers
from .recording import deleting
from .statements import Execute, execute_on

if TYPE_CHECKING:
    from ..models import Job

MISSING = (
    errors.UndefinedColumn,
    errors.UndefinedFunction,
    errors.UndefinedObject,
    errors.UndefinedTable,
)


def explain_missing_tables(database: str, error: DatabaseError) -> None:
    """Raise ImproperlyConfigured if the database of the queue is not made for it."""
    connection = connections[database]
    if connection.vendor != "postgresql":
        raise ImproperlyConfigured(
            f"Jobs need PostgreSQL, but DATABASES[{database!r}] uses "
            f"{connection.display_name}. Change that, or name the alias of a "
            "PostgreSQL database in PGJOBS['DATABASE']."
        ) from error
    if isinstance(error.__cause__, MISSING) and "pgjobs_" in str(error.__cause__):
        raise ImproperlyConfigured(
            f"The database {database!r} has no queue, or that of another version: "
            f"{first_line(error.__cause__)}. Run 'manage.py migrate pgjobs --database "
            f"{database}'. (Tests that leave the migrations out have no queue either.)"
        ) from error


def first_line(error: psycopg.Error) -> str:
    return str(error).strip().partition("\n")[0]


# Read by the trigger that notifies of inserted jobs: functions/jobs/notify_inserted.sql
SET = "SELECT set_config('pgjobs.notifies', %s, true)"


def omits_notify() -> bool:
    return settings.MODE == "manual"


@contextmanager
def without_notify(database: str) -> Iterator[None]:
    """Notify no worker of the jobs that the block inserts.

    Later statements of the transaction notify as usual. If the block raises, its
    savepoint takes the setting back.
    """
    with transaction.atomic(using=database), connections[database].cursor() as cursor:
        cursor.execute(SET, ["off"])
        yield
        cursor.execute(SET, ["on"])


BATCH = 10_000  # unique keys that one query looks for

IN_ASYNC_CODE = (
    "Jobs were enqueued in async code: `await aenqueue(...)` there, and for several "
    "jobs `await sync_to_async(enqueue_many)(...)`."
)

# In the caller's transaction


def insert(
    model: "type[Job]", database: str, new_jobs: Sequence[NewJob]
) -> "list[Job | None]":
    """Insert jobs in the caller's transaction, all or none.

    Returns the jobs in their order. Where another job holds the unique key,
    `on_conflict` decides what stands there. Raises AlreadyEnqueued, and then inserts
    nothing.
    """
    insert = partial(insert_here, model, database, new_jobs)
    return observe_insert(new_jobs, insert) if observers else insert()


def insert_here(
    model: "type[Job]", database: str, new_jobs: Sequence[NewJob]
) -> "list[Job | None]":
    try:
        insert = insert_without_notify if omits_notify() else insert_rows
        if settings.KEEP != "all":  # as NULL says
            new_jobs = deleting().with_keep(new_jobs)
        if [new_job for new_job in new_jobs if new_job.holds]:
            insert = partial(deleting().insert_holding, insert)
        jobs, new = insert(model, database, with_meta(new_jobs))
    except SynchronousOnlyOperation as error:
        raise SynchronousOnlyOperation(IN_ASYNC_CODE) from error
    except DatabaseError as error:
        explain_missing_tables(database, error)
        raise
    announce_enqueued(model, new)
    return jobs


def insert_without_notify(
    model: "type[Job]", database: str, new_jobs: Sequence[NewJob]
) -> "tuple[list[Job | None], list[Job]]":
    with without_notify(database):
        return insert_rows(model, database, new_jobs)


def insert_rows(
    model: "type[Job]", database: str, new_jobs: Sequence[NewJob]
) -> "tuple[list[Job | None], list[Job]]":
    """Return the jobs as `insert` does, and those of them that are new."""
    if any(new_job.unique_key for new_job in new_jobs):
        return insert_unique(model, database, new_jobs)
    jobs = insert_plain(model, database, new_jobs) if new_jobs else []
    return [*jobs], jobs


def insert_plain(
    model: "type[Job]", database: str, new_jobs: Sequence[NewJob]
) -> "list[Job]":
    if len(new_jobs) == 1:
        parameters = parameters_of_one(new_jobs[0])
        sql = statement_of("enqueue_one", tuple(parameters))
    elif are_alike(new_jobs):
        return insert_alike(model, database, new_jobs)
    else:
        sql, parameters = statement("enqueue"), parameters_of(new_jobs)
    with connections[database].cursor() as cursor:
        cursor.execute(sql, parameters)
        rows = sorted(cursor.fetchall())
    return [
        inserted(model, database, new_job, row)
        for new_job, row in zip(new_jobs, rows, strict=True)
    ]


def insert_alike(
    model: "type[Job]", database: str, new_jobs: Sequence[NewJob]
) -> "list[Job]":
    """Insert jobs that differ in their arguments and keys alone."""
    parameters = parameters_of_alike(new_jobs)
    with connections[database].cursor() as cursor:
        cursor.execute(statement("enqueue_alike"), parameters)
        groups = cursor.fetchall()
    return inserted_alike(model, database, new_jobs, parameters["all_kwargs"], groups)


def insert_unique(
    model: "type[Job]", database: str, new_jobs: Sequence[NewJob]
) -> "tuple[list[Job | None], list[Job]]":
    inserting = Inserting(model, database, new_jobs)
    if len(new_jobs) == 1:  # one statement needs no transaction of its own
        inserting.run()
    else:
        with transaction.atomic(using=database):
            inserting.run()
    return inserting.jobs, inserting.new


def is_heard_of(model: "type[Job]") -> bool:
    """Whether anything happens because a job was enqueued."""
    return settings.MODE == "inline" or signals.job_enqueued.has_listeners(model)


def announce_enqueued(model: "type[Job]", jobs: "Iterable[Job]") -> None:
    """Send job_enqueued for new jobs; in the mode "inline", run them."""
    if not is_heard_of(model):
        return
    jobs = list(jobs)
    for job in jobs:
        signals.send(signals.job_enqueued, model, job=job)
    if settings.MODE == "inline" and jobs:
        for module in modules("inline"):
            module.run_inserted(jobs)


class Inserting:
    """The jobs of one call. Other jobs may hold some of their unique keys."""

    def __init__(self, model: "type[Job]", database: str, new_jobs: Sequence[NewJob]):
        self.model = model
        self.database = database
        self.execute = execute_on(database)
        self.new_jobs = new_jobs
        self.jobs: list[Job | None] = [None] * len(new_jobs)
        self.new: list[Job] = []

    def run(self) -> None:
        missing = list(range(len(self.new_jobs)))
        while missing:
            if missing := self.insert(missing):
                missing = self.resolve(missing)

    def insert(self, positions: list[int]) -> list[int]:
        """Insert the jobs whose keys are free; return the positions of the others."""
        parameters = parameters_of([self.new_jobs[position] for position in positions])
        held = set(positions)
        for index, until, *row in self.execute(statement("enqueue_unique"), parameters):
            position = positions[index]
            new_job = self.new_jobs[position]
            job = inserted(self.model, self.database, new_job, row, until)
            self.jobs[position] = job
            self.new.append(job)
            held.remove(position)
        return sorted(held)

    def resolve(self, positions: list[int]) -> list[int]:
        """Find the holders of the keys; return the positions whose keys are free."""
        new_jobs = [self.new_jobs[position] for position in positions]
        free_keys(self.execute, new_jobs)
        replaced = self.replace(new_jobs)
        holders = {
            (job.unique_key, job.unique_for): job for job in self.holders(new_jobs)
        }
        free = []
        for position, new_job in zip(positions, new_jobs, strict=True):
            holder = holders.get((new_job.unique_key, new_job.unique_for))
            on_conflict = new_job.on_conflict
            if holder is None:
                free.append(position)
            elif on_conflict == "raise":
                raise AlreadyEnqueued(holder)
            elif on_conflict == "replace" and not (
                holder.pk in replaced or holder.attempts or holder.is_finished
            ):
                free.append(position)  # the holder came after the replacement
            elif on_conflict != "skip":
                self.jobs[position] = holder
        self.refresh({job.pk: job for job in holders.values()})
        return free

    def replace(self, new_jobs: list[NewJob]) -> set[int]:
        """Replace holders that have not started, for on_conflict="replace"."""
        replacing = [
            new_job for new_job in new_jobs if new_job.on_conflict == "replace"
        ]
        if not replacing:
            return set()
        rows = self.execute(statement("replace"), parameters_of(replacing))
        return {id for (id,) in rows}

    def holders(self, new_jobs: list[NewJob]) -> "Iterator[Job]":
        keys = list({new_job.unique_key for new_job in new_jobs})
        holding = self.model.objects.using(self.database).holding_keys()
        for at in range(0, len(keys), BATCH):
            yield from holding.filter(unique_key__in=keys[at : at + BATCH])

    def refresh(self, latest: "dict[int, Job]") -> None:
        """Take the latest state of jobs that later ones of the call have replaced."""
        self.new = [latest.get(job.pk, job) for job in self.new]
        self.jobs = [latest.get(job.pk, job) if job else None for job in self.jobs]


# On one of the worker's own connections


def insert_free(execute: Execute, new_jobs: Sequence[NewJob]) -> list[int | None]:
    """Insert the jobs whose unique keys are free, if they have one.

    Returns the id of each, or None if another job holds its key.
    """
    if settings.KEEP != "all":
        new_jobs = deleting().with_keep(new_jobs)
    if not any(new_job.unique_key for new_job in new_jobs):
        rows = execute(statement("enqueue"), parameters_of(new_jobs))
        return sorted(row[0] for row in rows)  # in the order given
    free_keys(execute, new_jobs)
    rows = execute(statement("enqueue_unique"), parameters_of(new_jobs))
    ids = {position: id for position, _, id, *_ in rows}
    return [ids.get(position) for position in range(len(new_jobs))]


def free_keys(execute: Execute, new_jobs: Sequence[NewJob]) -> None:
    """Free those of the jobs' keys whose period is over."""
    keys = {new_job.unique_key for new_job in new_jobs if new_job.unique_period}
    if keys:
        execute(statement("free_keys"), {"unique_keys": list(keys)})
