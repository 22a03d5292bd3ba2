"""The lines that a worker logs about its jobs."""

import logging
from typing import Any

from ..models.prerequisite import Decided
from ..models.work import ClaimedJob, HeavyJob, Rescued

logger = logging.getLogger("pgjobs.job")


def log(level: int, job: ClaimedJob, event: str, **extra) -> None:
    """Log what happened to a job; `extra` goes along for handlers."""
    if logger.isEnabledFor(level):
        logger.log(
            level,
            "Job id=%s task=%s attempt=%s %s",
            job.id,
            job.task,
            job.attempt,
            event,
            extra={**described(job), **extra},
        )


def described(job: ClaimedJob | Decided | HeavyJob | Rescued) -> dict[str, Any]:
    """Return what handlers are told of the job of a log record."""
    return {"job_id": job.id, "task": job.task, "queue": job.queue_name}
