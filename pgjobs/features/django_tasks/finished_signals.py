"""Sends `task_finished`, once for each job and when it is final."""

import logging
from collections.abc import Iterable, Sequence
from typing import Any

from ... import signals
from ...tasks import tables
from ...tasks.registry import registry
from .adapter import SEPARATOR, TaskAdapter
from .compat import is_heard, log_task_finished, task_backends, task_finished
from .results import STATUSES, JobResult, like, result_id


class FinishedSignals:
    """Hears of the ends of jobs that are tasks of Django's."""

    def of_interest(self, ends: Sequence[Any]) -> list[Any]:
        """Return the ends of tasks of Django's that a receiver wants to hear of."""
        of_django = [end for end in ends if is_of_django(end.job.task)]
        if of_django and not is_heard(task_finished, log_task_finished, logging.INFO):
            return [each for each in of_django if each.status != "SUCCESSFUL"]
        return of_django

    def ended(self, database: str, ids: Iterable[int]) -> None:
        """Announce jobs that have ended without an attempt of this process."""
        jobs = tables.Job.objects.using(database).filter(
            pk__in=ids, task__contains=SEPARATOR
        )
        rows = jobs.order_by("pk").values_list("pk", "task", "queue_name", "status")
        for id, name, queue_name, status in rows:
            if task := adapter_of(name):
                fields = known(task, id, queue_name, status, database)
                announce(task, JobResult.of(fields))

    def ended_here(self, database: str, ends: Sequence[Any]) -> None:
        """Announce jobs with what their last attempt has raised."""
        for job, status, outcome, _ in ends:
            if task := adapter_of(job.task):
                fields = known(task, job.id, job.queue_name, status, database)
                result = JobResult.of({**fields, "enqueued_at": job.enqueued_at})
                announce_with(task, result, getattr(outcome, "error", None))


def is_of_django(task_name: str) -> bool:
    alias, separator, _ = task_name.partition(SEPARATOR)
    return bool(separator) and alias in task_backends.settings


def adapter_of(name: str) -> TaskAdapter | None:
    task = registry.find(name)
    return task if isinstance(task, TaskAdapter) else None


def known(
    task: TaskAdapter,
    id: int,
    queue_name: str,
    status: str,
    database: str,
) -> dict[str, Any]:
    return {
        "task": like(task.declared, task.alias, queue_name=queue_name),
        "id": result_id(task.alias, id, database),
        "backend": task.alias,
        "status": STATUSES[status],
    }


def announce_with(
    task: TaskAdapter, result: JobResult, error: BaseException | None
) -> None:
    """Send the signal where `sys.exc_info()` tells what was raised, as Django does."""
    if error is None:
        announce(task, result)
        return
    try:
        raise error
    except BaseException:  # noqa: BLE001  (raised in the line above)
        announce(task, result)


def announce(task: TaskAdapter, result: JobResult) -> None:
    signals.send(task_finished, task.sender, task_result=result)
