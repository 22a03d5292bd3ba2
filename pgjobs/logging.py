"""What a project puts into its LOGGING: records that say which job they belong to."""

import logging

from .base.texts import in_a_log
from .tasks.running_job import RunningJob, current

NAMES = ("job_id", "task", "queue", "attempt", "correlation_id")


class JobFilter(logging.Filter):
    """Adds job_id, task, queue, attempt and correlation_id to every record.

    Outside of a job they are None. What a record has already, it keeps.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        for name, value in described(current.get(None)).items():
            if getattr(record, name, None) is None:
                setattr(record, name, value)
        return True


def described(job: RunningJob | None) -> dict[str, object]:
    """Return what records say of the job that runs here."""
    if job is None:
        return dict.fromkeys(NAMES)
    return {
        "job_id": job.id,
        "task": in_a_log(job.task_name),
        "queue": job.queue_name,
        "attempt": job.attempt,
        "correlation_id": job.meta.get("correlation_id"),
    }
