"""The admin: jobs and what may be done to them, and all that makes or moves them."""

from django.contrib import admin

from ..models import (
    Batch,
    Event,
    Job,
    Queue,
    Schedule,
    Subscription,
    TaskDefinition,
    Worker,
)
from .batches import BatchAdmin
from .definitions import TaskDefinitionAdmin
from .events import EventAdmin, SubscriptionAdmin
from .jobs import JobAdmin
from .queues import QueueAdmin
from .schedules import ScheduleAdmin
from .workers import WorkerAdmin

admin.site.register(Batch, BatchAdmin)
admin.site.register(Event, EventAdmin)
admin.site.register(Job, JobAdmin)
admin.site.register(Queue, QueueAdmin)
admin.site.register(Schedule, ScheduleAdmin)
admin.site.register(Subscription, SubscriptionAdmin)
admin.site.register(TaskDefinition, TaskDefinitionAdmin)
admin.site.register(Worker, WorkerAdmin)

__all__ = [
    "BatchAdmin",
    "EventAdmin",
    "JobAdmin",
    "QueueAdmin",
    "ScheduleAdmin",
    "SubscriptionAdmin",
    "TaskDefinitionAdmin",
    "WorkerAdmin",
]
