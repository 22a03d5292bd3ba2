"""Tasks: functions that can be enqueued, and the registry that finds them by name."""

import importlib
import inspect
import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property, partial, update_wrapper
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Literal,
    ParamSpec,
    TypedDict,
    TypeVar,
    Unpack,
    overload,
)

from asgiref.sync import sync_to_async
from django.apps import apps
from django.db import transaction
from django.utils import timezone
from django.utils.module_loading import autodiscover_modules

from ..conf import MOST_UNITS, settings
from ..exceptions import InvalidTask, UnknownTask, non_negative_seconds
from .arguments import Signature, Stored
from .backoff import Backoff, exponential
from .bound import BoundTask
from .chains import Chain, Group
from .dependencies import Dependency, Depending, Need, needs_of
from .flow_control import HoldingBack, Key, key_of_arguments
from .predecessors import AfterFailure, Links
from .recurrence import TASK_OPTIONS as WHEN
from .recurrence import Recurrence
from .unique import (
    OnConflict,
    UniqueFor,
    UniqueKey,
    Uniqueness,
    check_given,
    overridden,
)
from .write_all import WritingAll, expanded

P = ParamSpec("P")
R = TypeVar("R")
# What enqueueing returns: a job, or with on_conflict="skip" perhaps none, or with
# write_all a list of jobs.
if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault

    from ..models import Batch, Job
    from .events import Subscribed

    J = TypeVarWithDefault(
        "J", bound=Job | list[Job] | None, default=Job, covariant=True
    )
else:
    J = TypeVar("J")

LONGEST_NAME = 200
# No control characters, and no lone surrogates, which PostgreSQL cannot store.
QUEUE_NAME = re.compile(r"[^,\x00-\x1f\x7f-\x9f\ud800-\udfff]{1,200}")
TASK_NAME = re.compile(r"[^\s,\x00-\x1f\x7f-\x9f\ud800-\udfff]{1,200}")
EARLIEST = datetime(1970, 1, 1, tzinfo=timezone.get_fixed_timezone(0))
LATEST = datetime(9999, 1, 1, tzinfo=timezone.get_fixed_timezone(0))


@dataclass(frozen=True, kw_only=True)
class Options(HoldingBack, Links, Uniqueness, Depending, WritingAll):
    """What `@task(...)` and `.using(...)` say about a task's jobs."""

    queue_name: str = "default"
    priority: int = 0
    max_attempts: int = 3
    max_crashes: int = 3
    timeout: float | timedelta | None = None
    process_units: int | None = None
    cancel: Literal["interrupt", "cooperative"] = "interrupt"
    run_after: datetime | timedelta | None = None
    expires: datetime | timedelta | None = None
    backoff: Backoff = field(default_factory=exponential)
    retry_on: tuple[type[BaseException], ...] = (BaseException,)
    no_retry_on: tuple[type[BaseException], ...] = ()
    atomic: bool = False

    def __post_init__(self) -> None:
        HoldingBack.__post_init__(self)
        Links.__post_init__(self)
        Uniqueness.__post_init__(self)
        Depending.__post_init__(self)
        WritingAll.__post_init__(self)
        check_queue_name(self.queue_name)
        check_whole("priority", self.priority, -100, 100)
        check_whole("max_attempts", self.max_attempts, 1, 32_767)
        check_whole("max_crashes", self.max_crashes, 1, 32_767)
        check_timeout(self.timeout)
        if self.process_units is not None:
            check_whole("process_units", self.process_units, 1, MOST_UNITS)
        check_cancel(self.cancel)
        check_time("run_after", self.run_after)
        check_expires(self.expires, self.run_after)
        if not callable(self.backoff):
            raise InvalidTask(
                "backoff must be a callable from the number of failures to seconds, "
                f"such as exponential(), got {self.backoff!r}."
            )
        if not isinstance(self.atomic, bool):
            raise InvalidTask(f"atomic must be True or False, got {self.atomic!r}.")
        for name in ("retry_on", "no_retry_on"):
            classes = exception_classes(name, getattr(self, name))
            object.__setattr__(self, name, classes)

    @property
    def time_limit(self) -> float | None:
        """The timeout in seconds."""
        if self.timeout is None:
            return None
        return non_negative_seconds("timeout", self.timeout)

    def retries(self, error: BaseException) -> bool:
        """Whether a job that raised this error is tried again."""
        return isinstance(error, self.retry_on) and not isinstance(
            error, self.no_retry_on
        )


