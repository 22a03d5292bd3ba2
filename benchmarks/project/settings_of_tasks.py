"""The project with Django's tasks in the place of pgjobs' own."""

from .settings import *  # noqa: F403

TASKS = {"default": {"BACKEND": "pgjobs.backends.PgJobsBackend"}}
# They stand in no module of an installed app.
PGJOBS = {"TASK_MODULES": ["benchmarks.systems.django_core_tasks"]}
