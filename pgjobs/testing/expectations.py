"""What a test says of a job, and how a job differs from it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from inspect import Parameter
from typing import Any
from unittest.mock import ANY

from ..base.moments import instant
from ..base.plain_json import shortened
from ..exceptions import InvalidArguments, InvalidTask, non_negative_seconds
from ..models import Job
from ..models.job_choices import QUEUED
from ..tasks.option_checks import has_no_zone
from ..tasks.registry import registry
from ..tasks.task import Task

TOLERANCE = timedelta(minutes=1)
OPTIONS = ("queue_name", "run_after", "tolerance", "priority", "count")


@dataclass(frozen=True, kw_only=True)
class Expected:
    """A job as a test expects it; None stands for anything."""

    task: Task[Any, Any, Any] | None
    arguments: Mapping[str, Any]  # in their JSON form, by their names
    queue_name: str | None = None
    priority: int | None = None
    run_after: datetime | timedelta | None = None
    tolerance: timedelta = TOLERANCE

    def fits(self, job: Job) -> bool:
        return job.status in QUEUED and not list(self.differences(job))

    def differences(self, job: Job) -> Iterator[str]:
        """Yield, in words, what is not as expected, its status apart."""
        if self.task is not None and job.task not in self.task.names:
            yield f"task is {job.task}"
        for name, value in self.arguments.items():
            found = argument_of(job, name, self.task)
            if found != value:
                yield f"{name} is {shortened(found)}"
        if self.queue_name not in (None, job.queue_name):
            yield f"queue_name is {job.queue_name!r}"
        if self.priority not in (None, job.priority):
            yield f"priority is {job.priority}"
        if self.run_after is not None:
            yield from self.difference_of_time(job, self.run_after)

    def difference_of_time(
        self, job: Job, expected: datetime | timedelta
    ) -> Iterator[str]:
        found = instant(job.run_after or job.enqueued_at)
        if isinstance(expected, timedelta):
            expected += instant(job.enqueued_at)
        expected = instant(expected)
        if abs(found - expected) > self.tolerance:
            said = "not set" if job.run_after is None else f"{found:%F %T} UTC"
            off = "later" if found > expected else "earlier"
            yield f"run_after is {said}, {abs(found - expected)} {off}"

    def __str__(self) -> str:
        """Return the expectation in the words of the test."""
        said = [f"{name}={shortened(value)}" for name, value in self.arguments.items()]
        for name in ("queue_name", "priority", "run_after"):
            value = getattr(self, name)
            if value is not None:
                said.append(
                    f"{name}={value!s}" if name == "run_after" else f"{name}={value!r}"
                )
        name = "any task" if self.task is None else self.task.name
        return f"{name} with {', '.join(said)}" if said else name


def expected_job(
    task: Task[Any, Any, Any] | str | None,
    args: tuple,
    kwargs: Mapping[str, Any],
    arguments: Mapping[str, Any] | None,
    *,
    run_after: datetime | timedelta | None,
    tolerance: float | timedelta,
    **others: Any,
) -> Expected:
    """Check what a test says. Raises InvalidArguments, InvalidTask or ValueError."""
    __tracebackhide__ = True
    found = found_task(task)
    if arguments is None and found is not None:
        refuse_ambiguous(found, {"run_after": run_after, **others})
    if isinstance(run_after, datetime) and has_no_zone(run_after):
        raise ValueError(f"run_after must be an aware datetime, got {run_after!r}.")
    return Expected(
        task=found,
        arguments=stored_arguments(found, args, {**kwargs, **(arguments or {})}),
        run_after=run_after,
        tolerance=timedelta(seconds=non_negative_seconds("tolerance", tolerance)),
        **others,
    )


def found_task(task: Any) -> Task[Any, Any, Any] | None:
    if isinstance(task, str):
        return registry.get(task)
    if hasattr(task, "module_path"):  # a task of django.tasks
        return registry.get(f"{task.backend}:{task.module_path}")
    if task is None or (isinstance(task, Task) and task is task.original):
        return task
    if isinstance(task, Task):
        raise InvalidTask(
            f"The options that .using(...) gave to {task.name} would not be compared: "
            "pass the task itself, and queue_name=, priority= or run_after=."
        )
    raise InvalidTask(f"Pass a task, or its name, got {task!r}.")


def refuse_ambiguous(task: Task[Any, Any, Any], options: Mapping[str, Any]) -> None:
    for name, value in options.items():
        if value is not None and name in task.signature.signature.parameters:
            raise InvalidTask(
                f"{name} is an option here, and a parameter of {task.name}. Put the "
                f"arguments of the task into arguments={{{name!r}: ...}}."
            )


def stored_arguments(
    task: Task[Any, Any, Any] | None, args: tuple, kwargs: dict[str, Any]
) -> dict[str, Any]:
    """Return the arguments as the row of a job has them, by their names.

    Raises InvalidArguments for those that the task cannot have.
    """
    __tracebackhide__ = True
    if task is None:
        if args:
            raise InvalidTask("Arguments without a name belong to a task: name it.")
        return kwargs
    signature = task.signature
    try:
        bound = signature.signature.bind_partial(*args, **kwargs)
    except TypeError as error:
        if is_of_django(task):
            raise InvalidArguments(task.name, {"arguments": str(error)}) from None
        found = signature.faults_of_call(args, kwargs)
        faults = {name: fault for name, fault in found if fault != "is missing"}
        raise InvalidArguments(task.name, faults) from None
    if is_of_django(task):  # any JSON, stored as it was given
        return bound.arguments
    stored: dict[str, Any] = {}
    faults = {}
    for path, parameter, value in signature.spread(bound.arguments):
        try:
            stored[path] = value if value is ANY else parameter.hint.store(value)
        except ValueError as error:
            faults[path] = str(error)
    if faults:
        raise InvalidArguments(task.name, faults)
    return stored


MISSING = "missing"


def is_of_django(task: Task[Any, Any, Any] | None) -> bool:
    """Whether it is one of django.tasks, whose jobs keep arguments without names."""
    return hasattr(task, "declared")


def argument_of(job: Job, name: str, task: Task[Any, Any, Any] | None) -> Any:
    """Return an argument by the name that `Signature.spread` gives to it."""
    if name in job.kwargs:
        return job.kwargs[name]
    if task is not None and is_of_django(task):
        named = task.signature.signature.bind_partial(*job.args, **job.kwargs)
        return named.arguments.get(name, Parameter.empty)
    _, bracket, index = name.partition("[")
    place = int(index[:-1]) if bracket else len(job.args)
    return job.args[place] if place < len(job.args) else Parameter.empty
