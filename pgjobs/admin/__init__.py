"""The admin: jobs and what may be done to them, queues, schedules, events, workers."""

from django.contrib import admin

from ..models import Event, Job, Queue, Schedule, Subscription, Worker
from .events import EventAdmin, SubscriptionAdmin
from .jobs import JobAdmin
from .queues import QueueAdmin
from .schedules import ScheduleAdmin
from .workers import WorkerAdmin

admin.site.register(Event, EventAdmin)
admin.site.register(Job, JobAdmin)
admin.site.register(Queue, QueueAdmin)
admin.site.register(Schedule, ScheduleAdmin)
admin.site.register(Subscription, SubscriptionAdmin)
admin.site.register(Worker, WorkerAdmin)

__all__ = [
    "EventAdmin",
    "JobAdmin",
    "QueueAdmin",
    "ScheduleAdmin",
    "SubscriptionAdmin",
    "WorkerAdmin",
]
