"""Takes over what is queued in the tables of another backend.

Each batch is one transaction, which inserts the jobs and deletes the rows that they
come from. So every task is taken once, however often and wherever this runs, and also
beside workers of the other backend. Those lock a row while they claim it.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from django.db import connections, transaction

from ..base.plain_json import load
from ..conf import settings
from ..exceptions import InvalidArguments
from ..exceptions import InvalidTask as InvalidOption
from ..queue.new_job import NewJob
from ..tasks import tables
from .backend import PgJobsBackend
from .compat import InvalidTask, task_backends
from .results import like

BATCH = 1_000
# Rows without a time have this one, so that they come last in an index.
NO_TIME_YEAR = 9999
QUEUED = """
SELECT id, task_path, args_kwargs -> 'args', args_kwargs -> 'kwargs', priority,
    queue_name, backend_name, run_after
FROM django_tasks_database_dbtaskresult
WHERE status = 'READY' AND NOT id = ANY (%(skipped)s::uuid[])
ORDER BY enqueued_at, id LIMIT %(limit)s
FOR UPDATE SKIP LOCKED
"""
DELETE = "DELETE FROM django_tasks_database_dbtaskresult WHERE id = ANY (%s::uuid[])"


class Queued(NamedTuple):
    """A task that the other backend has not run yet."""

    id: Any
    path: str
    args: list
    kwargs: dict
    priority: int
    queue_name: str
    backend: str
    run_after: datetime | None


class CannotTake(Exception):
    """Why a task stays where it is."""


@dataclass
class Taken:
    """What was taken over, and what was not."""

    number: int = 0
    skipped: list[Any] = field(default_factory=list)  # ids
    reasons: Counter[str] = field(default_factory=Counter)

    def skip(self, queued: Queued, reason: str) -> None:
        self.skipped.append(queued.id)
        self.reasons[f"{queued.path}: {reason}"] += 1


def take_from_django_tasks_db(database: str | None = None) -> Taken:
    """Make jobs of the tasks that are queued in the tables of django-tasks-db.

    What runs there is left to its workers. A task stays if no backend here has it.
    """
    taken = Taken()
    while take_batch(database or settings.DATABASE, taken):
        pass
    return taken


def take_batch(database: str, taken: Taken) -> int:
    """Take some tasks over; return how many were looked at."""
    with transaction.atomic(using=database), connections[database].cursor() as cursor:
        cursor.execute(QUEUED, {"skipped": taken.skipped, "limit": BATCH})
        rows = [read(row) for row in cursor.fetchall()]
        new_jobs = dict(jobs_of(rows, database, taken))
        tables.Job.objects.db_manager(database).insert([*new_jobs.values()])
        cursor.execute(DELETE, [[*new_jobs]])
    taken.number += len(new_jobs)
    return len(rows)


def read(row: Sequence[Any]) -> Queued:
    queued = Queued._make(row)
    moment = queued.run_after
    is_given = moment is not None and moment.year < NO_TIME_YEAR
    return queued._replace(
        args=decoded(queued.args),
        kwargs=decoded(queued.kwargs),
        run_after=moment if is_given else None,
    )


def decoded(value: Any) -> Any:
    """Return JSON data; Django lets its connections return the text."""
    return load(value) if isinstance(value, str) else value


def jobs_of(
    rows: list[Queued], database: str, taken: Taken
) -> Iterator[tuple[Any, NewJob]]:
    for queued in rows:
        try:
            yield queued.id, new_job(queued, database)
        except (
            CannotTake,
            InvalidTask,
            InvalidOption,
            InvalidArguments,
            TypeError,
        ) as error:
            taken.skip(queued, str(error))


def new_job(queued: Queued, database: str) -> NewJob:
    """Return the job of a task. Raises what keeps it from being one."""
    backend = backend_of(queued, database)
    adopted = backend.adoptions.find(queued.path)
    if adopted is None:
        raise CannotTake("there is no such task")
    task = like(
        adopted.declared,
        queued.backend,
        priority=queued.priority,
        queue_name=queued.queue_name,
        run_after=queued.run_after,
    )
    backend.validate_storable(task)
    stored = adopted.signature.store(tuple(queued.args), queued.kwargs)
    return adopted.new_job(task, stored, tuple(queued.args), queued.kwargs)


def backend_of(queued: Queued, database: str) -> PgJobsBackend:
    alias = queued.backend
    if alias not in task_backends.settings:
        raise CannotTake(f"TASKS has no {alias!r}")
    backend = task_backends[alias]
    if not isinstance(backend, PgJobsBackend):
        raise CannotTake(f"TASKS[{alias!r}] is another backend")
    if (backend.adoptions.database or settings.DATABASE) != database:
        raise CannotTake(f"the jobs of TASKS[{alias!r}] are in another database")
    return backend
