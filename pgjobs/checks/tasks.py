"""System checks of the declared tasks: names and keys."""

from collections.abc import Iterator
from contextlib import suppress

from django.core.checks import CheckMessage, Error, Warning, register
from django.urls import get_resolver

from ..exceptions import InvalidTask
from ..tasks.flow_control import Key, placeholders
from ..tasks.modules import CURE
from ..tasks.registry import line_of, registry


@register("pgjobs")
def check_tasks(**kwargs) -> list[CheckMessage]:
    """Check that names are unique and hints can be resolved."""
    messages: list[CheckMessage] = []
    for name, tasks in sorted(registry.clashes().items()):
        places = ", ".join(sorted(".".join(task.origin) for task in tasks))
        message = f"{len(tasks)} tasks have the name {name!r}: {places}."
        hint = "Give one of them another name: @task(name=...)."
        messages.append(Error(message, hint=hint, id="pgjobs.E011"))
    for task in registry.tasks.values():
        try:
            task.signature  # noqa: B018  (made on first use)
        except InvalidTask as error:
            messages.append(Error(str(error), obj=task, id="pgjobs.E012"))
    return messages


@register("pgjobs")
def check_keys(**kwargs) -> list[CheckMessage]:
    """Warn of options of locks, limits and rates that have no effect."""
    return [*idle_keys(), *shared_keys()]


def idle_keys() -> Iterator[CheckMessage]:
    for task in registry.tasks.values():
        options = task.options
        if options.lock_mode != "ordered" and options.lock is None:
            yield Warning(
                f"{task.name} says lock_mode={options.lock_mode!r}, but no lock.",
                hint="It takes effect only with .using(lock=...).",
                obj=task,
                id="pgjobs.W016",
            )
        if is_constant(options.lock) and options.max_running is not None:
            yield Warning(
                f"{task.name} says max_running={options.max_running}, but its jobs "
                f"share the lock {options.lock!r}, and so never run at the same time.",
                hint="Leave one of them out, or name a parameter in the lock.",
                obj=task,
                id="pgjobs.W017",
            )


def shared_keys() -> Iterator[CheckMessage]:
    """Yield a warning for each key that tasks share with different numbers."""
    meanings: dict[tuple[str, str], dict[object, str]] = {}
    for task in registry.tasks.values():
        options = task.options
        for name, value in (
            ("limit_key", options.max_running),
            ("rate_key", (options.rate, options.burst)),
        ):
            key = getattr(options, name)
            if is_constant(key):
                meanings.setdefault((name, key), {}).setdefault(value, task.name)
    for (name, key), tasks in meanings.items():
        if len(tasks) > 1:
            number = "max_running" if name == "limit_key" else "rate and burst"
            yield Warning(
                f"{' and '.join(sorted(tasks.values()))} share the {name} {key!r}, but "
                f"differ in {number}.",
                hint="Each job goes by its own numbers: make them the same.",
                id="pgjobs.W018",
            )


def is_constant(key: Key | None) -> bool:
    """Whether all jobs of a task have the same key."""
    return isinstance(key, str) and not list(placeholders(key))


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
