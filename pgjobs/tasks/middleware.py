"""Middleware: what surrounds each attempt of a job, as a `with` block does."""

from contextlib import AbstractAsyncContextManager, AbstractContextManager
from inspect import isasyncgenfunction, unwrap
from typing import Any, Protocol

from django.core.exceptions import ImproperlyConfigured

from ..base.dotted import named_in
from ..conf import settings
from .running_job import RunningJob


class Middleware(Protocol):
    """Returns a context manager for an attempt of this job.

    A plain one surrounds attempts of plain and of async tasks. One that is only async
    surrounds those of async tasks, and fails those of plain ones.
    """

    def __call__(
        self, job: RunningJob, /
    ) -> AbstractContextManager[Any] | AbstractAsyncContextManager[Any]: ...


# What other modules add, such as `pgjobs.contrib.otel`. It surrounds the project's own.
added: list[Middleware] = []


def middleware() -> tuple[Middleware, ...]:
    """Return what surrounds each attempt, the outermost first.

    Raises ImproperlyConfigured.
    """
    return (*added, *(loaded(path) for path in settings.MIDDLEWARE))


def loaded(path: str) -> Middleware:
    """Return the middleware that a setting names; raise ImproperlyConfigured."""
    found = named_in("MIDDLEWARE", path)
    if not callable(found):
        raise ImproperlyConfigured(
            f"PGJOBS['MIDDLEWARE'] names {path!r}, which must be a function from the "
            f"running job to a context manager, and is a {type(found).__name__}."
        )
    return found


def is_only_async(found: Middleware) -> bool:
    """Whether a middleware is known to serve no plain task."""
    return isasyncgenfunction(unwrap(found))