class KeyOptions(TypedDict, total=False):
    """For type checkers; `on_conflict` stands alone, since the result depends on it."""

    unique: bool | tuple[str, ...]
    unique_key: Key
    unique_for: UniqueFor
    lock: Key
    lock_mode: Literal["ordered", "mutex"]
    max_running: int
    limit_key: Key
    rate: str
    rate_key: Key
    burst: int
    after_failure: AfterFailure


class TaskOptions(KeyOptions, total=False):
    name: str | None
    aliases: Iterable[str]
    queue_name: str
    priority: int
    max_attempts: int
    max_crashes: int
    timeout: float | timedelta | None
    process_units: int
    cancel: Literal["interrupt", "cooperative"]
    backoff: Backoff
    retry_on: type[BaseException] | tuple[type[BaseException], ...]
    no_retry_on: type[BaseException] | tuple[type[BaseException], ...]
    atomic: bool
    dependencies: Dependency | list[Dependency]
    expires: timedelta | None
    every: timedelta
    cron: str
    timezone: str
    anchor: Literal["start", "end"]
    overlap: Literal["skip", "allow"]
    catch_up: Literal["latest", "all", "none"]
    jitter: float | timedelta
    start: datetime
    end: datetime


class JobOptions(KeyOptions, total=False):
    queue_name: str | None
    priority: int | None
    run_after: datetime | timedelta | None
    max_attempts: int | None
    max_crashes: int | None
    timeout: float | timedelta | None
    process_units: int | None
    expires: datetime | timedelta | None
    after: "Job | Batch | Iterable[Job | Batch] | None"
    batch: "Batch | None"


