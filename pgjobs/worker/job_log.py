"""The lines that a worker logs about its jobs."""

import logging
from typing import Any, Protocol

from ..base.texts import in_a_log
from ..queue.claiming import ClaimedJob
from ..queue.recording import Unsuccessful

logger = logging.getLogger("pgjobs.job")


class LoggedJob(Protocol):
    """What a log record needs of a job."""

    @property
    def id(self) -> int: ...
    @property
    def task(self) -> str: ...
    @property
    def queue_name(self) -> str: ...


def log(level: int, job: ClaimedJob, event: str, **extra) -> None:
    """Log what happened to a job; handlers find `extra` in the record."""
    if logger.isEnabledFor(level):
        logger.log(
            level,
            "Job id=%s task=%s attempt=%s %s",
            job.id,
            in_a_log(job.task),
            job.attempt,
            in_a_log(event),
            extra={**described(job), **extra},
        )


def log_failure(job: ClaimedJob, event: str, outcome: Unsuccessful, **extra) -> None:
    """Log a job's last failure with its exception.

    The text of the traceback is the stored one, which is safe and bounded: to format
    an exception runs code of its own, and may take megabytes.
    """
    if not logger.isEnabledFor(logging.ERROR):
        return
    error = outcome.error
    record = logger.makeRecord(
        logger.name,
        logging.ERROR,
        __file__,
        0,
        "Job id=%s task=%s attempt=%s %s",
        (job.id, in_a_log(job.task), job.attempt, in_a_log(event)),
        None if error is None else (type(error), error, error.__traceback__),
        extra={**described(job), **extra},
    )
    record.exc_text = in_a_log(outcome.traceback.rstrip("\n")) or None
    logger.handle(record)


def is_heard(level: int) -> bool:
    """Whether a handler takes records of this level.

    Making a record takes longer than all else that the loop does about a success, and
    `logging` makes it even if every handler drops it, as that of `runjobs` does.
    """
    if not logger.isEnabledFor(level):
        return False
    current: logging.Logger | None = logger
    while current is not None:
        if any(takes(handler, level) for handler in current.handlers):
            return True
        current = current.parent if current.propagate else None
    return False


def takes(handler: logging.Handler, level: int) -> bool:
    return level >= handler.level and not isinstance(handler, logging.NullHandler)


def described(job: LoggedJob) -> dict[str, Any]:
    """Return the `extra` of a log record about a job."""
    task = in_a_log(job.task)
    return {"job_id": job.id, "task": task, "queue": job.queue_name}
