"""Waiting jobs of procrastinate."""

from datetime import datetime
from typing import Any

from ...base.plain_json import load
from ...queue.new_job import NewJob
from .taking import JobSource, Taken, take_jobs, task_at

TABLES = ("procrastinate_jobs",)
LOWEST, HIGHEST = -100, 100


def take(database: str) -> Taken:
    """Take what is `todo`; what runs is left to its worker."""
    taken = Taken()
    take_jobs(database, JOBS, taken)
    return taken


def new_job(
    name: str,
    args: Any,
    queue_name: str,
    priority: int,
    run_after: datetime | None,
    lock: str | None,
) -> NewJob:
    options: dict[str, Any] = {"queue_name": queue_name, "run_after": run_after}
    options["priority"] = min(max(priority, LOWEST), HIGHEST)
    if lock is not None:
        options["lock"] = lock
    arguments = load(args) if isinstance(args, str) else args
    return task_at(name).using(**options).bind(**arguments).new_job


JOBS = JobSource(
    select="""
        SELECT id, task_name, args, queue_name, priority, scheduled_at, lock
        FROM procrastinate_jobs
        WHERE status = 'todo' AND NOT id = ANY (%(left)s::bigint[])
        ORDER BY id LIMIT %(limit)s FOR UPDATE SKIP LOCKED
    """,
    delete="DELETE FROM procrastinate_jobs WHERE id = ANY (%s::bigint[])",
    new_job=new_job,
)
