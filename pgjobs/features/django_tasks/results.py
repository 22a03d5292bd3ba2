"""Results: views of a job's row in the form that Django's API gives them.

Reading never validates: a result stays readable when its queue, its alias or its
function is gone.

The id of a result is the job's id, and its database where that is not the backend's
own. A backend's own database is its OPTIONS["database"], or else PGJOBS["DATABASE"].
There job 42 has the result "42". In the database `eu` of the same project it has
"42@eu".
"""

import json
import re
import traceback
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from django.db import connections

from ...base.database_choice import has_queue
from ...base.ids import LARGEST_ID
from ...conf import settings
from ...exceptions import UnknownTask
from ...queue.claiming import ClaimedJob
from ...queue.meta import loaded
from ...tasks import tables
from ...tasks.running_job import RunningJob
from .compat import (
    TASK_REFRESH_ATTRS,
    Task,
    TaskError,
    TaskResult,
    TaskResultStatus,
    task_backends,
)
from .metadata import metadata_of

if TYPE_CHECKING:
    from ...models import Job
    from .adapter import TaskAdapter

ID = re.compile(r"([1-9][0-9]{0,18})(?:@(.+))?")
STATUSES = {
    "READY": TaskResultStatus.READY,
    "SCHEDULED": TaskResultStatus.READY,
    "WAITING": TaskResultStatus.READY,
    "RUNNING": TaskResultStatus.RUNNING,
    "SUCCESSFUL": TaskResultStatus.SUCCESSFUL,
    "FAILED": TaskResultStatus.FAILED,
    "CANCELLED": TaskResultStatus.FAILED,
}
METADATA = "metadata"  # as it is proposed for Django
FIELDS = (*(each.name for each in fields(TaskResult)), METADATA)
REFRESHED = (*TASK_REFRESH_ATTRS, METADATA)
MOST_ATTEMPTS = 10_000  # that a result lists; a row may claim any number
UNKNOWN_WORKER = "unknown"


def own_database(alias: str) -> str:
    """Return the database whose jobs have plain ids in this backend."""
    options = task_backends.settings.get(alias, {}).get("OPTIONS") or {}
    return options.get("database") or settings.get("DATABASE")


def result_id(alias: str, job_id: int, database: str | None) -> str:
    """Return the id of the result of a job; None is the database in use."""
    database = database or settings.DATABASE
    return str(job_id) if database == own_database(alias) else f"{job_id}@{database}"


def read_result_id(alias: str, id: Any) -> tuple[int, str] | None:
    """Return the job's id and its database, or None if no result can have this id."""
    match = ID.fullmatch(id) if isinstance(id, str) else None
    if match is None or int(match[1]) > LARGEST_ID:
        return None
    database = match[2] or own_database(alias)
    if match[2] and not (database in connections.databases and has_queue(database)):
        return None
    return int(match[1]), database


class JobResult(TaskResult):
    """The result of a job; what it was not given it asks the database for, once.

    A worker announces each job. Receivers rarely look at more than its id.
    """

    __slots__ = (METADATA,)

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> "JobResult":
        result = object.__new__(cls)
        for name, value in given.items():
            object.__setattr__(result, name, value)
        return result

    @classmethod
    def running(
        cls, task: "TaskAdapter", job: RunningJob | ClaimedJob, **known: Any
    ) -> "JobResult":
        """Return the result of the job that runs here."""
        return cls.of(
            {
                "task": like(task.declared, task.alias, queue_name=job.queue_name),
                "id": result_id(task.alias, job.id, None),
                "backend": task.alias,
                "status": TaskResultStatus.RUNNING,
                "enqueued_at": job.enqueued_at,
                "finished_at": None,
                "_return_value": None,
                **known,
            }
        )

    @classmethod
    def claimed(cls, task: "TaskAdapter", job: ClaimedJob) -> "JobResult":
        """Return the result of a job as it was claimed.

        Its errors, its times and the names of its workers stand in other rows.
        """
        return cls.running(
            task,
            job,
            args=json.loads(job.args),
            kwargs=json.loads(job.kwargs),
            started_at=None,
            last_attempted_at=None,
            errors=[],
            worker_ids=[UNKNOWN_WORKER] * min(job.attempt, MOST_ATTEMPTS),
            metadata=metadata_of(loaded(job.meta or "{}")),
        )

    def __getattr__(self, name: str) -> Any:
        """Return a field that was not given; the others are asked for with it."""
        if name not in FIELDS:
            raise AttributeError(name)
        self.load()
        return object.__getattribute__(self, name)

    def ended_by(self, error: BaseException) -> "JobResult":
        """Return the result of an attempt that this error has ended."""
        known = {name: getattr(self, name) for name in FIELDS}
        errors = [*known["errors"], task_error(error)]
        return JobResult.of(
            {**known, "status": TaskResultStatus.FAILED, "errors": errors}
        )

    def refresh(self) -> None:
        """Ask the database for what may have changed."""
        self.take(self.task.get_backend().get_result(self.id))

    async def arefresh(self) -> None:
        """Ask the database for what may have changed."""
        self.take(await self.task.get_backend().aget_result(self.id))

    def take(self, newer: TaskResult) -> None:
        for name in REFRESHED:
            object.__setattr__(self, name, getattr(newer, name))

    def load(self) -> None:
        """Fill in what is missing, but keep what was known when it was made."""
        stored = self.task.get_backend().get_result(self.id)
        object.__setattr__(self, "task", stored.task)  # with priority and time
        for each in FIELDS:
            try:
                object.__getattribute__(self, each)
            except AttributeError:
                object.__setattr__(self, each, getattr(stored, each))


