"""The queue: its tables, and every statement that changes a job's status."""

from .attempt import Attempt
from .event import Delivery, Event, Subscription
from .hold import Hold, Rate
from .job import Job, Status
from .progress import Progress
from .queue import Queue
from .schedule import Schedule, Tick
from .step import Step
from .worker import Worker

__all__ = [
    "Attempt",
    "Delivery",
    "Event",
    "Hold",
    "Job",
    "Progress",
    "Queue",
    "Rate",
    "Schedule",
    "Status",
    "Step",
    "Subscription",
    "Tick",
    "Worker",
]
