"""Tasks: functions that can be enqueued."""

import inspect
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import replace
from functools import cached_property, partial, update_wrapper
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Literal,
    NamedTuple,
    ParamSpec,
    TypeVar,
    Unpack,
    overload,
)

from asgiref.sync import sync_to_async
from django.apps import apps

from ..exceptions import InvalidTask
from ..queue.new_job import NewJob
from .arguments import Signature, Stored
from .backoff import check_wait
from .dependencies import Need, needs_of, provided_by
from .destination import jobs_in
from .functions import check_function
from .lookup import unpickled
from .modules import is_late, warn_of_module
from .options import (
    JobOptions,
    Options,
    TaskOptions,
    check_job_options,
    check_task_options,
)
from .other_queues import missing_attribute
from .recurrence import TASK_OPTIONS as RECURRENCE_OPTIONS
from .recurrence import Recurrence
from .registry import registry
from .task_names import check_task_name, names_of
from .unique import check_given, overridden
from .write_all import expanded, insert_as_batch

P = ParamSpec("P")
R = TypeVar("R")
V = TypeVar("V")  # what a job returns
# What enqueueing returns: a job, or with on_conflict="skip" perhaps none, or with
# write_all a list of jobs.
if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault

    from ..models import Job
    from .events import Subscribed
    from .making import Making, MakingSeveral, MakingSeveralSkipped, MakingSkipped

    J = TypeVarWithDefault(
        "J", bound=Job | list[Job] | None, default=Job, covariant=True
    )
else:
    J = TypeVar("J")


class Task(Generic[P, R, J]):
    """A registered function, still callable as a plain function.

    `using` never changes options. It returns a copy. A pickle has the task's name.
    """

    changes: dict[str, Any] = {}  # by `using`

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
        self.options.check(function)
        self.options.check_sensitive(function)
        check_wait(self.options.backoff)
        self.original = self  # copies that `using` makes share it
        self.is_late = is_late(function.__module__)
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

    def __reduce__(self) -> tuple:
        return unpickled, (self.name, self.function.__module__, self.changes)

    if not TYPE_CHECKING:  # or every name would be an attribute

        def __getattr__(self, name: str) -> Any:
            raise missing_attribute(self, name)

    @cached_property
    def name(self) -> str:
        """The name in job rows: as declared, or "<app label>.<function>"."""
        if self.given_name is not None:
            return self.given_name
        module = self.function.__module__
        app = apps.get_containing_app_config(module)
        name = f"{app.label if app else module}.{self.function.__name__}"
        return check_task_name("name", name)

    @property
    def names(self) -> tuple[str, ...]:
        return self.name, *self.aliases

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
        self: "Task[P, R, Job[V] | None]",
        *,
        on_conflict: Literal["skip"],
        **options: Unpack[JobOptions],
    ) -> "Task[P, R, Job[V] | None]": ...

    @overload
    def using(
        self: "Task[P, R, Job[V] | None]",
        *,
        on_conflict: Literal["return", "raise", "replace"],
        **options: Unpack[JobOptions],
    ) -> "Task[P, R, Job[V]]": ...

    @overload
    def using(
        self,
        *,
        on_conflict: Literal["return", "raise", "replace", "skip"],
        **options: Unpack[JobOptions],
    ) -> "Task[P, R, J | None]": ...

    def using(self, **options: Any) -> "Task[P, R, Any]":
        """Return the task with other options for the jobs enqueued through it.

        It takes the options of `@task` that belong to a job, and those below. None
        leaves an option unchanged.

        - `run_after`: an aware datetime, or a timedelta from the moment of enqueueing.
        - `expires`: when the job is cancelled if no attempt has begun. An aware
          datetime, or a timedelta from when the job could run.
        - `after`: jobs and batches, enqueued before, that must succeed before this job
          runs. With `after_failure="run"` it is enough that they end.
        - `batch`: the batch that the job belongs to.
        - `database`: the alias of the database whose queue the job is enqueued in.

        `unique` and `unique_key` replace each other. Raises InvalidTask for `options`
        that cannot be.
        """
        check_job_options(options)
        changes = {name: value for name, value in options.items() if value is not None}
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        changes = overridden(changes)
        other.options = replace(self.options, **changes)
        other.changes = self.changes | changes
        other.options.check(self.function)
        check_given(set(changes), other.options)
        return other

    def bind(self, /, *args: P.args, **kwargs: P.kwargs) -> "BoundTask[J]":
        """Return the task with checked arguments, for `enqueue_many`.

        `args`, `kwargs`: as in a call of the function. Raises InvalidArguments.
        """
        stored = self.signature.store(args, kwargs)
        if self.is_late:
            warn_of_module(self)
        new_job = self.options.new_job(self.name, stored)
        if self.options.has_keys:
            new_job = new_job._replace(**self.key_columns(stored, args, kwargs))
        if self.has_dependencies:
            new_job = new_job._replace(dependencies=self.dependencies_of(stored))
        return BoundTask(self, new_job)

    def key_columns(self, stored: Stored, args: tuple, kwargs: dict) -> dict[str, Any]:
        """Return the columns of a job's keys. Raises InvalidArguments."""
        options = self.options
        columns: dict[str, Any] = {}
        if options.has_callable_keys:
            args, kwargs = self.signature.arriving(stored, args, kwargs)
        stored = self.signature.in_key_form(stored)
        if options.has_flow_control:
            keys = options.flow_control_keys(self.signature, args, kwargs, stored)
            columns["keys"] = options.own_keys | keys
        if options.is_unique:
            columns |= options.unique_columns(self.signature, args, kwargs, stored)
        return columns

    @property
    def has_dependencies(self) -> bool:
        """Whether its jobs depend on others, or others on them."""
        return bool(self.options.dependencies) or self.name in registry.provided

    def dependencies_of(self, stored: Stored) -> dict[str, Any]:
        """Return what a job with these arguments needs, and what it provides.

        Raises InvalidArguments; UnknownTask if it depends on a task that is not here.
        """
        needs = self.needs_of(stored)
        return {
            "needs": [{"key": each.key, "within": each.seconds} for each in needs],
            "provides": provided_by(
                self.name,
                self.signature.in_key_form(stored),
                registry.provided.get(self.name, {}),
            ),
        }

    def normalized(self, stored: Stored) -> Stored:
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

    def enqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> J:
        """Insert a job in the caller's transaction and return it, saved.

        `args`, `kwargs`: as in a call of the function.

        If another job holds its unique key, `on_conflict` decides what is returned. A
        parameter that `write_all` names may be ALL. Then a list of jobs is returned.
        Raises InvalidArguments and AlreadyEnqueued before anything is written.
        """
        options = self.options
        database = options.own_database
        if options.write_all and (jobs := self.jobs_of_all(args, kwargs)) is not None:
            name = None if options.batch else self.name
            return insert_as_batch(jobs, database, name)
        return jobs_in(database).insert([self.bind(*args, **kwargs).new_job])[0]

    def jobs_of_all(self, args: tuple, kwargs: dict) -> list[NewJob] | None:
        """Return the jobs of a call with ALL, or None for a call without ALL."""
        values = self.options.values(self.signature)
        each = expanded(self.signature, values, args, kwargs)
        if each is None:
            return None
        return [self.bind(*some, **others).new_job for some, others in each]

    async def aenqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> J:
        """Insert a job from async code; see `enqueue`."""
        # sync_to_async has parameters whose names those of the task may have.
        return await sync_to_async(partial(self.enqueue, *args, **kwargs))()


