"""Arguments: bound to a task's signature, checked by its type hints, kept as JSON.

The hint of a parameter decides what it takes, as in pydantic's strict JSON mode. `"5"`
is no int, `True` is no int, an int is a float. Dates, UUIDs, Decimals and Enums pass as
themselves or in their JSON form. A list or tuple in place of a hint is a choice, like
`Literal`. Without a hint, or with `Any`, a parameter takes any JSON.
"""

import inspect
from collections.abc import Callable, Iterator
from functools import cached_property
from inspect import Parameter
from typing import Any, Literal, NamedTuple

from ..base.plain_json import check_text, dump_checked, load
from ..conf import settings
from ..exceptions import InvalidArguments, InvalidTask
from .hints import AnyJson, Hint, signature_of
from .later import Later
from .meant import BIND, meant_argument


class Stored(NamedTuple):
    """Arguments as the job row keeps them: JSON texts."""

    args: str  # an array: only arguments that have no name
    kwargs: str  # an object: all other arguments, by name


def check_size(task_name: str, stored: Stored) -> None:
    """Raise InvalidArguments for arguments that take too many bytes."""
    most = settings.MAX_ARGUMENT_BYTES
    # No character takes more than four bytes, so this saves the encoding.
    if 4 * (len(stored.args) + len(stored.kwargs)) <= most:
        return
    size = sum(len(part.encode()) for part in stored)
    if size > most:
        fault = (
            f"are {size} bytes of JSON, more than the {most} that "
            "PGJOBS['MAX_ARGUMENT_BYTES'] allows"
        )
        raise InvalidArguments(task_name, {"arguments": fault})


def fault_of(value: Any, error: ValueError) -> str:
    """Return what is wrong with an argument. The class of the value may say it."""
    return getattr(type(value), "fault_of_argument", str(error))


