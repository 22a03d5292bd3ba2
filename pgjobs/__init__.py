"""Background jobs for Django with the project's own PostgreSQL as the only queue."""

from .backoff import constant, exponential, linear
from .chains import chain, group
from .context import current_job
from .dependencies import Dependency, same
from .draining import drain
from .events import apublish, current_event, publish, subscribe
from .exceptions import Cancel, Fail, Retry, Snooze
from .schedules import schedule
from .tasks import aenqueue, enqueue, enqueue_many, task
from .write_all import ALL

__version__ = "0.1.0"

__all__ = [
    "ALL",
    "Cancel",
    "Dependency",
    "Fail",
    "Retry",
    "Snooze",
    "aenqueue",
    "apublish",
    "chain",
    "constant",
    "current_event",
    "current_job",
    "drain",
    "enqueue",
    "enqueue_many",
    "exponential",
    "group",
    "linear",
    "publish",
    "same",
    "schedule",
    "subscribe",
    "task",
]
