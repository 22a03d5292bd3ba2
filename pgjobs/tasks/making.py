"""What `@task(...)` with options returns, for type checkers: a maker of tasks.

A job of an `async def` returns what its coroutine returns. Nothing imports this module
when a program runs.
"""

from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, Protocol, TypeVar, overload

from ..models import Job
from .task import Task

P = ParamSpec("P")
R = TypeVar("R")
V = TypeVar("V")


class Making(Protocol):
    """Makes a task whose `enqueue` returns a job."""

    @overload
    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, V]], /
    ) -> Task[P, Coroutine[Any, Any, V], Job[V]]: ...

    @overload
    def __call__(self, function: Callable[P, R], /) -> Task[P, R, Job[R]]: ...


class MakingSkipped(Protocol):
    """Makes a task with `on_conflict="skip"`, which may enqueue none."""

    @overload
    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, V]], /
    ) -> Task[P, Coroutine[Any, Any, V], Job[V] | None]: ...

    @overload
    def __call__(self, function: Callable[P, R], /) -> Task[P, R, Job[R] | None]: ...


class MakingSeveral(Protocol):
    """Makes a task with `write_all`, which may enqueue several."""

    @overload
    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, V]], /
    ) -> Task[P, Coroutine[Any, Any, V], Job[V] | list[Job[V]]]: ...

    @overload
    def __call__(
        self, function: Callable[P, R], /
    ) -> Task[P, R, Job[R] | list[Job[R]]]: ...


class MakingSeveralSkipped(Protocol):
    """Makes a task with both."""

    @overload
    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, V]], /
    ) -> Task[P, Coroutine[Any, Any, V], Job[V] | list[Job[V]] | None]: ...

    @overload
    def __call__(
        self, function: Callable[P, R], /
    ) -> Task[P, R, Job[R] | list[Job[R]] | None]: ...
