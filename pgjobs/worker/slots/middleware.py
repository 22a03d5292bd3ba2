"""Runs an attempt inside of its middleware."""

import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    ExitStack,
    contextmanager,
)
from typing import Any, TypeVar

from ...exceptions import Cancel, Fail, Interruption, Retry, Snooze, Suspended
from ...tasks.middleware import Middleware
from ...tasks.running_job import RunningJob
from .outcomes import class_path

logger = logging.getLogger("pgjobs.job")

R = TypeVar("R")
ON_PURPOSE = (Cancel, Fail, Retry, Snooze, Interruption, Suspended)


def run_inside(
    middleware: Sequence[Middleware], job: RunningJob, body: Callable[[], R]
) -> R:
    """Return what the body returns; raise what it or a middleware raises."""
    raised: list[BaseException] = []
    with ExitStack() as stack, collecting(raised):
        for layer in middleware:
            with naming(layer):
                stack.enter_context(plain(layer(job)))
        return body()
    raise not_swallowed(middleware, raised[0])


async def arun_inside(
    middleware: Sequence[Middleware],
    job: RunningJob,
    body: Callable[[], Awaitable[R]],
) -> R:
    """Return what the body returns; see `run_inside`."""
    raised: list[BaseException] = []
    async with AsyncExitStack() as stack:
        with collecting(raised):
            for layer in middleware:
                with naming(layer):
                    await enter(stack, layer(job))
            return await body()
    raise not_swallowed(middleware, raised[0])


async def enter(stack: AsyncExitStack, manager: Any) -> None:
    if isinstance(manager, AbstractAsyncContextManager):
        await stack.enter_async_context(manager)
    else:
        stack.enter_context(plain(manager))


def plain(manager: Any) -> AbstractContextManager[Any]:
    """Return a plain context manager; raise TypeError if it is none."""
    if isinstance(manager, AbstractContextManager):
        return manager
    if isinstance(manager, AbstractAsyncContextManager):
        raise TypeError("It is only async, and cannot surround a plain task.")
    raise TypeError(f"It must return a context manager, got {type(manager).__name__}.")


@contextmanager
def collecting(raised: list[BaseException]) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        raised.append(error)
        raise


@contextmanager
def naming(middleware: Middleware) -> Iterator[None]:
    """Log which middleware has raised an error as an attempt began."""
    try:
        yield
    except ON_PURPOSE:
        raise
    except BaseException as error:
        name = name_of(middleware)
        # Its text may quote arguments. The job's failure is logged with it, masked.
        logger.error("Middleware name=%s failed with %s", name, class_path(error))
        error.add_note(f"Raised by the middleware {name}.")
        raise


def not_swallowed(
    middleware: Sequence[Middleware], error: BaseException
) -> BaseException:
    """Return the error that ends the attempt although a middleware swallowed it.

    To call the attempt a success would lose the failure.
    """
    names = ", ".join(map(name_of, middleware))
    logger.error("One of the middleware names=%s swallowed an error", names)
    return error


def name_of(middleware: Middleware) -> str:
    """Return where a middleware is defined."""
    name = getattr(middleware, "__qualname__", type(middleware).__qualname__)
    return f"{getattr(middleware, '__module__', '')}.{name}"
