"""Checks of options that several features share. Each raises InvalidTask."""

import inspect
from collections.abc import Callable
from datetime import datetime
from typing import Any

from django.conf import settings
from django.utils.timezone import is_naive

from ..base.moments import EARLIEST, LATEST, aware
from ..exceptions import InvalidTask, non_negative_seconds
from .hints import UNRESOLVED

# Parameters that take any number of arguments.
VARIABLE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    if value not in choices:
        listed = " or ".join(map(repr, choices))
        raise InvalidTask(f"{name} must be {listed}, got {value!r}.")


def check_whole(name: str, value: Any, least: int, most: int) -> None:
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole or not least <= value <= most:
        raise InvalidTask(
            f"{name} must be a whole number between {least} and {most}, got {value!r}."
        )


def has_no_zone(moment: datetime) -> bool:
    """Whether its zone is unknown. With USE_TZ off it is that of the project."""
    return is_naive(moment) and settings.USE_TZ


def check_duration(name: str, value: Any) -> None:
    if value is None:
        return
    try:
        seconds = non_negative_seconds(name, value)
    except ValueError as error:
        raise InvalidTask(str(error)) from None
    if seconds == 0:
        raise InvalidTask(f"{name} must be more than 0 s.")


def check_moment(name: str, value: Any, expected: str = "an aware datetime") -> None:
    """Refuse what is no aware datetime; `expected` says what the option takes."""
    if not isinstance(value, datetime) or has_no_zone(value):
        raise InvalidTask(
            f"{name} must be {expected}, got {value!r}. "
            "django.utils.timezone.now() is aware."
        )
    if not EARLIEST <= aware(value) < LATEST:
        raise InvalidTask(f"{name} must lie in the years 1970 to 9998, got {value!r}.")


def check_parameter(said: str, name: str, function: Callable) -> None:
    """Refuse a name that is no parameter of the function; `said` is what names it."""
    if name not in named_parameters(function):
        raise no_parameter(said, function)


def no_parameter(said: str, function: Callable) -> InvalidTask:
    known = ", ".join(named_parameters(function)) or "none"
    return InvalidTask(
        f"{said} is no parameter of {function.__qualname__}, which has {known}."
    )


def named_parameters(function: Callable) -> list[str]:
    """Return the parameters except *args and **kwargs."""
    return [n for n, kind in parameters_of(function).items() if kind not in VARIABLE]


def takes_any_name(function: Callable) -> bool:
    """Whether the function has **kwargs, so that an argument may have any name."""
    return inspect.Parameter.VAR_KEYWORD in parameters_of(function).values()


def parameters_of(function: Callable) -> dict[str, Any]:
    """Return the kinds of a function's parameters by their names."""
    signature = inspect.signature(function, **UNRESOLVED)
    return {name: each.kind for name, each in signature.parameters.items()}


def exception_classes(name: str, value: Any) -> tuple[type[BaseException], ...]:
    classes = value if isinstance(value, tuple) else (value,)
    for each in classes:
        if not (isinstance(each, type) and issubclass(each, BaseException)):
            raise InvalidTask(
                f"{name} must be exception classes in a tuple, got {value!r}."
            )
    return classes
