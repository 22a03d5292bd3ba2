"""Backoff: how long a job waits after a failure.

A backoff is any callable that takes the number of failures so far (1 after the
first) and returns seconds.
"""

import inspect
import random
from collections.abc import Callable
from datetime import timedelta

from ..exceptions import InvalidTask, non_negative_seconds

Backoff = Callable[[int], float]
Seconds = float | timedelta


def exponential(
    base: float = 2, cap: Seconds = 3600, jitter: bool | Seconds = True
) -> Backoff:
    """Return a backoff of `base ** failures` seconds, at most `cap`.

    `cap` is seconds or a timedelta. `jitter` spreads jobs that failed together. True
    adds up to 5 seconds at random, a number adds up to that many seconds, and False
    adds none. Raises InvalidTask for a duration that cannot be one.
    """
    base, longest = seconds_of("base", base), seconds_of("cap", cap)
    spread = seconds_of("jitter", 5.0 * jitter if isinstance(jitter, bool) else jitter)

    def wait(failures: int) -> float:
        try:
            delay = base**failures + random.uniform(0, spread)
        except OverflowError:
            return longest
        return min(delay, longest)

    return wait


def linear(step: Seconds = 60, cap: Seconds = 3600) -> Backoff:
    """Return a backoff of `step * failures` seconds, at most `cap`.

    Both are seconds or timedeltas. Raises InvalidTask for what is no duration.
    """
    each, longest = seconds_of("step", step), seconds_of("cap", cap)

    def wait(failures: int) -> float:
        return min(each * failures, longest)

    return wait


def constant(seconds: Seconds = 60) -> Backoff:
    """Return a backoff that is always the same: `seconds`, or a timedelta.

    0 retries at once. Raises InvalidTask for what is no duration.
    """
    always = seconds_of("seconds", seconds)

    def wait(failures: int) -> float:
        return always

    return wait


# What makes a backoff. Without parentheses it takes a number of failures, too.
MAKERS = (exponential, linear, constant)


def check_wait(backoff: Backoff) -> None:
    """Raise InvalidTask unless the backoff gives seconds for the first failure.

    What it raises itself may have its reason: it does not run in a job here.
    """
    if backoff in MAKERS:
        name = backoff.__name__
        raise InvalidTask(f"backoff={name} lacks parentheses: say {name}().")
    try:
        inspect.signature(backoff).bind(1)
    except TypeError:
        raise InvalidTask(
            f"backoff must take one argument, the number of failures, got {backoff!r}."
        ) from None
    except ValueError:  # written in C, it has no signature
        return
    try:
        wait = backoff(1)
    except (Exception, SystemExit):  # noqa: BLE001  (it may raise anything)
        return
    try:
        non_negative_seconds("backoff(1)", wait)
    except ValueError as error:
        if inspect.iscoroutine(wait):
            wait.close()
        raise InvalidTask(str(error)) from None


def seconds_of(name: str, value: Seconds) -> float:
    try:
        return non_negative_seconds(name, value)
    except ValueError as error:
        raise InvalidTask(str(error)) from None
