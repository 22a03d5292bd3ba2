"""System checks of the dependencies between tasks."""

from collections.abc import Iterator
from contextlib import suppress
from difflib import get_close_matches

from django.core.checks import CheckMessage, Error, Warning, register

from ..conf import problems
from ..exceptions import InvalidTask, UnknownTask
from ..tasks import dependencies
from ..tasks.dependencies import Dependency
from ..tasks.dependency_graph import circles, dependency_graph, reachable
from ..tasks.registry import registry
from ..tasks.task import Task


@register("pgjobs")
def check_dependencies(**kwargs) -> list[CheckMessage]:
    """Check that dependencies name tasks that can be enqueued and form no circle."""
    if any(problems()):
        return []
    found: list[CheckMessage] = []
    for task in registry.tasks.values():
        for dependency in task.options.dependencies:
            with suppress(InvalidTask):  # check_tasks reports it
                found += dependency_problems(task, dependency)
    for circle in circles():
        message = f"Tasks depend on each other in a circle: {' -> '.join(circle)}."
        hint = "Their jobs would wait for each other for ever."
        found.append(Error(message, hint=hint, id="pgjobs.E040"))
    return [*found, *shared_lock_problems()]


def dependency_problems(task: Task, dependency: Dependency) -> Iterator[CheckMessage]:
    try:
        target = registry.get(dependency.task_name)
    except UnknownTask:
        near = get_close_matches(dependency.task_name, registry.names(), n=1)
        yield Error(
            f"{task.name} depends on {dependency.task_name!r}, but no task has that "
            "name.",
            hint=f"Did you mean {near[0]!r}?" if near else None,
            obj=task,
            id="pgjobs.E041",
        )
        return
    faults = dependencies.faults_of(dependency, target.signature)
    if faults:
        listed = "; ".join(f"{name}: {fault}" for name, fault in faults.items())
        yield Error(
            f"{task.name} depends on {target.name} with arguments that this does not "
            f"take: {listed}.",
            hint="Parameters called hours, minutes or within go into args={...}.",
            obj=task,
            id="pgjobs.E042",
        )
    if missing := dependencies.missing(target.signature, dependency):
        names = ", ".join(map(repr, missing))
        yield Warning(
            f"{task.name} depends on {target.name}, which cannot be enqueued for it: "
            f"no value for {names}.",
            hint="Its jobs fail unless other code has enqueued such a job. Give the "
            "Dependency a value for it, or the parameter a default.",
            obj=task,
            id="pgjobs.W043",
        )


def shared_lock_problems() -> Iterator[CheckMessage]:
    """Yield a warning for each task with the ordered lock of its dependency."""
    graph = dependency_graph()
    for task in registry.tasks.values():
        if task.options.lock is None or task.options.lock_mode != "ordered":
            continue
        for name in reachable(graph, task.name) - {task.name}:
            target = registry.get(name)
            if (target.options.lock, target.options.lock_mode) == (
                task.options.lock,
                "ordered",
            ):
                yield Warning(
                    f"{task.name} depends on {name}, and both have the ordered lock "
                    f"{task.options.lock!r}: with the same key both would wait for "
                    "ever, because the waiting job stands first in line.",
                    hint="Give one of them another lock, or lock_mode='mutex'.",
                    obj=task,
                    id="pgjobs.W044",
                )
