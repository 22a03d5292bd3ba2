"""Backoff as it is proposed for Django: a function of the exception and the result.

See https://github.com/django/new-features/issues/142. A backoff with one parameter
takes the number of failures, as it does everywhere in pgjobs.
"""

import inspect
from collections.abc import Callable

from ...exceptions import InvalidTask
from ...tasks.backoff import MAKERS, check_wait
from ...tasks.options import check_backoff as check_callable


def check_backoff(backoff: Callable) -> None:
    """Raise InvalidTask unless it takes the failures, or an exception and a result."""
    check_callable(backoff)
    if takes_error(backoff):
        if inspect.iscoroutinefunction(backoff):
            raise InvalidTask(f"backoff cannot be a coroutine function: {backoff!r}.")
        return
    if required_parameters(backoff) != 1 and backoff not in MAKERS:
        raise InvalidTask(
            "backoff must have one required parameter, the number of failures, or two, "
            f"the exception and the task result, got {backoff!r}."
        )
    check_wait(backoff)


def takes_error(backoff: Callable) -> bool:
    """Whether a backoff takes the exception and the result."""
    return backoff not in MAKERS and required_parameters(backoff) == 2


def required_parameters(function: Callable) -> int:
    """Return how many arguments a call by position needs at least."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # written in C, it has no signature
        return 1
    return sum(
        each.default is each.empty
        and each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
        for each in parameters
    )