class Signature:
    """The parameters of one task. It checks, stores and reads back arguments."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Refuse what Celery's tasks have under this name."""
        raise TypeError(f"A task has no signatures to call; {BIND}.")

    def __init__(self, task_name: str, function: Callable):
        self.task_name = task_name
        self.signature = signature_of(task_name, function)
        self.parameters = {
            name: ArgumentOf(task_name, parameter)
            for name, parameter in self.signature.parameters.items()
        }

    @property
    def by_position(self) -> tuple[tuple[str, ...], str | None]:
        """The names of arguments that are stored by position, and of `*args`."""
        return (), self.var_positional

    def store(
        self, args: tuple, kwargs: dict, later: dict[str, Later] | None = None
    ) -> Stored:
        """Return the checked arguments as JSON, the defaults filled in.

        `later` gets the placeholders, which are not stored. Raises InvalidArguments,
        which names every fault.
        """
        fitting = self.store_fitting(args, kwargs) if self.named_only else None
        if fitting is not None:
            return self.as_json([], fitting)
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError:
            raise InvalidArguments(
                self.task_name, dict(self.faults_of_call(args, kwargs))
            ) from None
        bound.apply_defaults()
        faults: dict[str, str] = {}
        positional: list = []
        named: dict[str, Any] = {}
        for path, parameter, value in self.spread(bound.arguments):
            try:
                check_text(path)
                if isinstance(value, Later) and later is not None:
                    parameter.check_named(value)
                    later[path] = value
                    continue
                stored = parameter.hint.store(value)
            except ValueError as error:
                faults[path] = fault_of(value, error)
                continue
            if parameter.kind is Parameter.VAR_POSITIONAL:
                positional.append(stored)
            elif path in named:
                faults[path] = "is given twice, by position and by name"
            else:
                named[path] = stored
        if faults:
            raise InvalidArguments(self.task_name, faults)
        return self.as_json(positional, named)

    def store_fitting(self, args: tuple, kwargs: dict) -> dict | None:
        """Return the JSON data of a call, or None if the call has faults."""
        if len(args) > self.places:
            return None
        named: dict[str, Any] = {}
        rest = len(kwargs)
        for place, (name, parameter) in enumerate(self.parameters.items()):
            if place < len(args):
                value = args[place]
            elif name in kwargs:
                value = kwargs[name]
                rest -= 1
            elif parameter.is_required:
                return None
            else:
                value = parameter.default
            try:
                named[name] = parameter.hint.store(value)
            except ValueError:
                return None
        return None if rest else named

    def arriving(self, stored: Stored, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
        """Return the arguments for functions that make keys: as the task gets them."""
        return self.load(stored)

    def in_key_form(self, stored: Stored) -> Stored:
        """Return stored arguments in the form that equal ones share, for keys."""
        if not self.has_several_forms:
            return stored
        arguments = self.gather(load(stored.args), load(stored.kwargs))
        for path, parameter, data in list(self.spread(arguments)):
            parameter.put(arguments, path, parameter.hint.key_form(data))
        positional = arguments.pop(self.var_positional, [])
        named = arguments | arguments.pop(self.var_keyword, {})
        return Stored(dump_checked(positional), dump_checked(named))

    def load(self, stored: Stored) -> tuple[tuple, dict]:
        """Return the positional and the named arguments to call the task with.

        Raises InvalidArguments where the row does not fit the signature.
        """
        try:
            positional, named = load(stored.args), load(stored.kwargs)
        except (ValueError, RecursionError) as error:
            raise InvalidArguments(
                self.task_name, {"arguments": f"cannot be read: {error}"}
            ) from None
        if self.named_only and not positional:
            fitting = self.load_fitting(named)
            if fitting is not None:
                return (), fitting
        arguments = self.gather(positional, named)
        faults: dict[str, str] = {}
        for path, parameter, value in list(self.spread(arguments)):
            try:
                parameter.put(arguments, path, parameter.hint.load(value))
            except ValueError as error:
                faults[path] = str(error)
        faults.update(self.gathering_faults(arguments, positional, named))
        if faults:
            raise InvalidArguments(self.task_name, faults)
        return self.call_with(arguments)

    def load_fitting(self, named: dict) -> dict | None:
        """Return the arguments if all are named and fit, or None to look closer."""
        arguments = {}
        for name, parameter in self.parameters.items():
            if name in named:
                try:
                    arguments[name] = parameter.hint.load(named[name])
                except ValueError:
                    return None
            elif parameter.is_required:
                return None
        return arguments if len(arguments) == len(named) else None

    def spread(self, arguments: dict) -> Iterator[tuple[str, "ArgumentOf", Any]]:
        """Yield (path, parameter, value), each of *args and **kwargs by itself."""
        for name, value in arguments.items():
            parameter = self.parameters[name]
            if parameter.kind is Parameter.VAR_POSITIONAL:
                for index, each in enumerate(value):
                    yield f"{name}[{index}]", parameter, each
            elif parameter.kind is Parameter.VAR_KEYWORD:
                for key, each in value.items():
                    yield key, parameter, each
            else:
                yield name, parameter, value

    def as_json(self, positional: list, named: dict) -> Stored:
        args = dump_checked(positional) if positional else "[]"
        stored = Stored(args, dump_checked(named))
        check_size(self.task_name, stored)
        return stored

    def gather(self, positional: list, named: dict) -> dict:
        """Return {parameter: value} in the signature's order, from the stored parts."""
        rest = dict(named)
        arguments: dict[str, Any] = {}
        for name, parameter in self.parameters.items():
            if parameter.kind is Parameter.VAR_POSITIONAL:
                arguments[name] = list(positional)
            elif parameter.kind is not Parameter.VAR_KEYWORD and name in rest:
                arguments[name] = rest.pop(name)
        if self.var_keyword:
            arguments[self.var_keyword] = rest
        return arguments

    def call_with(self, arguments: dict) -> tuple[tuple, dict]:
        if self.named_only:
            return (), arguments
        bound = inspect.BoundArguments(self.signature, arguments)
        bound.apply_defaults()
        return bound.args, bound.kwargs

    def faults_of_call(self, args: tuple, kwargs: dict) -> Iterator[tuple[str, str]]:
        """Yield every fault of a call that the signature refuses."""
        by_position = [p for p in self.parameters.values() if p.takes_position]
        given = {p.name: value for p, value in zip(by_position, args, strict=False)}
        for name, value in {**kwargs, **given}.items():
            try:
                if name in self.parameters and not isinstance(value, Later):
                    self.parameters[name].hint.store(value)
            except ValueError as error:
                yield name, fault_of(value, error)
        yield from self.binding_faults(args, kwargs, by_position)

    def binding_faults(self, args, kwargs, by_position) -> Iterator[tuple[str, str]]:
        if len(args) > len(by_position) and not self.var_positional:
            expected = f"takes {len(by_position)} positional, got {len(args)}"
            yield "arguments", expected
        given = {p.name for p, _ in zip(by_position, args, strict=False)}
        for name, parameter in self.parameters.items():
            by_name = name in kwargs and parameter.takes_name
            if by_name and name in given:
                yield name, "is given twice, by position and by name"
            elif parameter.is_required and not by_name and name not in given:
                yield name, "is missing"
        yield from self.unknown_faults(kwargs, lambda parameter: parameter.takes_name)

    def gathering_faults(self, arguments, positional, named):
        if positional and not self.var_positional:
            yield "args", "holds values, but the task takes none without a name"
        for name, parameter in self.parameters.items():
            if parameter.is_required and name not in arguments:
                yield name, "is missing"
        yield from self.unknown_faults(named, lambda parameter: True)

    def unknown_faults(self, names, is_known) -> Iterator[tuple[str, str]]:
        if self.var_keyword:
            return
        for name in names:
            parameter = self.parameters.get(name)
            variable = parameter and parameter.kind is Parameter.VAR_POSITIONAL
            if not parameter or variable or not is_known(parameter):
                known = [each for each in self.parameters if each not in names]
                cure = meant_argument(str(name), known)
                yield str(name), f"is no parameter of this task{cure}"

    @cached_property
    def has_several_forms(self) -> bool:
        """Whether equal arguments may be stored in several forms."""
        return any(
            parameter.hint.has_several_forms for parameter in self.parameters.values()
        )

    @cached_property
    def var_positional(self) -> str | None:
        return self.name_of(Parameter.VAR_POSITIONAL)

    @cached_property
    def var_keyword(self) -> str | None:
        return self.name_of(Parameter.VAR_KEYWORD)

    def name_of(self, kind) -> str | None:
        return next((n for n, p in self.parameters.items() if p.kind is kind), None)

    @cached_property
    def places(self) -> int:
        """How many arguments can be passed by position if all can be passed by name."""
        return sum(parameter.takes_position for parameter in self.parameters.values())

    @cached_property
    def named_only(self) -> bool:
        """Whether every argument can be passed by its name, as in most tasks."""
        kinds = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
        return all(parameter.kind in kinds for parameter in self.parameters.values())


class ArgumentOf:
    """One parameter of a task, with its hint."""

    is_encrypted = False  # a feature says so

    def __init__(self, task_name: str, parameter: Parameter):
        self.name = parameter.name
        self.kind = parameter.kind
        self.default = parameter.default
        self.hint = self.hint_of(task_name, parameter.annotation)
        self.check_default(task_name)

    @property
    def is_variable(self) -> bool:
        return self.kind in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)

    @property
    def is_required(self) -> bool:
        return self.default is Parameter.empty and not self.is_variable

    @property
    def takes_position(self) -> bool:
        by_position = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
        return self.kind in by_position

    @property
    def takes_name(self) -> bool:
        by_name = (Parameter.KEYWORD_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
        return self.kind in by_name

    def hint_of(self, task_name: str, annotation) -> AnyJson | Hint:
        if annotation is Any:
            return AnyJson()
        if self.default is None:
            annotation = Literal[None] | annotation
        try:
            return Hint(annotation)
        except ValueError as error:
            raise InvalidTask(
                f"{task_name}: the hint of parameter {self.name!r} cannot be kept as "
                f"JSON ({error}). Pass what identifies the object, such as its "
                "primary key."
            ) from error

    def check_default(self, task_name: str) -> None:
        if self.default is Parameter.empty:
            return
        try:
            self.hint.store(self.default)
        except ValueError as error:
            raise InvalidTask(
                f"{task_name}: the default of parameter {self.name!r} does not fit "
                f"its hint: {error}."
            ) from None

    def check_named(self, value: Later) -> None:
        """Raise ValueError where a value that comes later would have no name."""
        if self.kind is Parameter.VAR_POSITIONAL:
            raise ValueError(f"cannot be {value!r}: only arguments with a name can")

    def put(self, arguments: dict, path: str, value) -> None:
        """Put a converted value where `Signature.spread` found it."""
        if self.kind is Parameter.VAR_POSITIONAL:
            index = int(path.removeprefix(self.name)[1:-1])
            arguments[self.name][index] = value
        elif self.kind is Parameter.VAR_KEYWORD:
            arguments[self.name][path] = value
        else:
            arguments[self.name] = value
