"""The admin: jobs with their acts, queues, schedules, and the live workers."""

from django.contrib import admin

from ..models import Job, Queue, Schedule, Worker
from .jobs import JobAdmin
from .queues import QueueAdmin
from .schedules import ScheduleAdmin
from .workers import WorkerAdmin

admin.site.register(Job, JobAdmin)
admin.site.register(Queue, QueueAdmin)
admin.site.register(Schedule, ScheduleAdmin)
admin.site.register(Worker, WorkerAdmin)

__all__ = ["JobAdmin", "QueueAdmin", "ScheduleAdmin", "WorkerAdmin"]
