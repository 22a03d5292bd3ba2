"""Arguments of Django's tasks: any JSON, stored as they were given, with no hints.

The JSON is as Django's tasks have it: normalised, with texts as the keys of objects.
"""

import inspect
import json
from collections.abc import Callable
from functools import cached_property
from inspect import Parameter
from typing import Any

from ...base.plain_json import check_json, check_text, dump_checked, load, shortened
from ...exceptions import InvalidArguments
from ...tasks.arguments import Signature, Stored, check_size
from .compat import Task, normalize_json

PLAIN = {str, int, float, bool, type(None)}
BY_POSITION = {Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD}
VAR_POSITIONAL = Parameter.VAR_POSITIONAL


def json_form(value: Any) -> Any:
    """Return a value as Django normalises it, and as JSON then writes its keys.

    Raises TypeError, and ValueError for a dict whose keys have the same text.
    """
    if type(value) in PLAIN:
        return value
    return with_text_keys(normalize_json(value))


def with_text_keys(value: Any) -> Any:
    if isinstance(value, list):
        return [with_text_keys(each) for each in value]
    if not isinstance(value, dict):
        return value
    found = {text_of(key): with_text_keys(each) for key, each in value.items()}
    if len(found) < len(value):
        raise ValueError(f"several keys would become one, got {shortened(value)}")
    return found


def text_of(key: Any) -> str:
    """Return a key as JSON writes it: 2024 as "2024", None as "null"."""
    if isinstance(key, str):
        return key
    if key is None or isinstance(key, int | float):
        return json.dumps(key, allow_nan=False)
    raise TypeError(f"Unsupported type of a key: {type(key)}")


def without_hints(signature: inspect.Signature) -> Callable:
    """Return a function with these parameters that takes any JSON for each of them.

    A default that is no JSON is left out: the task itself knows it.
    """

    def takes(*args, **kwargs): ...

    parameters = [
        each.replace(
            annotation=Parameter.empty,
            default=each.default
            if each.default is Parameter.empty or is_json(each.default)
            else None,
        )
        for each in signature.parameters.values()
    ]
    takes.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=parameters, return_annotation=inspect.Signature.empty
    )
    return takes


class PlainSignature:
    """The parameters of one task of Django's, without its context."""

    def __init__(self, task_name: str, task: Task):
        self.task_name = task_name
        signature = inspect.signature(task.func)
        parameters = list(signature.parameters.values())[task.takes_context :]
        self.signature = signature.replace(parameters=parameters)

    @cached_property
    def described(self) -> Signature:
        """The parameters as forms and definitions show them: any JSON, by name."""
        return Signature(self.task_name, without_hints(self.signature))

    @property
    def parameters(self) -> dict[str, Any]:
        return self.described.parameters

    @property
    def var_keyword(self) -> str | None:
        return self.described.var_keyword

    @cached_property
    def by_position(self) -> tuple[tuple[str, ...], str | None]:
        """The names of arguments by position, and of `*args`."""
        parameters = self.signature.parameters.values()
        names = (
            parameter.name for parameter in parameters if parameter.kind in BY_POSITION
        )
        rest = (
            parameter.name
            for parameter in parameters
            if parameter.kind is VAR_POSITIONAL
        )
        return tuple(names), next(rest, None)

    def store(self, args: tuple, kwargs: dict, later: Any = None) -> Stored:
        """Return the arguments as JSON texts; raise TypeError or InvalidArguments.

        A placeholder is refused: `later` stays as it is.
        """
        return self.dump(normalized([*args]), normalized(kwargs))

    def dump(self, positional: list, named: dict) -> Stored:
        """Return normalised arguments as JSON texts; raise InvalidArguments."""
        try:
            for each in positional:
                check_json(each)
            for name, each in named.items():
                check_text(name)
                check_json(each)
        except ValueError as error:
            faults = {"arguments": str(error)}
            raise InvalidArguments(self.task_name, faults) from None
        stored = Stored(
            dump_checked(positional) if positional else "[]",
            dump_checked(named) if named else "{}",
        )
        check_size(self.task_name, stored)
        return stored

    def in_key_form(self, stored: Stored) -> Stored:
        """Return the stored arguments: plain JSON has one form."""
        return stored

    def arriving(self, stored: Stored, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
        """Return the arguments for functions that make keys: as they were given."""
        return args, kwargs

    def load(self, stored: Stored) -> tuple[tuple, dict]:
        """Return the arguments to call the task with; raise InvalidArguments."""
        try:
            return tuple(load(stored.args)), load(stored.kwargs)
        except (ValueError, RecursionError) as error:
            fault = {"arguments": f"cannot be read: {error}"}
            raise InvalidArguments(self.task_name, fault) from None

    def by_name(self, args: tuple, kwargs: dict) -> Stored:
        """Return the arguments under their names, as keys are made of them.

        Raises TypeError if the task cannot be called with them.
        """
        bound = self.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        named: dict[str, Any] = {}
        positional: list = []
        for name, value in bound.arguments.items():
            kind = self.signature.parameters[name].kind
            if kind is VAR_POSITIONAL:
                positional = [*value]
            elif kind is Parameter.VAR_KEYWORD:
                named |= value
            elif is_json(value):  # a default need not be
                named[name] = value
        return self.store(tuple(positional), named)


def normalized(values: Any) -> Any:
    """Return a list or dict of arguments as Django stores it.

    Raises TypeError or ValueError.
    """
    each = values.values() if type(values) is dict else values
    if all(type(value) in PLAIN for value in each):
        return values  # most are, and Django asks each value what it is
    return json_form(values)


def is_json(value: Any) -> bool:
    try:
        json_form(value)
    except (TypeError, ValueError):
        return False
    return True
