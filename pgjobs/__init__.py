"""Background jobs for Django with the project's own PostgreSQL as the only queue."""

from .backoff import constant, exponential, linear
from .context import current_job
from .events import current_event, publish, subscribe
from .exceptions import Cancel, Fail, Retry, Snooze
from .schedules import schedule
from .tasks import aenqueue, enqueue, enqueue_many, task

__version__ = "0.1.0"

__all__ = [
    "Cancel",
    "Fail",
    "Retry",
    "Snooze",
    "aenqueue",
    "constant",
    "current_event",
    "current_job",
    "enqueue",
    "enqueue_many",
    "exponential",
    "linear",
    "publish",
    "schedule",
    "subscribe",
    "task",
]
