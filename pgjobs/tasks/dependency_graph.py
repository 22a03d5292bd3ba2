"""The graph of dependencies between tasks, by their names."""

from collections.abc import Iterator
from contextlib import suppress
from graphlib import CycleError, TopologicalSorter

from ..exceptions import UnknownTask
from .registry import registry


def reachable(graph: dict[str, set[str]], name: str) -> set[str]:
    """Return the tasks on which a task depends, directly or through others."""
    found: set[str] = set()
    new = {name}
    while new:
        new = {target for each in new for target in graph.get(each, ())} - found
        found |= new
    return found


def dependency_graph() -> dict[str, set[str]]:
    """Return on which tasks each task depends, by their names."""
    graph: dict[str, set[str]] = {}
    for task in registry.tasks.values():
        targets = graph.setdefault(task.name, set())
        for each in task.options.dependencies:
            with suppress(UnknownTask):
                targets.add(registry.get(each.task_name).name)
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
