"""The admin: jobs with their acts, schedules, and the live workers."""

from django.contrib import admin

from ..models import Job, Schedule, Worker
from .jobs import JobAdmin
from .schedules import ScheduleAdmin
from .workers import WorkerAdmin

admin.site.register(Job, JobAdmin)
admin.site.register(Schedule, ScheduleAdmin)
admin.site.register(Worker, WorkerAdmin)

__all__ = ["JobAdmin", "ScheduleAdmin", "WorkerAdmin"]
