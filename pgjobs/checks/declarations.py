"""System checks on where tasks are declared."""

from contextlib import suppress

from django.core.checks import CheckMessage, Warning, register
from django.urls import get_resolver

from ..tasks.modules import CURE
from ..tasks.registry import line_of, registry


@register("pgjobs")
def check_modules(**kwargs) -> list[CheckMessage]:
    """Warn of tasks in modules that only views import, for instance."""
    with suppress(Exception):  # a check of Django's reports what is wrong there
        get_resolver().url_patterns  # noqa: B018  (imports the views)
    return [
        Warning(
            f"{task.name} is declared in {task.function.__module__}, which workers do "
            "not load by themselves.",
            hint=f"They fail the jobs of tasks that they do not know. {CURE}",
            obj=task,
            id="pgjobs.W047",
        )
        for task in registry.tasks.values()
        if task.is_late
    ]


@register("pgjobs")
def check_replaced(**kwargs) -> list[CheckMessage]:
    """Warn of two tasks of one module and name, of which one is gone."""
    return [
        Warning(
            f"{'.'.join(after.origin)} is declared twice, in lines {line_of(before)} "
            f"and {line_of(after)}: the second function replaces the first.",
            hint="Give one of them another name.",
            obj=after,
            id="pgjobs.W048",
        )
        for before, after in registry.replaced
    ]
