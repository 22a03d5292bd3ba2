"""The signature of `task`, as people and type checkers read it.

It names the options and methods of all features, which cannot be computed for a type
checker. So it stands above them. The core has of this module only what type checkers
read: what `.using` takes, and what features add to a job.
"""

from collections.abc import Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, Protocol, TypeVar, overload

from .tasks.task import task as declare

if TYPE_CHECKING:
    from typing import Unpack

    from .features.batches.options import JobOptions as BatchOptions
    from .features.batches.options import TaskOptions as AfterFailure
    from .features.chunks.calls import Chunk
    from .features.chunks.options import TaskOptions as ChunkOptions
    from .features.dependencies.options import TaskOptions as DependencyOptions
    from .features.durable.job import Answering
    from .features.durable.options import TaskOptions as DurableOptions
    from .features.durable.running_job import Waiting
    from .features.encryption.options import TaskOptions as EncryptionOptions
    from .features.encryption.running_job import Sealing
    from .features.follow_ups.options import TaskOptions as FollowUpOptions
    from .features.isolation.options import TaskOptions as TaskIsolation
    from .features.keeping.options import JobOptions as KeepingJob
    from .features.keeping.options import TaskOptions as KeepingTask
    from .features.schedules.options import TaskOptions as ScheduleOptions
    from .features.units.options import JobOptions as JobUnits
    from .features.units.options import TaskOptions as TaskUnits
    from .models import Job
    from .tasks.options import OwnJobOptions, OwnTaskOptions
    from .tasks.task import Task

    class JobOptions(
        OwnJobOptions,
        BatchOptions,
        FollowUpOptions,
        JobUnits,
        KeepingJob,
        total=False,
    ):
        """What `.using` takes."""

    class TaskOptions(
        OwnTaskOptions,
        AfterFailure,
        DependencyOptions,
        DurableOptions,
        EncryptionOptions,
        FollowUpOptions,
        KeepingTask,
        ScheduleOptions,
        TaskIsolation,
        TaskUnits,
        total=False,
    ):
        """What `@task` takes; overloads have the options that a result depends on."""

    class TaskOptionsOfChunks(TaskOptions, ChunkOptions, total=False):
        """What `@task` takes beside `chunk`."""

    class JobMethods(Answering):
        """What features add to `Job`."""

    class RunningJobMethods(Waiting, Sealing):
        """What features add to `RunningJob`."""


P = ParamSpec("P")
R = TypeVar("R")
V = TypeVar("V")


class Making(Protocol):
    """Makes a task whose `enqueue` returns a job."""

    @overload
    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, V]], /
    ) -> "Task[P, Coroutine[Any, Any, V], Job[V]]": ...

    @overload
    def __call__(self, function: Callable[P, R], /) -> "Task[P, R, Job[R]]": ...


class MakingSkipped(Protocol):
    """Makes a task with `on_conflict="skip"`, which may enqueue none."""

    @overload
    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, V]], /
    ) -> "Task[P, Coroutine[Any, Any, V], Job[V] | None]": ...

    @overload
    def __call__(self, function: Callable[P, R], /) -> "Task[P, R, Job[R] | None]": ...


class MakingSeveral(Protocol):
    """Makes a task with `write_all`, which may enqueue several."""

    @overload
    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, V]], /
    ) -> "Task[P, Coroutine[Any, Any, V], Job[V] | list[Job[V]]]": ...

    @overload
    def __call__(
        self, function: Callable[P, R], /
    ) -> "Task[P, R, Job[R] | list[Job[R]]]": ...


class MakingSeveralSkipped(Protocol):
    """Makes a task with both."""

    @overload
    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, V]], /
    ) -> "Task[P, Coroutine[Any, Any, V], Job[V] | list[Job[V]] | None]": ...

    @overload
    def __call__(
        self, function: Callable[P, R], /
    ) -> "Task[P, R, Job[R] | list[Job[R]] | None]": ...


