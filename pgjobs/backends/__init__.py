"""The backend of `django.tasks`, by the name that `TASKS` gives."""

from ..features.django_tasks.backend import PgJobsBackend

__all__ = ["PgJobsBackend"]