class BoundTask(NamedTuple, Generic[J]):
    """A task with the arguments of a job; `task.bind(...)` returns it.

    Nothing is inserted yet. `enqueue_many`, `chain`, `group` and `perform` take it.
    """

    task: Task[Any, Any, J]
    new_job: NewJob

    def __repr__(self) -> str:
        # Not the arguments: some may be sensitive, and errors show this text.
        return f"<BoundTask {self.task.name}>"

    @property
    def options(self) -> Options:
        return self.task.options


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
    **options: Unpack[TaskOptions],
) -> "Making": ...


@overload
def task(
    *, on_conflict: Literal["skip"], **options: Unpack[TaskOptions]
) -> "MakingSkipped": ...


@overload
def task(
    *,
    write_all: str | Iterable[str],
    on_conflict: Literal["return", "raise", "replace"] = ...,
    **options: Unpack[TaskOptions],
) -> "MakingSeveral": ...


@overload
def task(
    *,
    write_all: str | Iterable[str],
    on_conflict: Literal["skip"],
    **options: Unpack[TaskOptions],
) -> "MakingSeveralSkipped": ...


def task(function=None, /, *, name=None, aliases=(), **options):
    """Make a `function` a task, with or without parentheses; return the task.

    Raises InvalidTask. `name` defaults to "<app label>.<function>". Rows of jobs may
    still have one of the `aliases`. `Options` says what the other `options` do:

    - where it runs, and what starts first: `database`, `queue_name`, `priority`
    - failures: `max_attempts`, `backoff`, `retry_on`, `no_retry_on`, `max_crashes`
    - an attempt: `timeout`, `cancel`, `atomic`, `keep_logs`, `sensitive`,
      `process_units`
    - waiting: `expires`, `dependencies`, `after_failure`, `lock`, `lock_mode`,
      `max_running`, `limit_key`, `rate`, `rate_key`, `burst`
    - one job instead of many: `unique`, `unique_key`, `unique_for`, `on_conflict`
    - many jobs instead of one: `write_all`
    - what follows the end: `on_success`, `on_failure`
    - recurring tasks: the options of `schedule`, such as `every` and `cron`
    """
    check_task_options(options)
    when = {each: options.pop(each) for each in RECURRENCE_OPTIONS & options.keys()}
    recurrences = [Recurrence(**when)] if when else []

    def register(function):
        made = Task(function, name=name, aliases=aliases, options=Options(**options))
        made.given_options = frozenset(options)
        made.recurrences += recurrences
        check_given(set(options), made.options)
        return registry.add(made)

    return register if function is None else register(function)
