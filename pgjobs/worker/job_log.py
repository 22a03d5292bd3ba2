"""The lines that a worker logs about its jobs."""

import logging

from ..models.work import ClaimedJob

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
            extra={
                "job_id": job.id,
                "task": job.task,
                "queue": job.queue_name,
                **extra,
            },
        )
