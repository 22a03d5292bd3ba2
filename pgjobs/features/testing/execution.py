"""One execution of one job on the caller's thread and on the caller's connections."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import ExitStack
from typing import TypeVar

from asgiref.sync import async_to_sync, sync_to_async
from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg.pq import TransactionStatus

from ...base.transactions import writing_only_to
from ...conf import settings
from ...exceptions import ControlFlow, InvalidStep, JobFailed, Suspended, TaskCancelled
from ...models.job import Job
from ...queue.claiming import ClaimedJob
from ...queue.recording import Outcome, Success, Unsuccessful
from ...tasks.task import Task
from ...worker.slots import atomic
from ...worker.slots.execution import (
    Execution,
    JobHost,
    announce_started,
    job_context,
)
from ...worker.slots.middleware import arun_inside, run_inside
from ..chunks.execution import CallerCalling

logger = logging.getLogger("pgjobs.testing")

T = TypeVar("T")
Ended = Success | Unsuccessful
# The verdicts of a worker on a job whose task it does not call.
CANNOT_RUN = ("FAIL", "UNKNOWN")


class CallerExecution(Execution):
    """A job that its caller waits for.

    A worker's job begins and ends with no transaction open. Here the caller may have
    one open already, as Django's TestCase has. Then the job runs in a savepoint.
    """

    def __init__(self, job: ClaimedJob, task: Task | None, host: JobHost):
        super().__init__(job, task, host, None)
        self.context = job_context(self)
        self.error: BaseException | None = None  # that ended it

    def run(self) -> Ended:
        return self.context.run(self.run_in_context)

    def run_in_context(self) -> Ended:
        return self.prepare() or in_savepoints(self.attempt)

    def attempt(self) -> Ended:
        """Run the task; return the outcome of whatever it raises."""
        __tracebackhide__ = True
        self.running.outer_blocks = len(connections[settings.DATABASE].atomic_blocks)
        try:
            self.announce()
            if self.options.bounds_life:
                self.bound()
            return self.surrounded() if self.host.middleware else self.outcome()
        except KeyboardInterrupt:
            raise  # it is for the person who runs the tests
        except BaseException as error:  # noqa: BLE001  (SystemExit is a failed job, too)
            self.error = error
            return self.ended_by(error)

    def surrounded(self) -> Ended:
        """Run the task inside of its middleware."""
        __tracebackhide__ = True
        middleware, running = self.host.middleware, self.running
        if self.task is not None and self.task.is_async:
            inside = async_to_sync(arun_inside)
            return inside(middleware, running, sync_to_async(self.outcome))
        return run_inside(middleware, running, self.outcome)

    def outcome(self) -> Ended:
        __tracebackhide__ = True
        result = self.atomic_result() if self.options.atomic else self.result()
        return Success(self.job.id, self.job.lease_token, result)

    def announce(self) -> None:
        announce_started(self.job)

    def result(self) -> str | None:
        """Call the task and return its result as JSON text."""
        __tracebackhide__ = True
        assert self.task is not None  # or prepare() would have said so
        self.host.began(self)
        function = self.task.function
        if self.task.is_async:
            function = async_to_sync(function)
        return self.stored_result(function(*self.args, **self.kwargs))

    def atomic_result(self) -> str | None:
        """Call an atomic task; what it does is rolled back unless it may complete."""
        __tracebackhide__ = True
        database = settings.DATABASE
        with transaction.atomic(database):
            with writing_only_to(database):
                result = self.result()
            atomic.refuse_broken(connections[database])
            self.refuse_overtaken()
            return result

    def refuse_overtaken(self) -> None:
        """Raise what keeps the job from succeeding: it was cancelled or ended."""
        owned = Job.objects.filter(pk=self.job.id, lease_token=self.job.lease_token)
        if not owned.running().filter(cancel_requested_at=None).exists():
            raise atomic.why_overtaken(self.job)

    def unexpected(self, outcome: Outcome) -> BaseException | None:
        """Return the error of a job that neither succeeded nor chose its end."""
        if isinstance(self.error, InvalidStep):
            return self.error
        if isinstance(self.error, ControlFlow | TaskCancelled | Suspended):
            return None
        if self.error is not None or not isinstance(outcome, Unsuccessful):
            return self.error
        if outcome.verdict not in CANNOT_RUN:
            return None
        return JobFailed(f"Job {self.job.id} ({self.job.task}): {outcome.reason}")


class CallerCall(CallerCalling, CallerExecution):  # type: ignore[misc]
    """A call of many jobs that its caller waits for."""


# Savepoints: a database error ends them, and not the caller's transaction


def in_savepoints(body: Callable[[], T]) -> T:
    """Return what the body returns, whose database errors harm no open transaction.

    The body must not raise what it wants to be kept.
    """
    with ExitStack() as stack:
        within = connections_in_transactions()
        for connection in within:
            stack.enter_context(savepoint(connection.alias))
        returned = body()
        for connection in within:
            if is_broken(connection):
                connection.set_rollback(True)
        return returned


def savepoint(alias: str) -> transaction.Atomic:
    """Return a block in which code may open durable blocks, as TestCase allows it."""
    block = transaction.atomic(using=alias)
    block._from_testcase = True
    return block


def connections_in_transactions() -> list[BaseDatabaseWrapper]:
    return [
        each for each in connections.all(initialized_only=True) if each.in_atomic_block
    ]


def is_broken(connection: BaseDatabaseWrapper) -> bool:
    """Whether the server or Django refuses any further statement."""
    if connection.needs_rollback or connection.vendor != "postgresql":
        return connection.needs_rollback
    status = connection.connection.info.transaction_status
    return status == TransactionStatus.INERROR


class CommitHooks:
    """What jobs give to `on_commit`. A test's transaction never commits.

    It calls what was given since it was made, and leaves the test's own alone.
    """

    def __init__(self) -> None:
        self.before = {
            each.alias: len(each.run_on_commit)
            for each in connections_in_transactions()
        }

    def run(self) -> None:
        for connection in connections_in_transactions():
            before = self.before.get(connection.alias, 0)
            while len(connection.run_on_commit) > before:
                _, hook, is_robust = connection.run_on_commit.pop(before)
                call(hook, is_robust)


def call(hook: Callable[[], object], is_robust: bool) -> None:
    try:
        hook()
    except Exception:
        if not is_robust:
            raise
        logger.exception("A function that a job gave to on_commit failed")


def waiting_hooks() -> int:
    """Return how many functions wait for a commit."""
    return sum(len(each.run_on_commit) for each in connections_in_transactions())


def refuse_event_loop(name: str) -> None:
    """Raise RuntimeError on a running event loop, and name what to call there."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError(
        f"{name}() was called in async code: `await a{name}(...)` there."
    )
