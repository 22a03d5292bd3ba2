"""`perform`: one job as a worker would run it, without a row in the queue.

And `capture_jobs`: what a block enqueues, whether it is rolled back or not.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from itertools import count
from typing import Any, NamedTuple, Never, overload

from django.db import connections
from django.utils import timezone

from ... import signals
from ...conf import settings
from ...exceptions import InvalidTask
from ...models.batch import Batch
from ...models.job import Job
from ...queue.claiming import ClaimedJob
from ...queue.new_job import NewJob
from ...queue.recording import Success
from ...tasks.running_job import PublishedEvent, RunningJob
from ...tasks.task import BoundTask, Task
from ...worker.slots.execution import Execution
from ...worker.slots.surroundings import Surroundings
from ..chunks.execution import CallerCalling, MemberExecution
from ..chunks.gathering import SharedCall
from ..durable.waits import CONTINUE_AS
from ..encryption.arriving import claimed_mark
from ..encryption.sealing import RESULT, plain_kwargs
from ..events.tables import Event
from ..steps.running_job import Steps
from .execution import CallerExecution, CommitHooks, refuse_event_loop

# What became of the attempt, by the verdict of its outcome.
ENDS = {
    "RETRY": "RETRIED",
    "FAIL": "FAILED",
    "SNOOZE": "SNOOZED",
    "CANCEL": "CANCELLED",
    "SUSPEND": "WAITING",
}
# At the beginning of each line of a log. A line may have line breaks of its own.
TIME = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}(?:[+-]\d\d:\d\d)? ", re.M)
lease_tokens = count(1)


class Progress(NamedTuple):
    """What a task said by `current_job().progress(...)`."""

    done: float
    total: float | None
    message: str


@dataclass(frozen=True)
class Performed:
    """What one attempt of a job did."""

    #: SUCCESSFUL, RETRIED, SNOOZED, WAITING, SLEEPING, CONTINUED, CANCELLED or FAILED
    outcome: str
    return_value: Any  #: as read from its JSON
    reason: str  #: what the task said when it did not succeed
    delay: float | None  #: seconds until the next attempt, or of a sleep
    progress: list[Progress]  #: what it reported
    log: list[str]  #: lines that it wrote for people
    steps: dict[str, Any]  #: results by the names of the steps
    jobs: list[Job]  #: that it enqueued
    #: the arguments, as JSON has them, of the job as which it goes on
    continued_with: dict[str, Any] | None = None


@overload
def perform(
    bound: BoundTask[Any],
    *arguments: Never,
    attempt: int = ...,
    steps: dict[str, Any] | None = ...,
    event: Event | None = ...,
    batch: Batch | None = ...,
    cancel_requested: bool = ...,
) -> Performed: ...


@overload
def perform(
    bound: Task[..., Any, Any], chunk: Sequence[Any], /, *, attempt: int = ...
) -> list[Performed]: ...


def perform(
    bound: Any,
    *arguments: Any,
    attempt: int = 1,
    steps: dict[str, Any] | None = None,
    event: Event | None = None,
    batch: Batch | None = None,
    cancel_requested: bool = False,
) -> Any:
    """Run `task.bind(...)` on this thread, as the job of a worker, and say what it did.

    The arguments go through JSON, `current_job()` is there, and the result is checked.
    No row is inserted and nothing is waited for: a task that uses no database needs
    none. What the task raises is raised. But `Retry`, `Snooze`, `Cancel` and `Fail` are
    outcomes.

    - `bound`: what `task.bind(...)` returns. Or a task with `chunk`, and then a list
      with the arguments of each job of the call: dicts, or instances of their class.
    - `attempt`: its number. The job has failed once less.
    - `steps`: results of steps that an earlier attempt has done, by their names.
    - `event`, `batch`: those that the job is to have.
    - `cancel_requested`: the job was asked to stop.

    Returns what the attempt did; of a list, what it did with each job. Raises
    InvalidTask for what is not bound, and ValueError for an `attempt` that the job
    cannot have.
    """
    __tracebackhide__ = True  # pytest goes from the test's line to the task's
    refuse_event_loop("perform")
    if isinstance(bound, Task) and bound.options.chunk is not None and arguments:
        return perform_chunk(bound_all(bound, *arguments), attempt)
    refuse_unbound(bound, arguments)
    if bound.options.chunk is not None:
        return perform_chunk([bound], attempt, cancel_requested)[0]
    host = Host(bound.options.own_database)
    execution = PerformedExecution(claimed(bound.new_job, attempt), bound.task, host)
    execution.running.given(steps or {}, event, batch, cancel_requested)
    hooks = CommitHooks()
    with capture_jobs() as jobs:
        outcome = execution.run()
        hooks.run()
    if error := execution.unexpected(outcome):
        raise error
    return performed(execution, outcome, host, jobs)


def refuse_unbound(bound: Any, arguments: tuple) -> None:
    """Raise InvalidTask for anything but a bound task with all its values."""
    if arguments:
        raise InvalidTask("perform takes the arguments bound: perform(task.bind(...)).")
    if not isinstance(bound, BoundTask):
        raise InvalidTask(f"perform takes what task.bind(...) returns, got {bound!r}.")
    if bound.later is not None:
        raise InvalidTask(
            f"perform runs {bound.task.name} alone: give it the value in place of "
            f"{next(iter(bound.later.values()))!r}."
        )


def bound_all(task: Task[..., Any, Any], given: Any, *more: Any) -> list[BoundTask]:
    """Return a task with each of the arguments; raise InvalidTask for other things."""
    if more or not isinstance(given, list | tuple) or not given:
        raise InvalidTask(
            f"perform takes the arguments of the jobs of {task.name} as one list, with "
            "a dict or an instance of their class for each."
        )
    return [
        each if isinstance(each, BoundTask) else task.bind(**named_in(each))
        for each in given
    ]


def named_in(arguments: Any) -> dict[str, Any]:
    """Return the arguments of one job by their names."""
    if isinstance(arguments, Mapping):
        return dict(arguments)
    names = getattr(type(arguments), "model_fields", None)
    if names is None and is_dataclass(arguments):
        names = [field.name for field in fields(arguments) if field.init]
    if names is None:
        raise InvalidTask(f"These are no arguments of a job: {arguments!r}.")
    return {name: getattr(arguments, name) for name in names}


def perform_chunk(
    bound: Sequence[BoundTask], attempt: int, cancel_requested: bool = False
) -> list[Performed]:
    """Run one call for several jobs; return what became of each."""
    __tracebackhide__ = True
    task = bound[0].task
    host = Host(bound[0].options.own_database)
    jobs = [claimed(each.new_job, attempt) for each in bound]
    call = SharedCall(jobs, runs_alone=False)
    execution = PerformedCall(call.members[0], task, host)
    if cancel_requested:
        for place in range(len(jobs)):
            execution.tell_cancelled(place)
    hooks = CommitHooks()
    with capture_jobs() as enqueued:
        outcome = execution.run()
        hooks.run()
    if error := execution.unexpected(outcome):
        raise error
    ended = zip(execution.members, execution.each(outcome), strict=True)
    return [performed(member, each, host, enqueued) for member, each in ended]


def claimed(new_job: NewJob, attempt: int) -> ClaimedJob:
    """Return what a worker would have claimed, had the job been enqueued."""
    if not 1 <= attempt <= new_job.max_attempts:
        raise ValueError(
            f"attempt must be 1 to {new_job.max_attempts}, the max_attempts of "
            f"{new_job.task}, got {attempt!r}."
        )
    return ClaimedJob(
        id=0,
        task=new_job.task,
        args=new_job.args,
        kwargs=new_job.kwargs,
        queue_name=new_job.queue_name,
        priority=new_job.priority,
        attempt=attempt,
        failures=attempt - 1,
        max_attempts=new_job.max_attempts,
        crashes=0,
        max_crashes=new_job.max_crashes,
        timeout=new_job.timeout,
        life=1,
        lease_token=next(lease_tokens),
        enqueued_at=timezone.now(),
        is_keyed=False,
        has_dependencies=True,
        turn=0,
        results=claimed_mark(new_job.keys),
    )


def performed(
    execution: "PerformedExecution | MemberExecution",
    outcome: Any,
    host: "Host",
    jobs: list[Job],
) -> Performed:
    end, reason, delay, value = "SUCCESSFUL", "", None, None
    continued_with = None
    if isinstance(outcome, Success):
        if outcome.return_value is not None:
            value = execution.running.opened(RESULT, json.loads(outcome.return_value))
    else:
        end, reason = ENDS[outcome.verdict], outcome.reason
        if outcome.statement == CONTINUE_AS and outcome.stores is not None:
            end, continued_with = "CONTINUED", plain_kwargs(outcome.stores)
        elif outcome.stores is not None and "ways" not in outcome.stores:
            end, delay = "SLEEPING", outcome.stores.get("seconds")
        if end == "RETRIED" and execution.job.attempt == execution.job.max_attempts:
            end = "FAILED"
        if end in ("RETRIED", "SNOOZED"):
            delay = outcome.delay
    steps = {}
    if isinstance(execution, PerformedExecution):
        own = execution.running.steps
        steps = {name: own.result(name) for name in own.load()}
    return Performed(
        end, value, reason, delay, host.progress, host.log, steps, jobs, continued_with
    )


class Host(Surroundings):
    """Keeps what the job reports."""

    def __init__(self, database: str | None) -> None:
        super().__init__()
        self.database = database
        self.progress: list[Progress] = []
        self.log: list[str] = []

    def began(self, execution: Execution) -> None:
        """Do nothing: nothing else waits for that."""

    def reported(self, job: RunningJob) -> None:
        report = job.take_report() or {"log": ""}
        if "done" in report:
            said = report["done"], report["total"], report["message"]
            self.progress.append(Progress(*said))
        self.log += [line.rstrip("\n") for line in TIME.split(report["log"])[1:]]

    def still_owned(self, job: RunningJob) -> bool:
        return True


class StepsInMemory(Steps):
    """The steps of a job that has no row."""

    @property
    def is_in_transaction(self) -> bool:
        connection = connections[settings.DATABASE]  # it may be closed, and stay so
        return (
            len(connection.atomic_blocks) > self.job.outer_blocks
            and super().is_in_transaction
        )

    def mark(self, name: str, text: str | None) -> bool:
        return True


class PerformedJob(RunningJob):
    """What `current_job()` returns in a job that has no row."""

    has_row = False

    def given(
        self,
        steps: dict[str, Any],
        event: Event | None,
        batch: Batch | None,
        cancel_requested: bool,
    ) -> None:
        self.cancel_requested = cancel_requested
        self.batch = batch
        self.event = event and PublishedEvent(
            *(getattr(event, name) for name in PublishedEvent._fields)
        )
        self.steps = StepsInMemory(self)
        self.steps.results = {name: json.dumps(value) for name, value in steps.items()}


class PerformedExecution(CallerExecution):
    """An attempt that nothing claims and nothing records."""

    running: PerformedJob
    running_class = PerformedJob

    def announce(self) -> None:
        """Send no signal: there is no job to send."""

    def refuse_overtaken(self) -> None:
        """Do nothing: no other process can end the job."""


class PerformedCall(CallerCalling, CallerExecution):  # type: ignore[misc]
    """A call that nothing claims and nothing records."""

    def announce(self) -> None:
        """Send no signal: there is no job to send."""

    def announce_others(self) -> None:
        """Send no signal."""

    def keep_parts(self) -> None:
        """Store nothing: there is no row."""


@contextmanager
def capture_jobs() -> Iterator[list[Job]]:
    """Collect the jobs that Python enqueues in the block, and deliveries of events.

    They are as they were at that moment. The list also has jobs whose transaction was
    rolled back. It has no job that SQL inserted. `with` returns the list.
    """
    captured: list[Job] = []

    def note(job: Job, **named) -> None:
        captured.append(job)

    signals.job_enqueued.connect(note, sender=Job, weak=False)
    try:
        yield captured
    finally:
        signals.job_enqueued.disconnect(note, sender=Job)
