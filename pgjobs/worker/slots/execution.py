"""One execution of one job: everything that can happen becomes an outcome."""

import asyncio
import logging
import threading
import traceback
from collections.abc import Iterable, Iterator, Sequence
from contextvars import Context
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol

from asgiref.sync import SyncToAsync, ThreadSensitiveContext, sync_to_async

from ... import signals
from ...base.plain_json import HasTuple, result_text
from ...conf import database_of_context
from ...exceptions import (
    Fail,
    Interruption,
    InvalidArguments,
    InvalidStep,
    InvalidTask,
    Suspended,
    TaskCancelled,
    TaskTimeout,
    UnknownTask,
)
from ...features import modules
from ...models.job import Job
from ...queue.claiming import ClaimedJob
from ...queue.meta import loaded, restore
from ...queue.recording import Outcome, Success, Unsuccessful
from ...reports.secrets import Hiding
from ...tasks.arguments import Stored
from ...tasks.hints import with_lists
from ...tasks.middleware import Middleware
from ...tasks.options import Options
from ...tasks.registry import registry
from ...tasks.running_job import ReportHost, RunningJob, current
from ...tasks.sensitive import named_arguments
from ...tasks.task import Task
from ..job_log import log
from . import atomic, kept_logs
from .cleaning import clean_connections
from .interruption import (
    CoroutineStopper,
    NoSecondWorker,
    Stopper,
    ThreadStopper,
    run_stoppable,
)
from .middleware import arun_inside, run_inside
from .outcomes import coroutine_stack, describe, outcome_of, thread_stack, unsuccessful
from .threads import BorrowedThread

if TYPE_CHECKING:
    from .event_loop import EventLoop

FIRST = (Interruption, InvalidStep)  # they end a job that was about to wait
ENDS = ("FAIL", "CANCEL")  # verdicts that end the life of a job
DEADLINE_IS_OVER = "The deadline of the job is over."
UNKNOWN_TASK_DELAY = 10.0  # seconds until a worker looks again whether it knows it


class JobHost(ReportHost, Protocol):
    """The executor, as an execution sees it."""

    middleware: Sequence[Middleware]
    hands_on_meta: bool  # to the jobs that jobs enqueue
    keeps_level: int | None  # of log records, if the task says nothing

    @property
    def database(self) -> str | None: ...  # None leaves it to the settings

    def began(self, execution: "Execution") -> None: ...


