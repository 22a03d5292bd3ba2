"""Django's tasks under the same names in all versions of Django."""

import django

if django.VERSION >= (6, 0):
    from django import tasks
    from django.tasks import (
        TaskResultStatus,
        default_task_backend,
        signals,
        task,
        task_backends,
    )
    from django.tasks.base import Task, TaskContext, TaskResult
    from django.tasks.exceptions import (
        InvalidTask,
        TaskResultDoesNotExist,
        TaskResultMismatch,
    )
else:
    import django_tasks as tasks
    from django_tasks import (
        TaskResultStatus,
        default_task_backend,
        signals,
        task,
        task_backends,
    )
    from django_tasks.base import Task, TaskContext, TaskResult
    from django_tasks.exceptions import InvalidTaskError as InvalidTask
    from django_tasks.exceptions import TaskResultDoesNotExist, TaskResultMismatch

__all__ = [
    "InvalidTask",
    "Task",
    "TaskContext",
    "TaskResult",
    "TaskResultDoesNotExist",
    "TaskResultMismatch",
    "TaskResultStatus",
    "default_task_backend",
    "signals",
    "task",
    "task_backends",
    "tasks",
]
