"""Sends `task_finished`, once for each job and when it is final."""

import logging
from collections.abc import Iterable, Sequence
from typing import Any

from .. import signals
from ..tasks import tables
from ..tasks.registry import registry
from .adopted import SEPARATOR, AdoptedTask
from .compat import log_task_finished, task_backends, task_finished
from .hearing import is_heard
from .result_ids import result_id
from .results import STATUSES, JobResult, like


class Endings:
    """Hears of the ends of jobs that are tasks of Django's."""

    def of_interest(self, ends: Sequence[Any]) -> list[Any]:
        """Return the ends of tasks of Django's that a receiver wants to hear of."""
        found = [each for each in ends if is_of_django(each.job.task)]
        if found and not is_heard(task_finished, log_task_finished, logging.INFO):
            return [each for each in found if each.status != "SUCCESSFUL"]
        return found

    def ended(self, database: str, ids: Iterable[int]) -> None:
        """Announce jobs that have ended without an attempt of this process."""
        jobs = tables.Job.objects.using(database).filter(
            pk__in=ids, task__contains=SEPARATOR
        )
        found = jobs.order_by("pk").values_list("pk", "task", "queue_name", "status")
        for id, name, queue_name, status in found:
            if task := adopted(name):
                given = known(task, id, queue_name, status, database)
                announce(task, JobResult.of(given))

    def ended_here(self, database: str, ends: Sequence[Any]) -> None:
        """Announce jobs with what their last attempt has raised."""
        for job, status, outcome, _ in ends:
            if task := adopted(job.task):
                given = known(task, job.id, job.queue_name, status, database)
                result = JobResult.of({**given, "enqueued_at": job.enqueued_at})
                announce_with(task, result, getattr(outcome, "error", None))


def is_of_django(task_name: str) -> bool:
    alias, separator, _ = task_name.partition(SEPARATOR)
    return bool(separator) and alias in task_backends.settings


def adopted(name: str) -> AdoptedTask | None:
    try:
        task = registry.get(name)
    except LookupError:
        return None
    return task if isinstance(task, AdoptedTask) else None


def known(
    task: AdoptedTask,
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
    task: AdoptedTask, result: JobResult, error: BaseException | None
) -> None:
    """Send the signal where `sys.exc_info()` tells what was raised, as Django does."""
    if error is None:
        announce(task, result)
        return
    try:
        raise error
    except BaseException:  # noqa: BLE001  (raised in the line above)
        announce(task, result)


def announce(task: AdoptedTask, result: JobResult) -> None:
    signals.send(task_finished, task.sender, task_result=result)