class Task(Generic[P, R, J]):
    """A registered function; still callable as a plain function.

    Options are never changed: `using` returns a copy.
    """

    def __init__(
        self,
        function: Callable[P, R],
        *,
        name: str | None = None,
        aliases: Iterable[str] = (),
        options: Options | None = None,
    ):
        check_function(function)
        update_wrapper(self, function, updated=())
        self.function = function
        self.given_name = check_task_name("name", name) if name is not None else None
        self.aliases = names_of(aliases)
        self.options = options or Options()
        self.recurrences: list[Recurrence] = []
        self.subscriptions: list[Subscribed] = []
        self.given_options: frozenset[str] = frozenset()
        self.options.check_placeholders(function)
        self.options.check_names(function)
        self.options.check_sources(function)
        self.options.check_write_all(function)
        self.original = self  # of the copies that `using` makes
        if self.options.atomic and self.is_async:
            raise InvalidTask(
                f"{function.__module__}.{function.__qualname__} cannot be atomic: a "
                "transaction of Django's cannot span an await. Define it by def, or "
                "use `await current_job().astep(..., atomic=True)` in it."
            )

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<Task {self.name}>"

    @cached_property
    def name(self) -> str:
        """The name in job rows: as declared, or "<app label>.<function>"."""
        if self.given_name is not None:
            return self.given_name
        module = self.function.__module__
        app = apps.get_containing_app_config(module)
        name = f"{app.label if app else module}.{self.function.__name__}"
        return check_task_name("name", name)

    @cached_property
    def signature(self) -> Signature:
        """The checked parameters; raises InvalidTask if a hint cannot work."""
        if self.original is not self:
            return self.original.signature
        signature = Signature(self.name, self.function)
        self.options.values(signature)  # raises InvalidTask
        return signature

    @property
    def origin(self) -> tuple[str, str]:
        """Where the function is defined."""
        return self.function.__module__, self.function.__qualname__

    @cached_property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.function)

    @overload
    def using(
        self, *, on_conflict: None = None, **options: Unpack[JobOptions]
    ) -> "Task[P, R, J]": ...

    @overload
    def using(
        self, *, on_conflict: Literal["skip"], **options: Unpack[JobOptions]
    ) -> "Task[P, R, Job | None]": ...

    @overload
    def using(
        self,
        *,
        on_conflict: Literal["return", "raise", "replace"],
        **options: Unpack[JobOptions],
    ) -> "Task[P, R, Job]": ...

    def using(
        self,
        *,
        queue_name: str | None = None,
        priority: int | None = None,
        run_after: datetime | timedelta | None = None,
        max_attempts: int | None = None,
        max_crashes: int | None = None,
        timeout: float | timedelta | None = None,
        process_units: int | None = None,
        expires: datetime | timedelta | None = None,
        lock: Key | None = None,
        lock_mode: str | None = None,
        max_running: int | None = None,
        limit_key: Key | None = None,
        rate: str | None = None,
        rate_key: Key | None = None,
        burst: int | None = None,
        unique: bool | tuple[str, ...] | None = None,
        unique_key: Key | None = None,
        unique_for: UniqueFor | None = None,
        on_conflict: OnConflict | None = None,
        after: "Job | Batch | Iterable[Job | Batch] | None" = None,
        after_failure: AfterFailure | None = None,
        batch: "Batch | None" = None,
    ) -> "Task[P, R, Any]":
        """Return the task with other options for the jobs enqueued through it.

        `run_after`: an aware datetime, or a timedelta from the moment of enqueueing.
        `timeout`: seconds or a timedelta that an attempt may take. `process_units`:
        what the job takes of its host. `expires`: the job is cancelled if no attempt
        has begun by then, an aware datetime, or so long after the job could run, a
        timedelta. `after`: jobs and batches, enqueued before, that are to succeed
        before the job runs; with `after_failure="run"` they are to end, whatever
        becomes of them. `batch`: the one that the job belongs to. None leaves an option
        as it is; `unique` and `unique_key` replace each other. Raises InvalidTask.
        """
        given = {
            "queue_name": queue_name,
            "priority": priority,
            "run_after": run_after,
            "max_attempts": max_attempts,
            "max_crashes": max_crashes,
            "timeout": timeout,
            "process_units": process_units,
            "expires": expires,
            "lock": lock,
            "lock_mode": lock_mode,
            "max_running": max_running,
            "limit_key": limit_key,
            "rate": rate,
            "rate_key": rate_key,
            "burst": burst,
            "unique": unique,
            "unique_key": unique_key,
            "unique_for": unique_for,
            "on_conflict": on_conflict,
            "after": after,
            "after_failure": after_failure,
            "batch": batch,
        }
        changes: dict[str, Any] = {
            name: value for name, value in given.items() if value is not None
        }
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.options = replace(self.options, **overridden(changes))
        other.options.check_placeholders(self.function)
        other.options.check_names(self.function)
        check_given(set(changes), other.options)
        return other

    def bind(self, /, *args: P.args, **kwargs: P.kwargs) -> "BoundTask[J]":
        """Return the task with checked arguments, for `enqueue_many`.

        Raises InvalidArguments.
        """
        stored = self.signature.store(args, kwargs)
        options, unique_key = self.options, None
        keys = options.link_keys
        if options.holds_back:
            keys |= options.keys(self.signature, args, kwargs, stored)
        if options.is_unique:
            unique_key = options.unique_key_of(self.signature, args, kwargs, stored)
        dependencies = self.dependencies_of(stored) if self.is_tied else None
        return BoundTask(self, stored, keys, unique_key, dependencies)

    @property
    def is_tied(self) -> bool:
        """Whether its jobs depend on others, or others on them."""
        return bool(self.options.dependencies) or self.name in registry.served

    def dependencies_of(self, stored: Stored) -> dict[str, Any]:
        """Return what a job with these arguments needs, and what it serves.

        Raises InvalidArguments; UnknownTask if it depends on a task that is not here.
        """
        arguments = json.loads(stored.kwargs)
        return {
            "needs": [
                {"key": each.key, "within": each.seconds}
                for each in self.needs_of(stored)
            ],
            "serves": [
                {
                    "key": key_of_arguments(
                        self.name, {name: arguments[name] for name in names}
                    ),
                    "for": seconds,
                }
                for names, seconds in registry.served.get(self.name, {}).items()
                if names <= arguments.keys()
            ],
        }

    def stored_anew(self, stored: Stored) -> Stored:
        """Return arguments that SQL may have inserted as `enqueue` would store them.

        Raises InvalidArguments.
        """
        args, kwargs = self.signature.load(stored)
        return self.signature.store(args, kwargs)

    def needs_of(self, stored: Stored) -> list[Need]:
        """Return what a job with these arguments depends on; see `dependencies_of`."""
        targets = [
            (each, registry.get(each.task) if isinstance(each.task, str) else each.task)
            for each in self.options.dependencies
        ]
        return needs_of(self.signature, stored, targets) if targets else []

    def keys_of(self, stored: Stored) -> dict[str, Any]:
        """Return the keys of a job with arguments that are stored.

        Raises InvalidArguments.
        """
        if not self.options.holds_back:
            return {}
        args, kwargs = self.signature.load(stored)
        return self.options.keys(self.signature, tuple(args), kwargs, stored)

    def unique_key_of(self, stored: Stored) -> UniqueKey | None:
        """Return the unique key of a job with arguments that are stored.

        Raises InvalidArguments.
        """
        if not self.options.is_unique:
            return None
        args, kwargs = self.signature.load(stored)
        return self.options.unique_key_of(self.signature, tuple(args), kwargs, stored)

    def enqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> J:
        """Insert a job in the caller's transaction and return it, saved.

        If another job holds its unique key, `on_conflict` decides what is returned.
        A parameter that `write_all` names may be ALL: then a list of jobs is returned.
        Raises InvalidArguments and AlreadyEnqueued before anything is written.
        """
        if self.options.write_all:
            each = self.bind_each(args, kwargs)
            if each is not None:
                return enqueue_batch(self, each)
        return enqueue_many([self.bind(*args, **kwargs)])[0]

    def bind_each(self, args: tuple, kwargs: dict) -> "list[BoundTask[J]] | None":
        """Return the task with the arguments of each job; None without ALL."""
        signature = self.signature
        values = self.options.values(signature)
        each = expanded(signature, values, args, kwargs)
        if each is None:
            return None
        return [self.bind(*some, **others) for some, others in each]

    async def aenqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> J:
        """Insert a job from async code; see `enqueue`."""
        # The arguments' names are the task's own: sync_to_async must not see them.
        return await sync_to_async(partial(self.enqueue, *args, **kwargs))()


