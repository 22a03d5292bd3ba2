"""What tasks call sensitive: `@task(sensitive=("iban",))`."""

from collections.abc import Iterable, Iterator
from functools import cache, partial
from string import Formatter
from typing import Any

from ..exceptions import UnknownTask
from ..reports.json_text import is_secret, with_names
from ..reports.secrets import Hiding
from ..reports.task_words import Known, Words, with_own
from . import tables
from .registry import registry

UNNAMED = "values"
UNKNOWN = "secret?"  # a name that is masked


def sensitive_words(task: str) -> Words:
    """Return the names of a task's arguments that are masked."""
    return sensitive_by_task({task})[task]


def sensitive_by_task(tasks: Iterable[str]) -> dict[str, Words]:
    """Return the names by task; one query at most.

    Of a task whose code this process does not have, the database knows them.
    """
    by_task: dict[str, Words] = dict.fromkeys(tasks, ())
    unknown = []
    for name in by_task:
        try:
            by_task[name] = known_task(name).options.sensitive
        except UnknownTask:
            unknown.append(name)
    if unknown:
        stored = tables.TaskDefinition.objects.filter(name__in=unknown)
        for name, options in stored.values_list("name", "options"):
            by_task[name] = tuple(options.get("sensitive") or ())
    return by_task


def known_task(name: str):
    """Return the task; raise UnknownTask.

    A web process imports what else declares tasks when it is first asked for one that
    it does not know. Otherwise it would show what that task calls sensitive.
    """
    if (task := registry.find(name)) is not None:
        return task
    load_sources()
    return registry.get(name)


@cache
def load_sources() -> None:
    registry.load_sources()


def named_arguments(task: str, args: str) -> str:
    """Return the text of a job's arguments by position as that of an object.

    What has no name has one of ours. What a task takes that neither the code nor the
    database knows is masked: any of it may be sensitive.
    """
    return args if args == "[]" else with_names(args, *places(task))


def places(task: str) -> tuple[tuple[str, ...], str]:
    """Return the names of the arguments by position, and of all further ones."""
    try:
        names, rest = known_task(task).signature.by_position
        return names, rest or UNNAMED
    except UnknownTask:
        definitions = tables.TaskDefinition.objects.filter(name=task)
        return (), UNNAMED if definitions.exists() else UNKNOWN


def hiding_arguments(
    task: str, args: str, kwargs: str, own: str | None = None
) -> Hiding:
    """Return what masks the values of a job's sensitive arguments in a text.

    `own`: the job's own words, see `with_own`.
    """
    named = partial(named_arguments, task, args)
    return Hiding(with_own(sensitive_words(task), own), named, kwargs)


class DeclaredWords:
    """What the code and the database say, for reports."""

    def of(self, tasks: Iterable[str]) -> dict[str, Words]:
        return sensitive_by_task(tasks)

    def of_all(self) -> dict[str, Words]:
        load_sources()
        stored = tables.TaskDefinition.objects.values_list("name", "options")
        by_task = {
            each: tuple(options.get("sensitive") or ())
            for name, options in stored
            for each in (name, *(options.get("aliases") or ()))
        }
        return by_task | {
            name: task.options.sensitive
            for task in registry.all_tasks()
            for name in task.names
        }

    def named(self, task: str, args: str) -> str:
        return named_arguments(task, args)

    def with_secret_key(self, kind: str) -> set[str]:
        load_sources()
        names = {
            each
            for name, options in tables.TaskDefinition.objects.values_list(
                "name", "options"
            )
            if makes_of_secret(stored_key(options, kind), options.get("sensitive"))
            for each in (name, *(options.get("aliases") or ()))
        }
        for task in registry.all_tasks():
            key = getattr(task.options, kind)
            if makes_of_secret(key, task.options.sensitive):
                names.update(task.names)
        return names | (uniquely_secret() if kind == "unique_key" else set())


def uniquely_secret() -> set[str]:
    """Return the tasks whose unique key is made of all their arguments, or of some."""
    found: set[str] = set()
    for task in registry.all_tasks():
        options = task.options
        parameters = task.signature.signature.parameters
        names = parameters if options.unique is True else options.unique
        if names and any(is_secret(name, options.sensitive) for name in names):
            found.update(task.names)
    for name, options in tables.TaskDefinition.objects.values_list("name", "options"):
        words = tuple(options.get("sensitive") or ())
        names = options.get("unique")
        names = words if names is True else names or ()
        if any(is_secret(each, words) for each in names):
            found.update((name, *(options.get("aliases") or ())))
    return found


def stored_key(options: dict[str, Any], kind: str) -> Any:
    """Return a key as `definitions.template` has stored it."""
    keys = options.get("keys") or {}
    return options[kind] if kind in options else keys.get(kind)


def makes_of_secret(key: Any, words: Iterable[str] | None) -> bool:
    """Whether a key is made of a masked argument. A function may take any."""
    words = tuple(words or ())
    if key is None:
        return False
    if isinstance(key, str) or (isinstance(key, dict) and "parts" in key):
        return any(is_secret(name, words) for name in placeholders(key))
    return any(not word.startswith("!") for word in words)


def placeholders(key: str | dict[str, Any]) -> Iterator[str]:
    if isinstance(key, str):
        parts = [(text, name) for text, name, *_ in Formatter().parse(key)]
    else:
        parts = key["parts"]
    return (name for _, name in parts if name)


Known.tasks = DeclaredWords()
