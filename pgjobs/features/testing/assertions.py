"""`enqueued`, `assert_enqueued` and `refute_enqueued`: what is in the queue.

A test says what it expects of a job. A failed assertion shows the nearest jobs, and in
what they differ from that.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from inspect import Parameter
from typing import Any
from unittest.mock import ANY

from django.test.testcases import DatabaseOperationForbidden

from ...base.database_choice import queue_databases
from ...base.moments import instant
from ...base.plain_json import shortened
from ...conf import settings
from ...exceptions import InvalidArguments, InvalidTask, non_negative_seconds
from ...models.job import Job
from ...models.job_choices import QUEUED, Status
from ...tasks.option_checks import has_no_zone
from ...tasks.registry import registry
from ...tasks.task import Task
from ..encryption.stored import with_plain_arguments
from .clock import clock_ahead
from .execution import waiting_hooks

TOLERANCE = timedelta(minutes=1)
MOST_SHOWN = 5
LONGEST_ARGUMENTS = 100  # characters
AnyTask = Task[Any, Any, Any] | str | None


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
        opened = with_plain_arguments(job) if self.arguments else job
        for name, value in self.arguments.items():
            found = argument_of(opened, name, self.task)
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
    queue_name: str | None,
    run_after: datetime | timedelta | None,
    tolerance: float | timedelta,
    priority: int | None,
) -> Expected:
    """Check what a test says. Raises InvalidArguments, InvalidTask or ValueError."""
    __tracebackhide__ = True
    found = found_task(task)
    if arguments is None and found is not None:
        options = {"run_after": run_after, "queue_name": queue_name}
        refuse_ambiguous(found, {**options, "priority": priority})
    if isinstance(run_after, datetime) and has_no_zone(run_after):
        raise ValueError(f"run_after must be an aware datetime, got {run_after!r}.")
    return Expected(
        task=found,
        arguments=stored_arguments(found, args, {**kwargs, **(arguments or {})}),
        run_after=run_after,
        tolerance=timedelta(seconds=non_negative_seconds("tolerance", tolerance)),
        queue_name=queue_name,
        priority=priority,
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


def missing_text(expected: Expected, fitting: Sequence[Job], count: int | None) -> str:
    """Return why `assert_enqueued` fails."""
    jobs = seen_jobs()
    names = () if expected.task is None else expected.task.names
    own = [job for job in jobs if not names or job.task in names]
    if fitting:
        head = (
            f"{len(fitting)} jobs in the queue, and not {count}, are like {expected}:"
        )
        return text_of(head, [f"  {described(job)}" for job in fitting[:MOST_SHOWN]])
    if not own:
        others = Counter(job.task for job in jobs if job.status in QUEUED)
        return text_of(f"No job of {expected} was enqueued.", [others_text(others)])
    wanted = "No job" if count is None else f"Not one of {count} jobs"
    head = f"{wanted} in the queue is like {expected}."
    near = sorted(own, key=lambda job: len(faults(expected, job)))[:MOST_SHOWN]
    shown = f"The nearest of {len(own)}:" if len(own) > len(near) else "There are:"
    return text_of(head, [shown, *(compared(expected, job) for job in near)])


def unwanted_text(expected: Expected, fitting: Sequence[Job]) -> str:
    """Return why `refute_enqueued` fails."""
    head = f"The queue has what it should not have, {expected}:"
    lines = [f"  {described(job)}" for job in fitting[:MOST_SHOWN]]
    if len(fitting) > MOST_SHOWN:
        lines.append(f"  and {len(fitting) - MOST_SHOWN} more")
    return "\n".join([head, *lines])


def faults(expected: Expected, job: Job) -> list[str]:
    found = list(expected.differences(job))
    if job.status not in QUEUED:
        found.append(f"it is {job.status}, and so no longer in the queue")
    return found


def compared(expected: Expected, job: Job) -> str:
    return f"  {described(job)}\n      {'; '.join(faults(expected, job))}"


def described(job: Job) -> str:
    arguments = [repr(each) for each in job.args]
    arguments += [f"{name}={value!r}" for name, value in job.kwargs.items()]
    text = ", ".join(arguments)
    if len(text) > LONGEST_ARGUMENTS:
        text = text[:LONGEST_ARGUMENTS] + "..."
    return f"#{job.pk} {job.status} {job.task}({text})"


def others_text(others: Counter[str]) -> str:
    if not others:
        return "The queue is empty."
    listed = ", ".join(f"{number} of {task}" for task, number in others.most_common(10))
    return f"The queue has {listed}."


def text_of(head: str, lines: Sequence[str]) -> str:
    return "\n".join([head, *lines, *hints()])


def hints() -> list[str]:
    """Return what may have caused the difference."""
    found = []
    if number := waiting_hooks():
        found.append(
            f"{number} function(s) given to transaction.on_commit have not been "
            "called, because a TestCase never commits: see "
            "TestCase.captureOnCommitCallbacks(execute=True)."
        )
    if settings.MODE == "inline":
        found.append(
            'In the mode "inline" jobs run at once and leave the queue: use '
            "capture_jobs() to see what was enqueued."
        )
    if difference := clock_ahead(settings.DATABASE):
        found.append(
            f"Python's clock is {abs(difference)} "
            f"{'ahead of' if difference.days >= 0 else 'behind'} the database's, by "
            "which timedeltas are added to the present."
        )
    return found


# The jobs that a test can see: those of all databases that it may use


def seen_jobs(statuses: Collection[Any] = tuple(Status)) -> list[Job]:
    """Return the jobs with one of the statuses, by database and by id."""
    return [job for alias in queue_databases() for job in jobs_in(alias, statuses)]


def jobs_in(alias: str, statuses: Collection[Any]) -> list[Job]:
    jobs = Job.objects.using(alias).filter(status__in=statuses).order_by("pk")
    try:
        return list(jobs)
    except DatabaseOperationForbidden:  # so this test enqueues nothing there, either
        return []


def enqueued(
    task: AnyTask = None,
    /,
    *args: Any,
    queue_name: str | None = None,
    run_after: datetime | timedelta | None = None,
    tolerance: float | timedelta = TOLERANCE,
    priority: int | None = None,
    arguments: Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> list[Job]:
    """Return the jobs in the queue that are like this, in the order of their ids.

    In the queue are jobs that are READY, SCHEDULED or WAITING. A project with queues in
    several databases has the jobs of all of them here.

    - `task`: or its name; by default any. Of its arguments name those that matter, in
      `arguments` if they are called like an option here. `unittest.mock.ANY` fits all.
    - `args`, `kwargs`: the same, as in the call of `enqueue`.
    - `queue_name`, `priority`: by default any.
    - `run_after`: a moment, or a timedelta from when the job was enqueued. The job's
      may differ from it by `tolerance`, in seconds or as a timedelta.

    Raises InvalidArguments for arguments that the task cannot have, InvalidTask for an
    unknown task, and ValueError for a `run_after` that is no moment.
    """
    expected = expected_job(
        task, args, kwargs, arguments, queue_name, run_after, tolerance, priority
    )
    return fitting(expected)


def assert_enqueued(
    task: AnyTask = None,
    /,
    *args: Any,
    queue_name: str | None = None,
    run_after: datetime | timedelta | None = None,
    tolerance: float | timedelta = TOLERANCE,
    priority: int | None = None,
    count: int | None = None,
    arguments: Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> Job:
    """Raise AssertionError unless the queue has a job like this; return the first one.

    `count`: the exact number of such jobs. See `enqueued` for the rest. Raises
    ValueError for a `count` below 1.
    """
    __tracebackhide__ = True  # pytest shows the line of the test
    if count is not None and count < 1:
        raise ValueError(f"count must be at least 1, got {count!r}: refute_enqueued().")
    expected = expected_job(
        task, args, kwargs, arguments, queue_name, run_after, tolerance, priority
    )
    jobs = fitting(expected)
    if not jobs or count not in (None, len(jobs)):
        raise AssertionError(missing_text(expected, jobs, count))
    return jobs[0]


def refute_enqueued(
    task: AnyTask = None,
    /,
    *args: Any,
    queue_name: str | None = None,
    run_after: datetime | timedelta | None = None,
    tolerance: float | timedelta = TOLERANCE,
    priority: int | None = None,
    arguments: Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> None:
    """Raise AssertionError if the queue has a job like this.

    Without arguments, any job is one too many. See `enqueued` for what is compared.
    """
    __tracebackhide__ = True
    expected = expected_job(
        task, args, kwargs, arguments, queue_name, run_after, tolerance, priority
    )
    if jobs := fitting(expected):
        raise AssertionError(unwanted_text(expected, jobs))


def fitting(expected: Expected) -> list[Job]:
    return [job for job in seen_jobs(QUEUED) if expected.fits(job)]
