"""The backend of `django.tasks`: Django's own `@task` with pgjobs behind it.

Nothing else in the package imports this one, so that projects without `TASKS` pay
nothing for it, and Django 5.2 does not need the package django-tasks.
"""

from .backend import PgJobsBackend

__all__ = ["PgJobsBackend"]
