"""System checks of the declared tasks: names, keys, units and schedules."""

from collections.abc import Iterator

from django.core.checks import CheckMessage, Error, Warning, register

from ..conf import problems, settings
from ..exceptions import InvalidArguments, InvalidTask
from ..tasks import schedules
from ..tasks.flow_control import Key, placeholders
from ..tasks.registry import registry


@register("pgjobs")
def check_tasks(**kwargs) -> list[CheckMessage]:
    """Check that names are unique and hints can be resolved."""
    found: list[CheckMessage] = []
    for name, tasks in sorted(registry.clashes().items()):
        places = ", ".join(sorted(".".join(task.origin) for task in tasks))
        message = f"{len(tasks)} tasks have the name {name!r}: {places}."
        hint = "Give one of them another name: @task(name=...)."
        found.append(Error(message, hint=hint, id="pgjobs.E011"))
    for task in registry.tasks.values():
        try:
            task.signature  # noqa: B018  (made on first use)
        except InvalidTask as error:
            found.append(Error(str(error), obj=task, id="pgjobs.E012"))
    return found


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


@register("pgjobs")
def check_schedules(**kwargs) -> list[CheckMessage]:
    """Check that schedules have names of their own, and arguments that fit."""
    if any(problems()):
        return []  # PGJOBS says how large arguments may be
    found: list[CheckMessage] = []
    for name, declared in sorted(schedules.clashes().items()):
        tasks = ", ".join(sorted(each.task.name for each in declared))
        message = f"{len(declared)} schedules have the name {name!r}, of tasks {tasks}."
        hint = "Give one of them another name: @schedule(name=...)."
        found.append(Error(message, hint=hint, id="pgjobs.E020"))
    for each in schedules.declarations():
        try:
            each.values  # noqa: B018  (binds the arguments)
        except InvalidArguments as error:
            message = f"Schedule {each.name!r}: {error}"
            hint = "Give them by @schedule(arguments={...}), or give them defaults."
            found.append(Error(message, hint=hint, obj=each.task, id="pgjobs.E021"))
        except InvalidTask:
            continue  # check_tasks reports it
    return found