@overload
def task(function: Callable[P, R], /) -> "Task[P, R, Job]": ...


@overload
def task(
    *,
    on_conflict: Literal["return", "raise", "replace"] = ...,
    **options: Unpack[TaskOptions],
) -> "Callable[[Callable[P, R]], Task[P, R, Job]]": ...


@overload
def task(
    *, on_conflict: Literal["skip"], **options: Unpack[TaskOptions]
) -> "Callable[[Callable[P, R]], Task[P, R, Job | None]]": ...


@overload
def task(
    *,
    write_all: str | Iterable[str],
    on_conflict: Literal["return", "raise", "replace"] = ...,
    **options: Unpack[TaskOptions],
) -> "Callable[[Callable[P, R]], Task[P, R, Job | list[Job]]]": ...


@overload
def task(
    *,
    write_all: str | Iterable[str],
    on_conflict: Literal["skip"],
    **options: Unpack[TaskOptions],
) -> "Callable[[Callable[P, R]], Task[P, R, Job | list[Job] | None]]": ...


def task(function=None, /, *, name=None, aliases=(), **options):
    """Make a function a task, with or without parentheses.

    `name`: default "<app label>.<function>". `aliases`: earlier names, whose jobs still
    wait. `queue_name`, `priority` (-100..100, larger runs first), `max_attempts`,
    `max_crashes` (processes that died under the job; one that would fail by the next
    runs alone in its worker), `backoff` (failures so far -> seconds), `retry_on` and
    `no_retry_on` (exception classes), `timeout` (seconds or a timedelta that an attempt
    may take), `cancel` ("cooperative": a running job that is asked to stop gets no
    exception, but looks by itself), `atomic` (what the task does in the queue's
    database, the jobs it enqueues and its success commit together), `expires` (a
    timedelta: a job that no attempt has begun so long after it could run is cancelled),
    `process_units` (of what `runjobs --units` allows the jobs of a host at the same
    time, such as megabytes, so many does one take; default 1). `every` or `cron`, with
    `timezone`, `anchor`, `overlap`, `catch_up`, `jitter`, `start` and `end`: the task
    runs again and again; see `schedule`. Raises InvalidTask.

    What holds jobs back: `lock`: two jobs of a lock never run at the same time, and
    start in the order of their ids (`lock_mode="mutex"`: in any order). `max_running`:
    so many jobs of the task, or of each `limit_key`, run at the same time. `rate`: so
    many may start, such as "100/minute", of the task or of each `rate_key`; `burst`: so
    many at once after a pause (default: the number in `rate`). A lock or key is a text
    in which "{path}" stands for the argument `path`, or a callable of the arguments,
    which may return None: no lock, or the limit or rate of the task.
    `after_failure="run"`: a job that waits for others (`.using(after=...)`, `chain`)
    runs even if one of them did not succeed; otherwise ("cancel") it is cancelled.

    `dependencies`: a `Dependency`, or a list: what must have succeeded before, and is
    enqueued if it has not lately.

    Unique jobs: `unique` (True: by all arguments; or names of parameters), or
    `unique_key` (a text in which "{path}" stands for the argument `path`, or a callable
    of the arguments; None from it: not unique). `unique_for`: the key is held while the
    job is "unfinished" (default) or "waiting" to be started, or for a period (seconds
    or a timedelta) from its enqueueing, unless it fails or is cancelled.
    `on_conflict`: if a job holds the key already, "return" it (default), "raise"
    AlreadyEnqueued, "replace" the arguments and run_after of one that has not started,
    or "skip" and return None.

    `write_all`: names of parameters with choices, which may be ALL: enqueueing then
    makes a job for each value (of several parameters, for each combination), all or
    none, as one batch, and returns them in a list.
    """
    unknown = options.keys() - TASK_OPTIONS - WHEN
    if unknown:
        raise InvalidTask(
            f"@task has no option {', '.join(sorted(map(repr, unknown)))}; "
            f"it has name, aliases, {', '.join(sorted(TASK_OPTIONS | WHEN))}."
        )
    when = {each: options.pop(each) for each in WHEN & options.keys()}
    recurrences = [Recurrence(**when)] if when else []

    if isinstance(options.get("expires"), datetime):
        raise InvalidTask(
            "expires of a task must be a timedelta; a datetime belongs to one job: "
            "use .using(expires=...)."
        )

    def register(function):
        made = Task(function, name=name, aliases=aliases, options=Options(**options))
        made.given_options = frozenset(options)
        made.recurrences += recurrences
        check_given(set(options), made.options)
        return registry.add(made)

    return register if function is None else register(function)


