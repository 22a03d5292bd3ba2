"""The admin: jobs with their acts, batches, queues, schedules, tasks, live workers."""

from django.contrib import admin

from ..models import Batch, Job, Queue, Schedule, TaskDefinition, Worker
from .batches import BatchAdmin
from .definitions import TaskDefinitionAdmin
from .jobs import JobAdmin
from .queues import QueueAdmin
from .schedules import ScheduleAdmin
from .workers import WorkerAdmin

admin.site.register(Batch, BatchAdmin)
admin.site.register(Job, JobAdmin)
admin.site.register(Queue, QueueAdmin)
admin.site.register(Schedule, ScheduleAdmin)
admin.site.register(TaskDefinition, TaskDefinitionAdmin)
admin.site.register(Worker, WorkerAdmin)

__all__ = [
    "BatchAdmin",
    "JobAdmin",
    "QueueAdmin",
    "ScheduleAdmin",
    "TaskDefinitionAdmin",
    "WorkerAdmin",
]