def like(task: Task, backend: str, **changes: Any) -> Task:
    """Return the task with other values, without validating them."""
    changes["backend"] = backend
    if all(getattr(task, name) == value for name, value in changes.items()):
        return task
    copy = object.__new__(type(task))
    for field in fields(task):
        value = changes.get(field.name, getattr(task, field.name))
        object.__setattr__(copy, field.name, value)
    return copy


def stand_in(task_class: type[Task], path: str) -> Task:
    """Return a task for a function that is gone; it has its path, and cannot run."""
    task = object.__new__(task_class)
    for field in fields(task_class):
        object.__setattr__(task, field.name, default_of(field))
    object.__setattr__(task, "func", missing_function(path))
    return task


def default_of(field: Any) -> Any:
    defaults = {"priority": 0, "queue_name": "default", "takes_context": False}
    return {} if field.name == "options" else defaults.get(field.name)


def missing_function(path: str) -> Callable:
    def missing(*args: Any, **kwargs: Any) -> None:
        raise UnknownTask(path)

    missing.__module__, _, name = path.rpartition(".")
    missing.__name__ = missing.__qualname__ = name
    return missing


def stored_result(
    job: "Job", task: Task, alias: str, id: str | None = None
) -> JobResult:
    """Return the result of a stored job, as it is now; `id` is that of its job."""
    attempts = attempts_of(job)
    return JobResult.of(
        {
            "task": task,
            "id": id or result_id(alias, job.pk, job._state.db),
            "backend": alias,
            "status": STATUSES[job.status],
            "enqueued_at": job.enqueued_at,
            "started_at": job.started_at,
            "finished_at": job.finished_at,
            "last_attempted_at": job.last_attempted_at,
            "args": job.args,
            "kwargs": job.kwargs,
            "errors": errors_of(job, attempts),
            "worker_ids": worker_ids_of(job, attempts),
            "_return_value": job.return_value,
            METADATA: metadata_of(job.meta),
        }
    )


def attempts_of(job: "Job") -> list[Any]:
    """Return the attempts of this life that did not succeed."""
    if not job.attempts or (job.attempts == 1 and job.status == "SUCCESSFUL"):
        return []
    attempts = tables.Attempt.objects.using(job._state.db)
    rows = attempts.filter(job_id=job.pk, life=job.life).order_by("number")
    return list(rows[:MOST_ATTEMPTS])


def worker_ids_of(job: "Job", attempts: list[Any]) -> list[str]:
    """Return which worker made each attempt of this life."""
    names = {attempt.number: attempt.worker_name for attempt in attempts}
    if job.worker_id is not None:
        names[job.attempts] = worker_name(job)
    elif job.status == "SUCCESSFUL" and job.worker_name:
        names.setdefault(job.attempts, job.worker_name)
    last = min(job.attempts, MOST_ATTEMPTS)
    return [names.get(number, UNKNOWN_WORKER) for number in range(1, last + 1)]


def worker_name(job: "Job") -> str:
    workers = tables.Worker.objects.using(job._state.db).filter(pk=job.worker_id)
    name = workers.values_list("name", flat=True).first()
    return name or f"worker {job.worker_id}"


def errors_of(job: "Job", attempts: list[Any]) -> list[TaskError]:
    """Return the errors of all attempts, and why the job has failed otherwise."""
    failed = {
        attempt.number: error_of(attempt)
        for attempt in attempts
        if attempt.outcome in ("FAILED", "CRASHED")
    }
    errors = list(failed.values())
    if job.status == "CANCELLED":
        errors.append(pgjobs_error("JobCancelled", job.reason))
    elif job.status == "FAILED" and job.attempts not in failed:
        errors.append(pgjobs_error("JobFailed", job.reason))
    return errors


def task_error(error: BaseException) -> TaskError:
    kind = type(error)
    return TaskError(
        exception_class_path=f"{kind.__module__}.{kind.__qualname__}",
        traceback="".join(traceback.format_exception(error)),
    )


def error_of(attempt: Any) -> TaskError:
    if attempt.outcome == "CRASHED":
        return pgjobs_error("WorkerLost", attempt.message)
    path = attempt.exception_class
    if not path:
        return pgjobs_error("JobFailed", attempt.message)
    if "." not in path:
        path = f"builtins.{path}"
    return TaskError(exception_class_path=path, traceback=attempt.traceback)


def pgjobs_error(name: str, reason: str) -> TaskError:
    path = f"pgjobs.exceptions.{name}"
    return TaskError(exception_class_path=path, traceback=reason)