@overload
def enqueue(task: Task[P, R, J], /, *args: P.args, **kwargs: P.kwargs) -> J: ...


@overload
def enqueue(task: Chain, /) -> "list[Job | Batch]": ...


@overload
def enqueue(task: Group, /) -> "Batch": ...


def enqueue(task, /, *args, **kwargs):
    """Insert a job in the caller's transaction and return it, saved.

    `task`: or a chain or group; see there what is returned. Raises InvalidArguments,
    which names every fault, before anything is written. If another job holds its unique
    key, the task's `on_conflict` decides.
    """
    return checked_task(task, args, kwargs).enqueue(*args, **kwargs)


@overload
async def aenqueue(task: Task[P, R, J], /, *args: P.args, **kwargs: P.kwargs) -> J: ...


@overload
async def aenqueue(task: Chain, /) -> "list[Job | Batch]": ...


@overload
async def aenqueue(task: Group, /) -> "Batch": ...


async def aenqueue(task, /, *args, **kwargs):
    """Insert a job from async code; see `enqueue`."""
    return await checked_task(task, args, kwargs).aenqueue(*args, **kwargs)


def enqueue_many(bound_tasks: Iterable[BoundTask[J]]) -> list[J]:
    """Insert jobs in one statement, all or none; return them in the same order.

    `bound_tasks`: what `task.bind(...)` returns. Where another job holds the unique
    key, an earlier one of this call too, the task's `on_conflict` decides what stands
    in that place. Raises AlreadyEnqueued.
    """
    from ..models import Job

    bound_tasks = list(bound_tasks)
    for index, bound in enumerate(bound_tasks):
        if not isinstance(bound, BoundTask):
            raise InvalidTask(
                f"enqueue_many takes what task.bind(...) returns, got {bound!r} at "
                f"position {index}."
            )
    return Job.objects.insert(bound_tasks)


