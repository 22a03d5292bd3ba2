"""Results: what a task may return beside plain JSON."""

from collections.abc import Callable
from inspect import Parameter, unwrap
from typing import Any

from .hints import adapter_of, resolved


def with_lists(function: Callable, value: Any) -> Any:
    """Return a result with lists in place of its tuples, as JSON writes them.

    Raises ValueError if the function says that it returns something else.
    """
    if not may_return(function, value):
        hint = function.__annotations__["return"]
        raise ValueError(
            "it has a tuple, which does not fit the return hint "
            f"{getattr(hint, '__name__', hint)}: return a list, or correct the hint"
        )
    return listed(value)


def listed(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: listed(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [listed(each) for each in value]
    return value


def may_return(function: Callable, value: Any) -> bool:
    """Whether the function's return hint allows the value, as far as it can be told."""
    annotation = getattr(function, "__annotations__", {}).get("return", Any)
    if annotation in (Any, Parameter.empty):
        return True
    try:
        hint = resolved(annotation, getattr(unwrap(function), "__globals__", {}))
        adapter = adapter_of(hint)
    except Exception:  # noqa: BLE001  (a hint is an expression: it may raise anything)
        return True
    try:
        adapter.validate_python(value, strict=True)
    except Exception:  # noqa: BLE001  (a validator of the project may raise anything)
        return False
    return True
