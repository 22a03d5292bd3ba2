"""The admin: jobs with their acts, batches, queues, schedules, and live workers."""

from django.contrib import admin

from ..models import Batch, Job, Queue, Schedule, Worker
from .batches import BatchAdmin
from .jobs import JobAdmin
from .queues import QueueAdmin
from .schedules import ScheduleAdmin
from .workers import WorkerAdmin

admin.site.register(Batch, BatchAdmin)
admin.site.register(Job, JobAdmin)
admin.site.register(Queue, QueueAdmin)
admin.site.register(Schedule, ScheduleAdmin)
admin.site.register(Worker, WorkerAdmin)

__all__ = ["BatchAdmin", "JobAdmin", "QueueAdmin", "ScheduleAdmin", "WorkerAdmin"]