class Execution:
    """A claimed job in a slot."""

    stopper: Stopper
    running_class = RunningJob
    begun_at: float | None = None  # monotonic time; None until a thread has it
    ends_life = False  # the time limit is that of the whole job

    def __init__(
        self,
        job: ClaimedJob,
        task: Task | None,
        host: JobHost,
        default_limit: float | None,
    ):
        self.job = job
        self.task = task
        self.host = host
        self.options = task.options if task else Options()
        self.asks_features = job.results is not None or self.options.prepares
        # A row that SQL has inserted leaves the time limit to the task.
        self.limit = job.timeout or self.options.time_limit or default_limit
        self.running = self.running_class(
            id=job.id,
            task_name=job.task,
            queue_name=job.queue_name,
            attempt=job.attempt,
            max_attempts=job.max_attempts,
            life=job.life,
            lease_token=job.lease_token,
            enqueued_at=job.enqueued_at,
            host=host,
            meta=loaded(job.meta) if job.meta else None,
            resumed=job.resumed,
        )
        # A method of this object would make a cycle for the garbage collector.
        self.hide = self.running.hide = Hiding(
            self.options.sensitive,
            job.kwargs,
            partial(named_arguments, job.task, job.args),
            job.meta,
        )
        self.running.keeps_level = self.options.keeps_level or host.keeps_level
        if self.running.keeps_level is not None:
            kept_logs.handler.install()

    # From outside, on any thread

    def cancel(self) -> None:
        """Tell the job to stop, in the way that its task has chosen."""
        if not self.running.cancel_requested:
            self.running.cancel_requested = True
            if self.options.cancel == "interrupt":
                self.stop(TaskCancelled)

    def stop(self, cause: type[Interruption]) -> None:
        self.stopper.stop(cause)

    @property
    def thread(self) -> threading.Thread | None:
        """The thread on which the job runs at the moment."""
        raise NotImplementedError

    def where(self) -> str:
        """Return the present stack of the job's code."""
        raise NotImplementedError

    def each(self, outcome: Outcome) -> Iterable[Outcome]:
        """Return what becomes of each job of the call; usually it is one."""
        return (outcome,)

    def given_up(self) -> Unsuccessful:
        """Return the outcome of an attempt that did not end in time."""
        outcome = self.ended_by(TaskTimeout())
        where = f"It did not stop, and was here:\n{self.where()}"
        return outcome._replace(traceback=f"{where}\n{outcome.traceback}")

    # What all executions have in common

    def prepare(self) -> Unsuccessful | None:
        """Decode the arguments; return an outcome if the job cannot run."""
        if self.task is None:
            reason = str(UnknownTask(self.job.task))
            unknown = unsuccessful(
                self.job, "UNKNOWN", reason, delay=UNKNOWN_TASK_DELAY
            )
            return unknown._replace(has_begun=False)
        if self.asks_features and (unfit := self.fill_in()):
            return unfit
        try:
            stored = Stored(self.job.args, self.job.kwargs)
            self.args, self.kwargs = self.task.signature.load(stored)
            depends = registry.derived(self.task.has_dependencies)
            if depends and not self.job.has_dependencies:
                return self.attach(self.task)
        except (InvalidArguments, InvalidTask, UnknownTask) as error:
            return unsuccessful(self.job, "FAIL", str(error), error, hide=self.hide)
        return None

    def fill_in(self) -> Unsuccessful | None:
        """Complete the arguments by what jobs before have returned, and open them."""
        outcomes = (module.fill_in(self) for module in modules("arriving"))
        return next(filter(None, outcomes), None)

    def attach(self, task: Task) -> Unsuccessful:
        """Return a job that SQL inserted to the queue with its dependencies.

        Then the database makes it wait for them, and lets other jobs need it.
        """
        stored = task.normalized(Stored(self.job.args, self.job.kwargs))
        reason = "Released: the database did not know what it depends on."
        return unsuccessful(self.job, "RELEASE", reason)._replace(
            has_begun=False, dependencies=task.options.dependencies_of(task, stored)
        )

    def bound(self) -> None:
        """Let the attempt end with the life of the job, which a feature bounds."""
        left = self.running.seconds_left
        if left is not None and (self.limit is None or left < self.limit):
            self.limit, self.ends_life = left, True
            if left <= 0:
                raise TaskTimeout

    def stored_result(self, value: Any) -> str | None:
        """Return a task's result as JSON text; raise what suspended the job."""
        if suspended := self.running.suspended:
            self.running.log(swallowing(suspended))
            raise suspended
        if "steps" in vars(self.running):  # asked here, to spare most jobs a call
            self.running.ends()
        text = json_result(value, self.task)
        is_kept = "seal" in vars(self.running)  # asked here, too
        return self.options.kept(self.running, text) if is_kept else text

    def ended_by(self, error: BaseException) -> Unsuccessful:
        if (suspended := self.running.suspended) and not isinstance(error, FIRST):
            if error is not suspended:
                self.running.log(swallowing(suspended))
            error = suspended
        outcome = self.outcome_of(error)
        is_last = self.job.failures + 1 >= self.job.max_attempts
        if outcome.verdict in ENDS or (outcome.verdict == "RETRY" and is_last):
            self.running.ends()
        return outcome

    def outcome_of(self, error: BaseException) -> Unsuccessful:
        if isinstance(error, TaskTimeout) and self.ends_life:
            return unsuccessful(
                self.job, "FAIL", DEADLINE_IS_OVER, error, hide=self.hide
            )
        if isinstance(error, TaskTimeout) and self.limit is not None:
            error.args = (f"The attempt took longer than {self.limit:g} s.",)
        return outcome_of(self.job, self.options, error, self.hide)

    def broken_by(self, error: BaseException) -> Unsuccessful:
        reason = describe(error)
        return unsuccessful(self.job, "FAIL", reason, error, hide=self.hide)


class ThreadExecution(Execution):
    """A job whose task is a plain function."""

    def __init__(self, *common) -> None:
        super().__init__(*common)
        self.stopper: ThreadStopper = ThreadStopper()
        self.own_thread: threading.Thread | None = None

    @property
    def thread(self) -> threading.Thread | None:
        return self.own_thread

    def where(self) -> str:
        return thread_stack(self.own_thread)

    def run(self) -> Outcome:
        """Run the job on this thread; never raises."""
        self.own_thread = threading.current_thread()
        self.begun_at = monotonic()
        return job_context(self).run(self.run_in_context)

    def run_in_context(self) -> Outcome:
        try:
            return self.prepare() or self.attempt()
        except BaseException as error:  # noqa: BLE001  (no outcome would block a slot)
            return self.broken_by(error)
        finally:
            clean_connections()

    def attempt(self) -> Outcome:
        try:
            announce_started(self.job)
            if self.options.bounds_life:
                self.bound()
            if middleware := self.host.middleware:
                self.host.began(self)  # a middleware may hang, too
                return run_inside(middleware, self.running, self.outcome)
            return self.outcome()
        except BaseException as error:  # noqa: BLE001  (SystemExit is a failed job, too)
            return self.ended_by(error)

    def outcome(self) -> Outcome:
        if self.options.atomic:
            return atomic.run(self.job, self.result, self.hide)
        return Success(self.job.id, self.job.lease_token, self.result())

    def result(self) -> str | None:
        """Call the task, which alone can be interrupted; return its result as JSON."""
        assert self.task is not None  # prepare() returns an outcome otherwise
        self.host.began(self)
        body = partial(self.task.function, *self.args, **self.kwargs)
        return self.stored_result(run_stoppable(self.stopper, body))


