"""A system check of the process units that tasks take."""

from django.core.checks import CheckMessage, Warning, register

from ...conf import problems, settings
from ...tasks.registry import registry


@register("pgjobs")
def check_process_units(**kwargs) -> list[CheckMessage]:
    """Warn of tasks that take more than workers have unless --units says more."""
    if any(problems()) or settings.PROCESS_UNITS is None:
        return []
    return [
        Warning(
            f"{task.name} takes process_units={task.options.process_units}, but "
            f"PGJOBS['PROCESS_UNITS'] is {settings.PROCESS_UNITS}.",
            hint="Its jobs never run, unless a worker has more: runjobs --units N.",
            obj=task,
            id="pgjobs.W030",
        )
        for task in registry.tasks.values()
        if (task.options.process_units or 1) > settings.PROCESS_UNITS
    ]
