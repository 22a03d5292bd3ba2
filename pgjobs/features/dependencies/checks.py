"""System checks of the dependencies between tasks."""

from collections.abc import Iterator
from contextlib import suppress
from difflib import get_close_matches
from graphlib import CycleError, TopologicalSorter

from django.core.checks import CheckMessage, Error, Warning, register

from ...conf import problems
from ...exceptions import InvalidTask
from ...tasks.registry import registry
from ...tasks.task import Task
from . import declare as dependencies
from .declare import Dependency


@register("pgjobs")
def check_dependencies(**kwargs) -> list[CheckMessage]:
    """Check that dependencies name tasks that can be enqueued and form no circle."""
    if any(problems()):
        return []
    messages: list[CheckMessage] = []
    for task in registry.tasks.values():
        for dependency in task.options.dependencies:
            with suppress(InvalidTask):  # check_tasks reports it
                messages += dependency_problems(task, dependency)
    for circle in circles():
        message = f"Tasks depend on each other in a circle: {' -> '.join(circle)}."
        hint = "Their jobs would wait for each other for ever."
        messages.append(Error(message, hint=hint, id="pgjobs.E040"))
    return [*messages, *shared_lock_problems()]


def dependency_problems(task: Task, dependency: Dependency) -> Iterator[CheckMessage]:
    target = registry.find(dependency.task_name)
    if target is None:
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


def reachable(graph: dict[str, set[str]], name: str) -> set[str]:
    """Return the tasks on which a task depends, directly or through others."""
    reached: set[str] = set()
    new = {name}
    while new:
        new = {target for source in new for target in graph.get(source, ())} - reached
        reached |= new
    return reached


def dependency_graph() -> dict[str, set[str]]:
    """Return on which tasks each task depends, by their names."""
    graph: dict[str, set[str]] = {}
    for task in registry.tasks.values():
        targets = graph.setdefault(task.name, set())
        for dependency in task.options.dependencies:
            if target := registry.find(dependency.task_name):
                targets.add(target.name)
    return graph


def circles() -> Iterator[list[str]]:
    """Yield circles of tasks that depend on each other; no task is in two of them."""
    graph = dependency_graph()
    while True:
        try:
            list(TopologicalSorter(graph).static_order())
        except CycleError as error:
            circle = error.args[1][::-1]  # a task comes before those it depends on
            yield circle
            for name in set(circle):
                del graph[name]
            for targets in graph.values():
                targets.difference_update(circle)
        else:
            return
