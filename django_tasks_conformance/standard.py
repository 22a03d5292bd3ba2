"""Django's tasks, or the package django-tasks if the backend is one of its kind."""

from importlib import import_module
from types import ModuleType
from typing import Any

import django
from django.conf import settings
from django.utils.module_loading import import_string


def framework() -> str:
    """Return the package whose `Task` the default backend takes."""
    if django.VERSION < (6, 0):
        return "django_tasks"
    base = import_module("django.tasks.backends.base").BaseTaskBackend
    backend = import_string(settings.TASKS["default"]["BACKEND"])
    return "django.tasks" if issubclass(backend, base) else "django_tasks"


PACKAGE = framework()


def module(name: str) -> ModuleType:
    return import_module(f"{PACKAGE}.{name}")


tasks = import_module(PACKAGE)
signals = module("signals")
exceptions = module("exceptions")
task: Any = tasks.task
task_backends: Any = tasks.task_backends
Task: Any = module("base").Task
TaskError: Any = module("base").TaskError
TaskResult: Any = module("base").TaskResult
Status: Any = tasks.TaskResultStatus
# django-tasks gives it another name.
InvalidTask: Any = getattr(exceptions, "InvalidTask", None) or getattr(
    exceptions, "InvalidTaskError", None
)
TaskResultDoesNotExist: Any = exceptions.TaskResultDoesNotExist
TaskResultMismatch: Any = exceptions.TaskResultMismatch
