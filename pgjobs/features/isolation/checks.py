"""System checks of what isolated tasks need."""

import os
from collections.abc import Iterator
from pathlib import Path

from django.core.checks import CheckMessage, Error, Info, Tags, Warning, register

from ...conf import problems, settings
from ...tasks.registry import registry
from ...tasks.task import Task

MEMORY = Path("/proc/self/statm")
OWN = 3  # connections of a worker itself


@register("pgjobs")
def check_isolation(**kwargs) -> list[CheckMessage]:
    """Find isolated tasks whose processes cannot start, or be measured."""
    if any(problems()):
        return []
    tasks = [task for task in registry.tasks.values() if task.options.isolated]
    return [*without_settings(tasks), *without_memory(tasks)]


def without_settings(tasks: list[Task]) -> Iterator[CheckMessage]:
    if not tasks:
        return
    from .pool import CannotStart, settings_module  # only where it is needed

    try:
        settings_module()
    except CannotStart as error:
        for task in tasks:
            yield Error(
                f"{task.name} is isolated. {error}",
                hint="Set DJANGO_SETTINGS_MODULE to a module that has them.",
                obj=task,
                id="pgjobs.E070",
            )


def without_memory(tasks: list[Task]) -> Iterator[CheckMessage]:
    if MEMORY.exists():
        return
    for task in tasks:
        if task.options.memory_limit:
            yield Warning(
                f"{task.name} has a memory_limit, but {MEMORY} does not exist here: "
                "nobody can tell how much memory its processes take.",
                hint="Run such tasks on Linux.",
                obj=task,
                id="pgjobs.W071",
            )


@register("pgjobs", Tags.database)
def check_connections(databases=None, **kwargs) -> list[CheckMessage]:
    """Name the connections that a worker opens, with those of its processes."""
    if any(problems()) or settings.DATABASE not in (databases or ()):
        return []
    if not any(task.options.isolated for task in registry.tasks.values()):
        return []
    slots = settings.CONCURRENCY
    processes = min(slots, os.cpu_count() or 1)
    return [
        Info(
            f"A worker opens up to {OWN + slots + processes} connections: {OWN} of its "
            f"own, {slots} for the jobs in its slots, and {processes} for those in "
            "processes of their own.",
            hint="The server's max_connections must allow this for each worker. Fewer: "
            "runjobs --concurrency, --isolated.",
            id="pgjobs.I072",
        )
    ]
