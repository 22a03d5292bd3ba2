"""What tasks call sensitive: `@task(sensitive=("iban",))`."""

from collections.abc import Iterable

from ..exceptions import UnknownTask
from ..models.definition import TaskDefinition
from .registry import registry


def sensitive_words(task: str) -> tuple[str, ...]:
    """Return the names of a task's arguments that are masked."""
    return sensitive_by_task({task})[task]


def sensitive_by_task(tasks: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the names by task; one query at most.

    Of a task whose code this process does not have, the database knows them.
    """
    found: dict[str, tuple[str, ...]] = dict.fromkeys(tasks, ())
    unknown = []
    for name in found:
        try:
            found[name] = registry.get(name).options.sensitive
        except UnknownTask:
            unknown.append(name)
    if unknown:
        stored = TaskDefinition.objects.filter(name__in=unknown)
        for name, options in stored.values_list("name", "options"):
            found[name] = tuple(options.get("sensitive") or ())
    return found


def all_sensitive_words() -> tuple[str, ...]:
    """Return the names that any task here calls sensitive."""
    words = {
        word for task in registry.tasks.values() for word in task.options.sensitive
    }
    return tuple(sorted(words))
