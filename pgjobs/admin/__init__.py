"""The admin: jobs and what may be done to them, and all that makes or moves them."""

from .batches import BatchAdmin
from .definitions import TaskDefinitionAdmin
from .events import EventAdmin, SubscriptionAdmin
from .jobs import JobAdmin
from .queues import QueueAdmin
from .schedules import ScheduleAdmin
from .sites import DatabaseSite
from .workers import WorkerAdmin

__all__ = [
    "BatchAdmin",
    "DatabaseSite",
    "EventAdmin",
    "JobAdmin",
    "QueueAdmin",
    "ScheduleAdmin",
    "SubscriptionAdmin",
    "TaskDefinitionAdmin",
    "WorkerAdmin",
]
