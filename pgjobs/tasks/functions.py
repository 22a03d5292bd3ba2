"""Which functions can be tasks."""

import inspect
from typing import Any

from ..exceptions import InvalidTask


def check_function(function: Any) -> None:
    """Raise InvalidTask unless a worker could find and run this function."""
    if not inspect.isfunction(function):
        raise InvalidTask(f"@task takes a function defined by def, got {function!r}.")
    name = f"{function.__module__}.{function.__qualname__}"
    if function.__qualname__ != function.__name__ or function.__name__ == "<lambda>":
        raise InvalidTask(
            f"@task takes a function of a module, got {name}: a worker could not "
            "find a lambda, a method or a function inside another."
        )
    if function.__module__ == "__main__":
        raise InvalidTask(
            f"{name} stands in the main module, where a worker does not find it. "
            "Move it into a tasks module."
        )
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidTask(f"{name} is a generator: a job would never run its body.")