class CoroutineExecution(Execution):
    """A job whose task is a coroutine function; it runs on the event loop."""

    def __init__(
        self,
        job: ClaimedJob,
        task: Task,
        host: JobHost,
        default_limit: float | None,
        event_loop: "EventLoop",
        borrowed: BorrowedThread,
    ):
        super().__init__(job, task, host, default_limit)
        self.event_loop = event_loop
        self.stopper: CoroutineStopper = CoroutineStopper(event_loop.loop)
        self.borrowed = borrowed  # for its synchronous code

    @property
    def thread(self) -> threading.Thread | None:
        return self.borrowed.thread

    @property
    def is_blocking(self) -> bool:
        """Whether this job has kept the event loop from turning for some time."""
        return self.event_loop.observer.blocking is self

    def where(self) -> str:
        task = self.stopper.task
        waiting = coroutine_stack(task.get_coro()) if task else ""
        return waiting or thread_stack(self.event_loop.thread)  # the job runs right now

    def stop(self, cause: type[Interruption]) -> None:
        super().stop(cause)
        self.borrowed.stop(cause)

    async def run(self) -> Outcome:
        """Run the job as a task of the event loop; never raises."""
        self.begun_at = monotonic()
        try:
            async with ThreadSensitiveContext() as context:
                # Without it asgiref would start a thread for each job.
                SyncToAsync.context_to_thread_executor[context] = self.borrowed
                if self.asks_features:  # on a thread: they ask the database
                    unable = await sync_to_async(self.prepare)()
                else:
                    unable = self.prepare()
                return unable or await self.attempt()
        except BaseException as error:  # noqa: BLE001  (no outcome would block a slot)
            return self.broken_by(error)

    async def attempt(self) -> Outcome:
        try:
            if signals.job_started.has_listeners(Job):
                await sync_to_async(announce_started)(self.job)
            else:
                log(logging.DEBUG, self.job, "started")
            for name in self.read_before():
                await sync_to_async(getattr)(self.running, name)
            if self.options.bounds_life:
                self.bound()
            if middleware := self.host.middleware:
                self.host.began(self)  # a middleware may hang, too
                return await arun_inside(middleware, self.running, self.outcome)
            return await self.outcome()
        except BaseException as error:  # noqa: BLE001  (SystemExit is a failed job, too)
            return self.ended_by(error)

    def read_before(self) -> Iterator[str]:
        """Yield attributes of the running job for which the event loop cannot ask."""
        if self.task is not None:
            yield from self.task.read_before
            yield from self.options.read_before()
        if self.job.life > 1:
            yield "key"

    async def outcome(self) -> Outcome:
        self.host.began(self)
        result = self.stored_result(await self.call())
        return Success(self.job.id, self.job.lease_token, result)

    async def call(self):
        """Await the task. It can be cancelled only inside of this function."""
        assert self.task is not None
        self.stopper.open()
        try:
            with NoSecondWorker():
                return await self.task.function(*self.args, **self.kwargs)
        except asyncio.CancelledError as error:
            if self.stopper.cause is None:
                raise
            raise self.stopper.cause from error
        finally:
            self.stopper.close()


def swallowing(suspended: Suspended) -> str:
    """Return which line swallowed what suspends a job, for the job's log."""
    frames = traceback.extract_tb(suspended.__traceback__)
    where = next((frame for frame in frames if frame.filename != __file__), None)
    place = f" at {where.filename}:{where.lineno}" if where else ""
    return f"{type(suspended).__name__} was swallowed{place}: let it through."


def json_result(value, task: Task | None) -> str | None:
    """Return a task's result as JSON text; raise Fail if it cannot be stored."""
    try:
        try:
            return result_text(value)
        except HasTuple:
            assert task is not None
            return result_text(with_lists(task.function, value))
    except BaseException as error:  # a result's own methods run here
        why = str(error) if isinstance(error, ValueError) else describe(error)
        raise Fail(f"The result cannot be stored: {why}.") from error


def job_context(execution: Execution) -> Context:
    """Return a context for one job.

    A language or time zone that the job activates ends with the context.
    """
    context = Context()
    running = execution.running
    context.run(current.set, running)
    if execution.host.database:  # what the job enqueues stays there
        context.run(database_of_context.set, execution.host.database)
    if running.meta or execution.host.hands_on_meta:
        restore(context, running.id, running.meta)
    return context


def announce_started(job: ClaimedJob) -> None:
    log(logging.DEBUG, job, "started")
    if signals.job_started.has_listeners(Job):
        instance = Job.objects.filter(pk=job.id).first()
        if instance is not None:
            signals.send(signals.job_started, Job, job=instance)
