"""The project with Django's tasks in the place of pgjobs' own."""

from .settings import *  # noqa: F403

TASKS = {"default": {"BACKEND": "pgjobs.backends.PgJobsBackend"}}
