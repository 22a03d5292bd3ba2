"""System checks of what isolated tasks need."""

from collections.abc import Iterator
from pathlib import Path

from django.core.checks import CheckMessage, Error, Warning, register

from ...conf import problems
from ...tasks.registry import registry
from ...tasks.task import Task

MEMORY = Path("/proc/self/statm")


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
