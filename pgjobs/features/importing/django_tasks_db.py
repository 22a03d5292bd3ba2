"""Waiting tasks of django-tasks-db. Its workers lock a row while they claim it."""

from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any

from ...base.plain_json import load
from ...conf import settings
from ...queue.new_job import NewJob
from ..django_tasks.backend import PgJobsBackend
from ..django_tasks.compat import InvalidTask, task_backends
from ..django_tasks.results import like
from .taking import CannotTake, JobSource, Taken, take_jobs

TABLES = ("django_tasks_database_dbtaskresult",)
# Rows without a time have this one, so that they come last in an index.
NO_TIME_YEAR = 9999


def take(database: str) -> Taken:
    """Take what is READY; what runs is left to its worker."""
    taken = Taken()
    take_jobs(database, jobs_in(partial(new_job, database)), taken)
    return taken


def jobs_in(new_job: Callable[..., NewJob]) -> JobSource:
    return JobSource(
        select="""
            SELECT id, task_path, args_kwargs -> 'args', args_kwargs -> 'kwargs',
                priority, queue_name, backend_name, run_after
            FROM django_tasks_database_dbtaskresult
            WHERE status = 'READY' AND NOT id = ANY (%(left)s::uuid[])
            ORDER BY enqueued_at, id LIMIT %(limit)s FOR UPDATE SKIP LOCKED
        """,
        delete="""
            DELETE FROM django_tasks_database_dbtaskresult WHERE id = ANY (%s::uuid[])
        """,
        new_job=new_job,
    )


def new_job(
    database: str,
    path: str,
    args: Any,
    kwargs: Any,
    priority: int,
    queue_name: str,
    alias: str,
    run_after: datetime | None,
) -> NewJob:
    """Return the job of a task. Raises what keeps it from being one."""
    backend = backend_of(alias, database)
    adapter = backend.adapters.find(path)
    if adapter is None:
        raise CannotTake("there is no such task")
    args, kwargs = tuple(decoded(args)), decoded(kwargs)
    if run_after is not None and run_after.year >= NO_TIME_YEAR:
        run_after = None
    try:
        task = like(
            adapter.declared,
            alias,
            priority=priority,
            queue_name=queue_name,
            run_after=run_after,
        )
        backend.validate_storable(task)
        stored = adapter.signature.store(args, kwargs)
        return adapter.new_job(task, stored, args, kwargs)
    except (InvalidTask, TypeError) as error:
        raise CannotTake(str(error)) from error


def decoded(value: Any) -> Any:
    """Return JSON data; Django lets its connections return the text."""
    return load(value) if isinstance(value, str) else value


def backend_of(alias: str, database: str) -> PgJobsBackend:
    if alias not in task_backends.settings:
        raise CannotTake(f"TASKS has no {alias!r}")
    backend = task_backends[alias]
    if not isinstance(backend, PgJobsBackend):
        raise CannotTake(f"TASKS[{alias!r}] is another backend")
    if (backend.adapters.database or settings.DATABASE) != database:
        raise CannotTake(f"the jobs of TASKS[{alias!r}] are in another database")
    return backend
