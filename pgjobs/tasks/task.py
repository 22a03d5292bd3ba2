"""Tasks: functions that can be enqueued."""

import inspect
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property, partial, update_wrapper
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Literal,
    ParamSpec,
    TypeVar,
    Unpack,
    overload,
)

from asgiref.sync import sync_to_async
from django.apps import apps

from ..base.plain_json import dump_checked
from ..exceptions import InvalidTask
from ..queue.new_job import NewJob
from .arguments import Signature, Stored
from .backoff import check_wait
from .destination import jobs_in
from .later import Later, check_later, job_with_later, result_of
from .lookup import unpickled
from .meant import missing_attribute
from .modules import is_late, warn_of_module
from .options import (
    DECLARING,
    Options,
    check_job_options,
    check_task_options,
)
from .registry import registry
from .task_names import check_task_name, names_of
from .unique import check_given, overridden

P = ParamSpec("P")
R = TypeVar("R")
V = TypeVar("V")  # what a job returns
# What enqueueing returns: a job, or with on_conflict="skip" perhaps none, or a list of
# jobs.
if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault

    from ..models import Job
    from ..signatures import JobOptions

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
    # Attributes of the running job that are read from the database before the function
    # is awaited: on the event loop it could not ask.
    read_before: tuple[str, ...] = ()

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
        self.declarations: dict[type, list[Any]] = defaultdict(list)
        self.given_options: frozenset[str] = frozenset()
        self.signed = self.options.signed(function)  # has the parameters of jobs
        self.options.check(self.signed)
        self.options.check_sensitive(self.signed)
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
        signature = self.options.signature(self.name, self.signed)
        self.options.definition(signature)  # raises InvalidTask
        self.options.complete(signature)
        return signature

    @property
    def origin(self) -> tuple[str, str]:
        """Where the function is defined."""
        return self.function.__module__, self.function.__qualname__

    @cached_property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.function)

    def has_dependencies(self) -> bool:
        """Return whether its jobs have the column `dependencies`.

        Tasks that are declared later may change that: ask `registry.derived`.
        """
        return self.options.has_dependencies(self)

    @overload
    def using(
        self, *, on_conflict: None = None, **options: "Unpack[JobOptions]"
    ) -> "Task[P, R, J]": ...

    @overload
    def using(
        self: "Task[P, R, Job[V] | None]",
        *,
        on_conflict: Literal["skip"],
        **options: "Unpack[JobOptions]",
    ) -> "Task[P, R, Job[V] | None]": ...

    @overload
    def using(
        self: "Task[P, R, Job[V] | None]",
        *,
        on_conflict: Literal["return", "raise", "replace"],
        **options: "Unpack[JobOptions]",
    ) -> "Task[P, R, Job[V]]": ...

    @overload
    def using(
        self,
        *,
        on_conflict: Literal["return", "raise", "replace", "skip"],
        **options: "Unpack[JobOptions]",
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
        other.options.check(self.signed)
        check_given(set(changes), other.options)
        return other

    def bind(self, /, *args: P.args, **kwargs: P.kwargs) -> "BoundTask[J]":
        """Return the task with checked arguments, for `enqueue_many`.

        `args`, `kwargs`: as in a call of the function. Raises InvalidArguments.
        """
        later: dict[str, Later] = {}
        stored = self.signature.store(args, kwargs, later)
        if self.is_late:
            warn_of_module(self)
        if later:
            check_later(self, later)
        options = self.options
        new_job = options.new_job(self.name, stored)
        if options.has_keys:
            new_job = new_job.with_columns(self.key_columns(stored, args, kwargs))
        if options.has_dependencies(self):
            dependencies = dump_checked(options.dependencies_of(self, stored))
            new_job = new_job._replace(dependencies=dependencies)
        return BoundTask(self, new_job, later or None)

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

    def normalized(self, stored: Stored) -> Stored:
        """Return arguments that SQL may have inserted as `enqueue` would store them.

        Raises InvalidArguments.
        """
        args, kwargs = self.signature.load(stored)
        return self.signature.store(args, kwargs)

    def enqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> J:
        """Insert a job in the caller's transaction and return it, saved.

        `args`, `kwargs`: as in a call of the function.

        If another job holds its unique key, `on_conflict` decides what is returned. A
        parameter that `write_all` names may be ALL. Then a list of jobs is returned.
        Raises InvalidArguments and AlreadyEnqueued before anything is written.
        """
        several: Any = self.options.enqueue_several(self, args, kwargs)
        if several is not None:
            return several
        jobs = jobs_in(self.options.own_database)
        return jobs.insert([self.bind(*args, **kwargs).new_job])[0]

    async def aenqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> J:
        """Insert a job from async code; see `enqueue`."""
        # sync_to_async has parameters whose names those of the task may have.
        return await sync_to_async(partial(self.enqueue, *args, **kwargs))()


@dataclass(slots=True, eq=False, repr=False)
class BoundTask(Generic[J]):
    """A task with the arguments of a job; `task.bind(...)` returns it.

    Nothing is inserted yet. `enqueue`, `enqueue_many`, `chain`, `group` and `perform`
    take it.
    """

    task: Task[Any, Any, J]
    made: NewJob  # without what comes later
    later: dict[str, Later] | None = None

    def __repr__(self) -> str:
        # Not the arguments: some may be sensitive, and errors show this text.
        return f"<BoundTask {self.task.name}>"

    @property
    def options(self) -> Options:
        return self.task.options

    @property
    def new_job(self) -> NewJob:
        """The job to insert. Raises InvalidTask where nothing gives its values."""
        return self.made if self.later is None else job_with_later(self)

    @property
    def result(self: "BoundTask[Job[V]]") -> V:
        """What stands for the job's result among the arguments of later jobs."""
        return result_of(self)

    def enqueue(self) -> J:
        """Insert the job in the caller's transaction and return it; see `enqueue`."""
        job: Any = jobs_in(self.options.own_database).insert([self.new_job])[0]
        if job is not None:
            job.bound = self  # by which `result` is found
        return job

    async def aenqueue(self) -> J:
        """Insert the job from async code; see `enqueue`."""
        return await sync_to_async(self.enqueue)()


def task(
    function: Callable | None = None,
    /,
    *,
    name: str | None = None,
    aliases: Iterable[str] = (),
    **options: Any,
) -> Any:
    """Make a `function` a task; see `pgjobs.task`, which has the types."""
    check_task_options(options)
    given: dict[type, dict[str, Any]] = defaultdict(dict)
    for option in DECLARING.keys() & options.keys():
        given[DECLARING[option]][option] = options.pop(option)
    declared = [make(**values) for make, values in given.items()]

    def register(function: Callable) -> Task:
        made: Task = Task(
            function, name=name, aliases=aliases, options=Options(**options)
        )
        made.given_options = frozenset(options)
        for each in declared:
            made.declarations[type(each)].append(each)
        check_given(set(options), made.options)
        return registry.add(made)

    return register if function is None else register(function)


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
