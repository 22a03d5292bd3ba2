"""Waiting jobs of procrastinate."""

from datetime import datetime
from functools import partial
from typing import Any

from ...base.plain_json import load
from ...queue.new_job import NewJob
from .taking import JobSource, Taken, take_jobs, task_at

TABLES = ("procrastinate_jobs",)
LOWEST, HIGHEST = -100, 100


def take(database: str) -> Taken:
    """Take what is `todo`; what runs is left to its worker."""
    taken = Taken()
    take_jobs(database, jobs(taken), taken)
    return taken


def new_job(
    taken: Taken,
    name: str,
    args: Any,
    queue_name: str,
    priority: int,
    run_after: datetime | None,
    lock: str | None,
    queueing_lock: str | None,
) -> NewJob:
    options: dict[str, Any] = {"queue_name": queue_name, "run_after": run_after}
    options["priority"] = min(max(priority, LOWEST), HIGHEST)
    if lock is not None:
        options["lock"] = lock
    arguments = load(args) if isinstance(args, str) else args
    made = task_at(name).using(**options).bind(**arguments).new_job
    lost = {
        "queueing_lock": queueing_lock is not None,
        f"priority beyond {LOWEST} to {HIGHEST}": priority != options["priority"],
    }
    taken.loses(name, (each for each, is_lost in lost.items() if is_lost))
    return made


def jobs(taken: Taken) -> JobSource:
    return JobSource(
        select="""
            SELECT id, task_name, args, queue_name, priority, scheduled_at, lock,
                to_jsonb(job.*) ->> 'queueing_lock'
            FROM procrastinate_jobs AS job
            WHERE status = 'todo' AND NOT id = ANY (%(left)s::bigint[])
            ORDER BY id LIMIT %(limit)s FOR UPDATE SKIP LOCKED
        """,
        delete="DELETE FROM procrastinate_jobs WHERE id = ANY (%s::bigint[])",
        new_job=partial(new_job, taken),
    )
