"""The arguments of the jobs of a chunk: the fields of the class in `Chunk[Args]`."""

import dataclasses
import inspect
from collections.abc import Callable
from functools import cache
from inspect import Parameter
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ValidationError
from typing_extensions import is_typeddict

from ...exceptions import InvalidArguments, InvalidTask
from ...tasks.arguments import Signature, Stored
from ...tasks.hints import faults_of, signature_of
from ...tasks.later import Later
from .calls import Chunk

HINT = "hint it Chunk[Args], where Args is a dataclass, a TypedDict or a pydantic model"
NAMED = Parameter.KEYWORD_ONLY


class ChunkSignature(Signature):
    """The parameters of the jobs, whose class may refuse what fits each of them."""

    def __init__(self, task_name: str, function: Callable):
        super().__init__(task_name, function)
        self.make: Callable[..., Any] = function
        self.may_refuse = has_checks(function.args_class)  # type: ignore[attr-defined]

    def store(
        self, args: tuple, kwargs: dict, later: dict[str, Later] | None = None
    ) -> Stored:
        stored = super().store(args, kwargs, later)
        if self.may_refuse and not later:
            self.made(self.load(stored)[1])
        return stored

    def made(self, kwargs: dict[str, Any]) -> Any:
        """Return the arguments of a job as its task gets them.

        Raises InvalidArguments for what their class refuses.
        """
        try:
            return self.make(**kwargs)
        except Exception as error:  # a check of the project may raise any
            raise InvalidArguments(
                self.task_name, {"arguments": fault_of(error)}
            ) from error


def fault_of(error: Exception) -> str:
    if isinstance(error, ValidationError):
        return faults_of(error)
    return str(error) or type(error).__name__


@cache
def member_of(function: Callable) -> Callable:
    """Return what makes the arguments of one job, with their names as parameters.

    Raises InvalidTask unless the function takes one parameter hinted `Chunk[Args]`.
    """
    args_class = class_of(function)

    is_dict = is_typeddict(args_class)

    def make(**kwargs: Any) -> Any:
        return kwargs if is_dict else args_class(**kwargs)

    for name in ("__module__", "__name__", "__qualname__", "__doc__"):
        setattr(make, name, getattr(function, name))
    make.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            Parameter(name, NAMED, annotation=hint, default=default)
            for name, (hint, default) in fields_of(function, args_class).items()
        ]
    )
    make.args_class = args_class  # type: ignore[attr-defined]
    return make


def parameter_of(function: Callable) -> list[str]:
    """Return the names of the arguments that `member_of` has found."""
    return list(function.__signature__.parameters)  # type: ignore[attr-defined]


def class_of(function: Callable) -> type:
    where = function.__qualname__
    found = list(signature_of(where, function).parameters.values())
    if len(found) != 1 or found[0].kind not in (
        Parameter.POSITIONAL_ONLY,
        Parameter.POSITIONAL_OR_KEYWORD,
    ):
        listed = ", ".join(each.name for each in found) or "none"
        raise InvalidTask(
            f"{where} takes a chunk, so it has one parameter, and not {listed}: {HINT}."
        )
    hint = found[0].annotation
    (args_class,) = get_args(hint) if get_origin(hint) is Chunk else (None,)
    if not is_class_of_arguments(args_class):
        raise InvalidTask(
            f"{where}: {found[0].name} takes a chunk, but its hint is "
            f"{getattr(hint, '__name__', hint)}: {HINT}."
        )
    return args_class


def is_class_of_arguments(found: Any) -> bool:
    if not isinstance(found, type):
        return False
    return (
        is_typeddict(found)
        or dataclasses.is_dataclass(found)
        or issubclass(found, BaseModel)
    )


def has_checks(args_class: type) -> bool:
    """Whether the class itself may refuse arguments that fit its fields."""
    return issubclass(args_class, BaseModel) or hasattr(args_class, "__post_init__")


def fields_of(function: Callable, args_class: type) -> dict[str, tuple[Any, Any]]:
    """Return hint and default of each field of the class; raise InvalidTask."""
    try:
        if issubclass(args_class, BaseModel):
            found = fields_of_model(args_class)
        elif is_typeddict(args_class):
            found = fields_of_dict(args_class)
        else:
            found = fields_of_dataclass(args_class)
    except Exception as error:
        raise InvalidTask(
            f"{function.__qualname__}: {args_class.__name__} has no arguments for "
            f"jobs: {error}."
        ) from error
    if not found:
        raise InvalidTask(
            f"{function.__qualname__}: {args_class.__name__} has no fields: name there "
            "what each job gets."
        )
    return found


def fields_of_dataclass(args_class: type) -> dict[str, tuple[Any, Any]]:
    hints = get_type_hints(args_class, include_extras=True)
    found = {}
    for field in dataclasses.fields(args_class):  # type: ignore[arg-type]
        if field.init:
            default: Any = Parameter.empty
            if field.default is not dataclasses.MISSING:
                default = field.default
            elif field.default_factory is not dataclasses.MISSING:
                default = steady(field.name, field.default_factory)
            found[field.name] = hints[field.name], default
    return found


def fields_of_dict(args_class: Any) -> dict[str, tuple[Any, Any]]:
    hints = get_type_hints(args_class)
    for name in args_class.__optional_keys__:
        raise ValueError(f"{name} may be missing, so say `{name}: ... | None`")
    return {name: (hint, Parameter.empty) for name, hint in hints.items()}


def fields_of_model(args_class: type[BaseModel]) -> dict[str, tuple[Any, Any]]:
    found = {}
    for name, field in args_class.model_fields.items():
        if field.alias or field.validation_alias:
            raise ValueError(f"{name} has an alias, and jobs name it {name}: drop that")
        default = Parameter.empty if field.is_required() else field.default
        if field.default_factory is not None:
            default = steady(name, field.default_factory)
        hint: Any = field.annotation
        if field.metadata:
            hint = Annotated[(hint, *field.metadata)]  # type: ignore[misc]
        found[name] = hint, default
    return found


def steady(name: str, factory: Any) -> Any:
    """Return a default that a function makes, if it is the same each time."""
    default = factory()
    if default != factory():
        raise ValueError(f"the default of {name} differs each time, so pass its value")
    return default
