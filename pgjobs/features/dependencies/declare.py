"""Dependencies: what must have succeeded lately before a job may run.

A need is a task with some of its arguments, in one text: its key. Jobs of tasks that
others depend on have such keys, too: the keys that they *provide*. So the database
finds with one look-up whether a need is met. See functions/.
"""

import json
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from ...exceptions import (
    InvalidArguments,
    InvalidTask,
    UnknownTask,
    non_negative_seconds,
)
from ...tasks.flow_control import key_of_arguments
from ...tasks.registry import registry

if TYPE_CHECKING:
    from ...tasks.arguments import Signature, Stored
    from ...tasks.hints import AnyJson, Hint
    from ...tasks.task import Task

DEFAULT_WINDOW = timedelta(days=30).total_seconds()
UNITS = {"hours": 3_600, "minutes": 60, "within": 1}


class Same:
    """The value of one of the job's own arguments: of that name, or of `name`.

    `same`, `same("other_name")`, `same + 1`: with +, -, * and /.
    """

    def __init__(
        self, name: str | None = None, changes: tuple[Callable[[Any], Any], ...] = ()
    ):
        self.name = name
        self.changes = changes

    def __call__(self, name: str) -> "Same":
        if not isinstance(name, str):
            raise InvalidTask(f"same takes the name of a parameter, got {name!r}.")
        return Same(name, self.changes)

    def __repr__(self) -> str:
        called = f"({self.name!r})" if self.name else ""
        return f"same{called}{' changed' if self.changes else ''}"

    def __add__(self, other: Any) -> "Same":
        return self.changed(lambda value: value + other)

    def __radd__(self, other: Any) -> "Same":
        return self.changed(lambda value: other + value)

    def __sub__(self, other: Any) -> "Same":
        return self.changed(lambda value: value - other)

    def __rsub__(self, other: Any) -> "Same":
        return self.changed(lambda value: other - value)

    def __mul__(self, other: Any) -> "Same":
        return self.changed(lambda value: value * other)

    def __rmul__(self, other: Any) -> "Same":
        return self.changed(lambda value: other * value)

    def __truediv__(self, other: Any) -> "Same":
        return self.changed(lambda value: value / other)

    def __rtruediv__(self, other: Any) -> "Same":
        return self.changed(lambda value: other / value)

    def changed(self, change: Callable[[Any], Any]) -> "Same":
        return Same(self.name, (*self.changes, change))

    def value_of(self, argument: Any) -> Any:
        for change in self.changes:
            argument = change(argument)
        return argument


same = Same()


class Dependency:
    """That a job of another task must have succeeded before.

    - `task`: the task, or its name.
    - `hours`, `minutes` or `within` (seconds or a timedelta): how long ago its success
      may be. The default is 30 days.
    - Other names are arguments of that task, each `same` or a value. A parameter
      without one may have had any value; it needs a default if a job has to be
      enqueued.
    - `args`: more arguments, for parameters that have the name of an option.

    Raises InvalidTask.
    """

    def __init__(
        self,
        task: "Task[..., Any, Any] | str",
        /,
        hours: float | None = None,
        *,
        minutes: float | None = None,
        within: float | timedelta | None = None,
        args: dict[str, Any] | None = None,
        **arguments: Any,
    ):
        if not isinstance(task, str) and not hasattr(task, "signature"):
            raise InvalidTask(
                f"A Dependency takes a task or its name, got {task!r}: decorate it "
                "with @task."
            )
        self.task = task
        self.seconds = window(hours=hours, minutes=minutes, within=within)
        if args is not None and not isinstance(args, dict):
            raise InvalidTask(f"args of a Dependency must be a dict, got {args!r}.")
        if twice := sorted(arguments.keys() & (args or {}).keys()):
            raise InvalidTask(f"A Dependency gets {', '.join(twice)} twice.")
        self.arguments = {**arguments, **(args or {})}

    def __repr__(self) -> str:
        given = "".join(f", {name}={each!r}" for name, each in self.arguments.items())
        return f"Dependency({self.task_name}{given})"

    @property
    def task_name(self) -> str:
        return self.task if isinstance(self.task, str) else self.task.name


class Need(NamedTuple):
    """A dependency of one job: a task, and the arguments that count."""

    task: "Task[..., Any, Any]"
    arguments: dict[str, Any]  # as JSON data
    key: str
    seconds: float  # how long ago at most