class MakingChunks(Protocol):
    """Makes a task with `chunk`, which is called for many jobs at once.

    What `enqueue` takes are the fields of the class in `Chunk[Args]`, checked when it
    is called.
    """

    @overload
    def __call__(
        self, function: "Callable[[Chunk[Any]], Coroutine[Any, Any, list[V] | None]]", /
    ) -> "Task[..., Coroutine[Any, Any, list[V] | None], Job[V]]": ...

    @overload
    def __call__(
        self, function: "Callable[[Chunk[Any]], list[V] | None]", /
    ) -> "Task[..., list[V] | None, Job[V]]": ...


class MakingChunksSkipped(Protocol):
    """Makes one with `on_conflict="skip"`, which may enqueue none."""

    @overload
    def __call__(
        self, function: "Callable[[Chunk[Any]], Coroutine[Any, Any, list[V] | None]]", /
    ) -> "Task[..., Coroutine[Any, Any, list[V] | None], Job[V] | None]": ...

    @overload
    def __call__(
        self, function: "Callable[[Chunk[Any]], list[V] | None]", /
    ) -> "Task[..., list[V] | None, Job[V] | None]": ...


@overload
def task(
    function: Callable[P, Coroutine[Any, Any, V]], /
) -> "Task[P, Coroutine[Any, Any, V], Job[V]]": ...


@overload
def task(function: Callable[P, R], /) -> "Task[P, R, Job[R]]": ...


@overload
def task(
    *,
    on_conflict: Literal["return", "raise", "replace"] = ...,
    **options: "Unpack[TaskOptions]",
) -> "Making": ...


@overload
def task(
    *, on_conflict: Literal["skip"], **options: "Unpack[TaskOptions]"
) -> "MakingSkipped": ...


@overload
def task(
    *,
    chunk: int,
    on_conflict: Literal["return", "raise", "replace"] = ...,
    **options: "Unpack[TaskOptionsOfChunks]",
) -> "MakingChunks": ...


@overload
def task(
    *,
    chunk: int,
    on_conflict: Literal["skip"],
    **options: "Unpack[TaskOptionsOfChunks]",
) -> "MakingChunksSkipped": ...


@overload
def task(
    *,
    write_all: str | Iterable[str],
    on_conflict: Literal["return", "raise", "replace"] = ...,
    **options: "Unpack[TaskOptions]",
) -> "MakingSeveral": ...


@overload
def task(
    *,
    write_all: str | Iterable[str],
    on_conflict: Literal["skip"],
    **options: "Unpack[TaskOptions]",
) -> "MakingSeveralSkipped": ...


def task(function=None, /, *, name=None, aliases=(), **options):
    """Make a `function` a task, with or without parentheses; return the task.

    Raises InvalidTask. `name` defaults to "<app label>.<function>". Rows of jobs may
    still have one of the `aliases`. `Options` says what the other `options` do:

    - where it runs, and what starts first: `database`, `queue_name`, `priority`
    - failures: `max_attempts`, `backoff`, `retry_on`, `no_retry_on`, `max_crashes`
    - an attempt: `timeout`, `cancel`, `atomic`, `keep_logs`, `sensitive`,
      `process_units`, `isolated`, `memory_limit`
    - what only workers can read: `encrypted`, `keyed_hash`
    - waiting: `expires`, `dependencies`, `after_failure`, `lock`, `lock_mode`,
      `max_running`, `limit_key`, `rate`, `rate_key`, `burst`
    - one job instead of many: `unique`, `unique_key`, `unique_for`, `on_conflict`
    - many jobs instead of one: `write_all`
    - one call for many jobs: `chunk`, `chunk_wait`, `chunk_by`, `on_chunk_error`
    - what follows the end: `on_success`, `on_failure`, `keep`
    - tasks that wait: `waits_for`, `deadline`, `version`
    - recurring tasks: the options of `schedule`, such as `every` and `cron`
    """
    return declare(function, name=name, aliases=aliases, **options)
