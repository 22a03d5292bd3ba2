"""Django's tasks, or on Django 5.2 the package django-tasks, which became them.

And whether anything hears their signals: to send one takes longer than to ask.
"""

import logging
from collections.abc import Callable, Iterator

import django
from django.conf import settings as django_settings
from django.dispatch import Signal
from django.utils.log import RequireDebugTrue

if django.VERSION >= (6, 0):
    from django.tasks import task_backends
    from django.tasks.backends.base import BaseTaskBackend
    from django.tasks.base import (
        TASK_REFRESH_ATTRS,
        Task,
        TaskContext,
        TaskError,
        TaskResult,
        TaskResultStatus,
    )
    from django.tasks.exceptions import InvalidTask, TaskResultDoesNotExist
    from django.tasks.signals import (
        log_task_enqueued,
        log_task_finished,
        log_task_started,
        logger,
        task_enqueued,
        task_finished,
        task_started,
    )
    from django.utils.json import normalize_json
else:
    from django_tasks import task_backends
    from django_tasks.backends.base import BaseTaskBackend
    from django_tasks.base import (
        TASK_REFRESH_ATTRS,
        Task,
        TaskContext,
        TaskError,
        TaskResult,
        TaskResultStatus,
    )
    from django_tasks.exceptions import InvalidTaskError as InvalidTask
    from django_tasks.exceptions import TaskResultDoesNotExist
    from django_tasks.signals import (
        log_task_enqueued,
        log_task_finished,
        log_task_started,
        logger,
        task_enqueued,
        task_finished,
        task_started,
    )
    from django_tasks.utils import normalize_json

__all__ = [
    "TASK_REFRESH_ATTRS",
    "BaseTaskBackend",
    "InvalidTask",
    "Task",
    "TaskContext",
    "TaskError",
    "TaskResult",
    "TaskResultDoesNotExist",
    "TaskResultStatus",
    "log_task_enqueued",
    "log_task_finished",
    "log_task_started",
    "logger",
    "normalize_json",
    "task_backends",
    "task_enqueued",
    "task_finished",
    "task_started",
]


def only_logs(signal: Signal, logs: Callable) -> bool:
    """Whether Django's own receiver is the only one. It sends no query."""
    return all(key[0] == id(logs) for key, *_ in signal.receivers)


def is_heard(signal: Signal, logs: Callable, level: int) -> bool:
    """Whether a receiver does more than write a log that goes nowhere."""
    return is_logged(level) or not only_logs(signal, logs)


def is_logged(level: int) -> bool:
    """Whether a handler takes what Django logs about tasks at this level."""
    if not logger.isEnabledFor(level):
        return False
    found = list(handlers())
    if not found and logging.lastResort:
        found.append(logging.lastResort)
    return any(takes(handler, level) for handler in found)


def handlers() -> Iterator[logging.Handler]:
    each: logging.Logger | None = logger
    while each is not None:
        yield from each.handlers
        each = each.parent if each.propagate else None


def takes(handler: logging.Handler, level: int) -> bool:
    if level < handler.level or isinstance(handler, logging.NullHandler):
        return False
    # Of Django's default logging: without DEBUG, the console shows nothing of it.
    return django_settings.DEBUG or not any(
        isinstance(each, RequireDebugTrue) for each in handler.filters
    )