def enqueue_batch(task: Task[Any, Any, J], bound_tasks: list[BoundTask[J]]) -> Any:
    """Insert the jobs of ALL as one batch, all or none; return those that there are."""
    from ..models import Batch, Job

    with transaction.atomic(using=Job.objects.db):
        if task.options.batch is None:  # otherwise they belong to that one
            key = {"batch_id": Batch.objects.create(description=task.name).pk}
            bound_tasks = [
                replace(bound, keys=bound.keys | key) for bound in bound_tasks
            ]
        return [job for job in enqueue_many(bound_tasks) if job is not None]


class Registry:
    """The tasks that this process knows."""

    def __init__(self) -> None:
        self.tasks: dict[tuple[str, str], Task] = {}
        self.by_name: dict[str, Task] | None = None
        self.served_by_name: dict[str, dict[frozenset[str], float]] | None = None

    def add(self, task: Task) -> Task:
        """Register a task; the same function imported again replaces itself."""
        self.tasks[task.origin] = task
        self.forget_names()
        return task

    def forget_names(self) -> None:
        """Let what was derived from the tasks be derived anew."""
        self.by_name = self.served_by_name = None

    def get(self, name: str) -> Task:
        """Return the task of that name or alias; raise UnknownTask."""
        by_name = self.by_name
        if by_name is None:
            by_name = self.by_name = {
                each: task for task in self.tasks.values() for each in names(task)
            }
        try:
            return by_name[name]
        except KeyError:
            raise UnknownTask(name) from None

    @property
    def served(self) -> dict[str, dict[frozenset[str], float]]:
        """Return the tasks that others depend on.

        For each: the sets of parameters that they ask for, and for how many seconds a
        success counts at most.
        """
        if self.served_by_name is None:
            served: dict[str, dict[frozenset[str], float]] = {}
            for each in self.dependencies():
                with suppress(UnknownTask):  # of which the system check tells
                    name = self.get(each.task_name).name
                    windows = served.setdefault(name, {})
                    names = frozenset(each.arguments)
                    windows[names] = max(each.seconds, windows.get(names, 0.0))
            self.served_by_name = served
        return self.served_by_name

    def dependencies(self) -> Iterator[Dependency]:
        for task in self.tasks.values():
            yield from task.options.dependencies

    def names(self) -> list[str]:
        """Return the names and aliases of all tasks."""
        return [name for task in self.tasks.values() for name in names(task)]

    def discover(self) -> None:
        """Import the `tasks` module of every app, and PGJOBS["TASK_MODULES"]."""
        autodiscover_modules("tasks")
        for module in settings.TASK_MODULES:
            try:
                importlib.import_module(module)
            except ImportError as error:
                error.add_note(f"PGJOBS['TASK_MODULES'] names {module!r}.")
                raise

    def clashes(self) -> dict[str, list[Task]]:
        """Return the names that more than one task claims."""
        claims: dict[str, list[Task]] = {}
        for task in self.tasks.values():
            for name in names(task):
                claims.setdefault(name, []).append(task)
        return {name: tasks for name, tasks in claims.items() if len(tasks) > 1}


