"""Enqueueing: `enqueue`, `aenqueue` and `enqueue_many`."""

from collections.abc import Iterable
from typing import Any, Generic, TypeVar, overload

from asgiref.sync import sync_to_async

from ..exceptions import InvalidTask
from .destination import common_database, jobs_in
from .task import BoundTask, J, P, R, Task

T = TypeVar("T")


class Composition(Generic[T]):
    """Jobs that are bound first, and enqueued together: a chain or a group."""

    def enqueue(self) -> T:
        raise NotImplementedError

    async def aenqueue(self) -> T:
        """Insert the jobs from async code; see `enqueue`."""
        return await sync_to_async(self.enqueue)()


@overload
def enqueue(task: Task[P, R, J], /, *args: P.args, **kwargs: P.kwargs) -> J: ...


@overload
def enqueue(task: BoundTask[J], /) -> J: ...


@overload
def enqueue(task: Composition[T], /) -> T: ...


def enqueue(task, /, *args, **kwargs):
    """Insert a job in the caller's transaction and return it, saved.

    - `task`: a task, or `task.using(...)`. It may also be `task.bind(...)`, or a chain
      or a group, whose `enqueue` says what it returns.
    - `args`, `kwargs`: the arguments of the task, as in a call of its function.

    If another job holds the unique key, the task's `on_conflict` decides what is
    returned. Raises InvalidArguments, which names every fault, before anything is
    written; AlreadyEnqueued; InvalidTask for what is no task; AmbiguousDatabase if
    transactions are open in several databases; and ImproperlyConfigured where pgjobs is
    not set up.
    """
    return checked_task(task, args, kwargs).enqueue(*args, **kwargs)


@overload
async def aenqueue(task: Task[P, R, J], /, *args: P.args, **kwargs: P.kwargs) -> J: ...


@overload
async def aenqueue(task: BoundTask[J], /) -> J: ...


@overload
async def aenqueue(task: Composition[T], /) -> T: ...


async def aenqueue(task, /, *args, **kwargs):
    """Insert a job from async code; see `enqueue`."""
    return await checked_task(task, args, kwargs).aenqueue(*args, **kwargs)


def enqueue_many(bound_tasks: Iterable[BoundTask[J]]) -> list[J]:
    """Insert jobs in one statement, all or none; return them in the same order.

    `bound_tasks`: what `task.bind(...)` returns, all for one database. Another job may
    hold the unique key, also an earlier one of this call. There the list has what
    `on_conflict` returns. Raises AlreadyEnqueued, and InvalidTask for what is not
    bound.
    """
    if isinstance(bound_tasks, BoundTask):
        raise InvalidTask(f"enqueue_many takes a list of jobs, got {bound_tasks!r}.")
    bound_tasks = list(bound_tasks)
    for index, bound in enumerate(bound_tasks):
        if not isinstance(bound, BoundTask):
            raise InvalidTask(
                f"enqueue_many takes what task.bind(...) returns, got {bound!r} at "
                f"position {index}."
            )
    database = common_database(bound.options for bound in bound_tasks)
    return jobs_in(database).insert([bound.new_job for bound in bound_tasks])


def checked_task(
    task: Any, args: tuple, kwargs: dict
) -> Task | BoundTask | Composition:
    if isinstance(task, Task):
        return task
    if isinstance(task, BoundTask | Composition):
        if args or kwargs:
            raise InvalidTask(
                f"{task!r} is bound: its arguments were given to bind(...)."
                if isinstance(task, BoundTask)
                else f"A {type(task).__name__.lower()} takes no arguments: its jobs "
                "have theirs."
            )
        return task
    cure = "pass the task, then its arguments"
    if isinstance(task, str):
        cure = f"pass the task of that name, get_task({task!r})"
    elif callable(task):
        cure = "decorate the function with @task"
    raise InvalidTask(f"enqueue takes a task, got {task!r}: {cure}.")
