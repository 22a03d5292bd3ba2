"""Background jobs for Django with the project's own PostgreSQL as the only queue."""

from .draining import drain
from .exceptions import Cancel, Fail, Retry, Snooze
from .features.batches.declare import chain, group
from .features.chunks.calls import Chunk
from .features.dependencies.declare import Dependency, same
from .features.dependencies.write_all import ALL
from .features.django_tasks.declare import task_options
from .features.durable.declare import Answer
from .features.events.declare import apublish, current_event, publish, subscribe
from .features.results.placeholders import Outcome, outcomes, result, results
from .features.schedules.declare import schedule
from .signatures import task
from .tasks.backoff import constant, exponential, linear
from .tasks.enqueueing import aenqueue, enqueue, enqueue_many
from .tasks.lookup import get_task
from .tasks.running_job import current_job

__version__ = "0.9.0"

__all__ = [
    "ALL",
    "Answer",
    "Cancel",
    "Chunk",
    "Dependency",
    "Fail",
    "Outcome",
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
    "outcomes",
    "publish",
    "result",
    "results",
    "same",
    "schedule",
    "subscribe",
    "task",
    "task_options",
]