registry = Registry()

TASK_OPTIONS = frozenset(Options.__dataclass_fields__) - {"run_after", "after", "batch"}


def names(task: Task) -> tuple[str, ...]:
    return (task.name, *task.aliases)


def names_of(aliases) -> tuple[str, ...]:
    if isinstance(aliases, str) or not isinstance(aliases, Iterable):
        raise InvalidTask(f"aliases must be a tuple of names, got {aliases!r}.")
    return tuple(check_task_name("an alias", each) for each in aliases)


def checked_task(task: Any, args: tuple, kwargs: dict) -> Task | Chain | Group:
    if isinstance(task, Task):
        return task
    if isinstance(task, Chain | Group):
        if args or kwargs:
            raise InvalidTask(
                "A chain or group takes no arguments: its jobs have theirs."
            )
        return task
    cure = "decorate the function with @task" if callable(task) else "pass the task"
    raise InvalidTask(f"enqueue takes a task, got {task!r}: {cure}.")


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


def check_task_name(what: str, name: Any) -> str:
    if not isinstance(name, str) or not TASK_NAME.fullmatch(name):
        raise InvalidTask(
            f"{what} of a task must be 1 to {LONGEST_NAME} characters without spaces "
            f"or commas, got {name!r}."
        )
    return name


def check_queue_name(name: Any) -> None:
    if not isinstance(name, str) or not QUEUE_NAME.fullmatch(name):
        raise InvalidTask(
            "queue_name must be 1 to 200 characters without commas or control "
            f"characters, got {name!r}."
        )


def check_whole(name: str, value: Any, least: int, most: int) -> None:
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole or not least <= value <= most:
        raise InvalidTask(
            f"{name} must be a whole number between {least} and {most}, got {value!r}."
        )


def check_timeout(value: Any) -> None:
    if value is None:
        return
    try:
        seconds = non_negative_seconds("timeout", value)
    except ValueError as error:
        raise InvalidTask(str(error)) from None
    if seconds == 0:
        raise InvalidTask("timeout must be more than 0 s.")


def check_cancel(value: Any) -> None:
    if value not in ("interrupt", "cooperative"):
        raise InvalidTask(
            f"cancel must be 'interrupt' or 'cooperative', got {value!r}."
        )


def check_time(name: str, value: Any) -> None:
    if value is None:
        return
    if isinstance(value, timedelta):
        try:
            non_negative_seconds(name, value)
        except ValueError as error:
            raise InvalidTask(str(error)) from None
        return
    if not isinstance(value, datetime) or timezone.is_naive(value):
        raise InvalidTask(
            f"{name} must be an aware datetime or a timedelta, got {value!r}."
        )
    if not EARLIEST <= value < LATEST:
        raise InvalidTask(f"{name} must lie in the years 1970 to 9998, got {value!r}.")


def check_expires(value: Any, run_after: Any) -> None:
    check_time("expires", value)
    if value == timedelta(0):
        raise InvalidTask("expires must be more than 0 s.")
    if (
        isinstance(value, datetime)
        and isinstance(run_after, datetime)
        and value <= run_after
    ):
        raise InvalidTask(
            f"expires must be later than run_after, got {value!r} and {run_after!r}."
        )


def exception_classes(name: str, value: Any) -> tuple[type[BaseException], ...]:
    classes = value if isinstance(value, tuple) else (value,)
    for each in classes:
        if not (isinstance(each, type) and issubclass(each, BaseException)):
            raise InvalidTask(
                f"{name} must be exception classes in a tuple, got {value!r}."
            )
    return classes
