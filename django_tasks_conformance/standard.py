"""Django's tasks, or the package django-tasks if the backend is one of its kind."""

from importlib import import_module
from typing import Any

import django
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string


def framework() -> str:
    """Return the package whose `Task` the default backend takes."""
    if django.VERSION < (6, 0):
        return "django_tasks"
    base = import_module("django.tasks.backends.base").BaseTaskBackend
    path = settings.TASKS.get("default", {}).get("BACKEND")
    if not path:
        raise ImproperlyConfigured('TASKS has no "default" with a BACKEND.')
    backend = import_string(path)
    return "django.tasks" if issubclass(backend, base) else "django_tasks"


PACKAGE = framework()


tasks = import_module(PACKAGE)
signals = import_module(f"{PACKAGE}.signals")
base: Any = import_module(f"{PACKAGE}.base")
exceptions: Any = import_module(f"{PACKAGE}.exceptions")
task: Any = tasks.task
task_backends: Any = tasks.task_backends
Status: Any = tasks.TaskResultStatus
Task, TaskResult = base.Task, base.TaskResult
TaskResultDoesNotExist = exceptions.TaskResultDoesNotExist
TaskResultMismatch = exceptions.TaskResultMismatch
# django-tasks gives it another name.
InvalidTask = getattr(exceptions, "InvalidTask", None) or exceptions.InvalidTaskError
