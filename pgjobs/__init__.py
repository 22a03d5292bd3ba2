"""Background jobs for Django with the project's own PostgreSQL as the only queue."""

from .draining import drain
from .exceptions import Cancel, Fail, Retry, Snooze
from .tasks.backoff import constant, exponential, linear
from .tasks.chains import chain, group
from .tasks.dependencies import Dependency, same
from .tasks.django_options import task_options
from .tasks.enqueueing import aenqueue, enqueue, enqueue_many
from .tasks.events import apublish, current_event, publish, subscribe
from .tasks.lookup import get_task
from .tasks.running_job import current_job
from .tasks.schedules import schedule
from .tasks.task import task
from .tasks.write_all import ALL

__version__ = "0.9.0"

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
    "get_task",
    "group",
    "linear",
    "publish",
    "same",
    "schedule",
    "subscribe",
    "task",
    "task_options",
]