def window(**given: Any) -> float:
    """Return the given one of hours, minutes and within as seconds."""
    said = {name: value for name, value in given.items() if value is not None}
    if not said:
        return DEFAULT_WINDOW
    if len(said) > 1:
        raise InvalidTask(f"Give {' or '.join(said)} of a Dependency, not both.")
    ((name, value),) = said.items()
    if isinstance(value, timedelta) and name != "within":
        raise InvalidTask(f"{name} must be a number; within takes a timedelta.")
    try:
        unit = 1 if isinstance(value, timedelta | bool) else UNITS[name]
        seconds = non_negative_seconds(name, value * unit)
    except (TypeError, ValueError):
        raise InvalidTask(
            f"{name} of a Dependency must be a positive number of up to 100 years, got "
            f"{value!r}."
        ) from None
    if isinstance(value, bool) or seconds == 0:
        raise InvalidTask(f"{name} of a Dependency must be positive, got {value!r}.")
    return seconds


def needs_of(task: "Task[..., Any, Any]", stored: "Stored") -> list[Need]:
    """Return what a job of the task with these stored arguments needs.

    Raises InvalidArguments for values that cannot be made, or that do not fit;
    UnknownTask if it depends on a task that is not here.
    """
    targets = [(each, target_of(each)) for each in task.options.dependencies]
    if not targets:
        return []
    own = named_arguments(task.signature, stored)
    faults: dict[str, str] = {}
    needs = []
    for dependency, target in targets:
        arguments, forms = {}, {}
        for name, given in dependency.arguments.items():
            try:
                value = value_of(name, given, own)
                hint = hint_of(target.signature, name)
                arguments[name] = hint.store(value)
                forms[name] = hint.key_form(arguments[name])
            except Exception as error:  # noqa: BLE001  (arithmetic of any types)
                why = str(error) if isinstance(error, ValueError) else repr(error)
                faults[f"{name} of {target.name}"] = why
        key = key_of_arguments(target.name, forms)
        needs.append(Need(target, arguments, key, dependency.seconds))
    if faults:
        raise InvalidArguments(task.name, faults)
    return needs


def target_of(dependency: Dependency) -> "Task[..., Any, Any]":
    task = dependency.task
    return registry.get(task) if isinstance(task, str) else task


def provided_names() -> dict[str, dict[frozenset[str], float]]:
    """Return the tasks that others depend on.

    Each has the sets of parameters that others name, with the greatest age in seconds
    of a success that counts.
    """
    provided: dict[str, dict[frozenset[str], float]] = {}
    for task in registry.tasks.values():
        for dependency in task.options.dependencies:
            with suppress(UnknownTask):  # the system check reports it
                name = registry.get(dependency.task_name).name
                windows = provided.setdefault(name, {})
                names = frozenset(dependency.arguments)
                windows[names] = max(dependency.seconds, windows.get(names, 0.0))
    return provided


def provided_by(
    task_name: str, stored: "Stored", provided: dict[frozenset[str], float]
) -> list[dict[str, Any]]:
    """Return the keys under which others may need a job with these arguments.

    `provided`: see `provided_names`.
    """
    arguments = json.loads(stored.kwargs)
    return [
        {
            "key": key_of_arguments(
                task_name, {name: arguments[name] for name in names}
            ),
            "for": seconds,
        }
        for names, seconds in provided.items()
        if names <= arguments.keys()
    ]


def named_arguments(signature: "Signature", stored: "Stored") -> dict[str, Any]:
    """Return the arguments that the task would be called with, by name."""
    args, kwargs = signature.load(stored)
    bound = signature.signature.bind(*args, **kwargs)
    bound.apply_defaults()
    arguments = dict(bound.arguments)
    if signature.var_keyword:
        arguments |= arguments.pop(signature.var_keyword)
    return arguments


def value_of(name: str, given: Any, own: dict[str, Any]) -> Any:
    if not isinstance(given, Same):
        return given
    source = given.name or name
    if source not in own:
        raise ValueError(f"the job has no argument {source!r}")
    return given.value_of(own[source])


def hint_of(signature: "Signature", name: str) -> "AnyJson | Hint":
    """Return the hint of a parameter; raise ValueError if there is none."""
    parameter = signature.parameters.get(name)
    if parameter is None and signature.var_keyword:
        parameter = signature.parameters[signature.var_keyword]
    if parameter is None or not (parameter.takes_name or signature.var_keyword):
        raise ValueError("is no parameter of this task that can be given by its name")
    if parameter.is_encrypted:
        raise ValueError("is encrypted, and dependencies are found by their arguments")
    return parameter.hint


def missing(signature: "Signature", dependency: Dependency) -> list[str]:
    """Return the parameters that would lack a value if a job were enqueued."""
    return [
        name
        for name, parameter in signature.parameters.items()
        if parameter.is_required and name not in dependency.arguments
    ]


def faults_of(dependency: Dependency, signature: "Signature") -> dict[str, str]:
    """Return, by parameter, why the task cannot take an argument.

    It skips `same`, whose value is known only for a job.
    """
    faults = {}
    for name, given in dependency.arguments.items():
        try:
            hint = hint_of(signature, name)
            if not isinstance(given, Same):
                hint.store(given)
        except ValueError as error:
            faults[name] = str(error)
    return faults
