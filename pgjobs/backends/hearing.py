"""Whether anything hears Django's signals. To send one takes longer than to ask."""

import logging
from collections.abc import Callable, Iterator

from django.conf import settings as django_settings
from django.dispatch import Signal
from django.utils.log import RequireDebugTrue

from .compat import logger


def only_logs(signal: Signal, logs: Callable) -> bool:
    """Whether Django's own receiver is the only one. It sends no query."""
    return all(key[0] == id(logs) for key, *_ in signal.receivers)


def is_heard(signal: Signal, logs: Callable, level: int) -> bool:
    """Whether a receiver does more than write a log that goes nowhere."""
    return is_logged(level) or not only_logs(signal, logs)


def is_logged(level: int) -> bool:
    """Whether a handler takes what Django logs about tasks at this level."""
    if not logger.isEnabledFor(level):
        return False
    found = list(handlers())
    if not found and logging.lastResort:
        found.append(logging.lastResort)
    return any(takes(handler, level) for handler in found)


def handlers() -> Iterator[logging.Handler]:
    each: logging.Logger | None = logger
    while each is not None:
        yield from each.handlers
        each = each.parent if each.propagate else None


def takes(handler: logging.Handler, level: int) -> bool:
    if level < handler.level or isinstance(handler, logging.NullHandler):
        return False
    # Of Django's default logging: without DEBUG, the console shows nothing of it.
    return django_settings.DEBUG or not any(
        isinstance(each, RequireDebugTrue) for each in handler.filters
    )
