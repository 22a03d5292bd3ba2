"""The event loop on which all async jobs of a worker run together."""

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from functools import partial
from time import monotonic
from weakref import WeakSet

from django.db import connections

from ...queue.recording import Outcome
from ..job_log import log
from .deadlines import Deadlines
from .execution import CoroutineExecution, job_context
from .interruption import of_thread
from .outcomes import thread_stack
from .threads import call_for_future

logger = logging.getLogger("pgjobs.worker")

TICK = 0.25  # seconds between two checks that the loop turns
BLOCKED_SECONDS = 0.5  # a job that blocks the loop for longer is reported
STOP_SECONDS = 2.0

Ended = Callable[[CoroutineExecution, Outcome], None]
Blocked = Callable[[CoroutineExecution], None]


class EventLoop:
    """Starts with the first async job, on a thread of its own.

    `ended` is called with each job and its outcome, `blocked` with the job that keeps
    the loop from turning.
    """

    def __init__(self, deadlines: Deadlines, ended: Ended, blocked: Blocked):
        self.deadlines = deadlines
        self.ended = ended
        self.blocked = blocked
        self.loop = asyncio.new_event_loop()
        self.loop.set_task_factory(make_task)
        self.loop.set_default_executor(ConnectionClosingExecutor())
        self.executions: dict[CoroutineExecution, WeakSet[asyncio.Task]] = {}
        self.observer = Observer(self)
        self.stopped = False
        self.thread = threading.Thread(
            target=self.run, name="pgjobs-event-loop", daemon=True
        )
        self.thread.start()

    def start(self, execution: CoroutineExecution) -> None:
        """Begin a job; from any thread."""
        self.loop.call_soon_threadsafe(self.begin, execution)

    def begin(self, execution: CoroutineExecution) -> None:
        if self.stopped:
            return  # the loop was abandoned meanwhile, and the job with it
        tasks: WeakSet[asyncio.Task] = WeakSet()
        self.executions[execution] = tasks
        context = job_context(execution)
        context.run(tasks_of_job.set, tasks)
        task = self.loop.create_task(execution.run(), context=context)
        task.add_done_callback(partial(self.end, execution))
        self.observer.watch()

    def end(self, execution: CoroutineExecution, task: asyncio.Task) -> None:
        """Take the job's outcome once its synchronous code has ended, too."""
        for left_behind in self.executions.pop(execution):
            left_behind.cancel()
        if task.cancelled():
            return  # cancelled by clear_up(): its job was given up
        outcome = task.result()
        execution.borrowed.give_back(partial(self.ended, execution, outcome))

    def run(self) -> None:
        asyncio.set_event_loop(self.loop)
        of_thread.loop = self.loop
        while not self.stopped:
            try:
                self.loop.run_forever()
            except BaseException:  # SystemExit in an asyncio task of a job, say
                logger.exception("The event loop goes on")
        self.loop.run_until_complete(self.clear_up())
        self.loop.close()

    async def clear_up(self) -> None:
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=STOP_SECONDS / 2)
        await self.loop.shutdown_asyncgens()

    def abandon(self) -> None:
        """Let the loop end as soon as it turns again, and all its jobs with it."""
        self.stopped = True
        self.loop.call_soon_threadsafe(self.loop.stop)

    def stop(self) -> None:
        """End the thread, unless a job that was given up blocks it."""
        self.abandon()
        self.thread.join(STOP_SECONDS)

    def running_now(self) -> CoroutineExecution | None:
        """Return the job whose code runs at this moment; from any thread."""
        task = asyncio.current_task(self.loop)
        for execution, tasks in list(self.executions.items()):
            if task in tasks:
                return execution
        return None


tasks_of_job: ContextVar[WeakSet[asyncio.Task]] = ContextVar("pgjobs_tasks_of_job")


def make_task(loop, coroutine, **options) -> asyncio.Task:
    """Make a task that belongs to the job that makes it."""
    context = options.get("context")
    task: asyncio.Task = asyncio.Task(coroutine, loop=loop, **options)
    tasks = tasks_of_job.get(None) if context is None else context.get(tasks_of_job)
    if tasks is not None:
        tasks.add(task)
    return task


class Observer:
    """Notices from outside when a job keeps the event loop from turning."""

    def __init__(self, event_loop: EventLoop):
        self.event_loop = event_loop
        self.is_watching = False
        self.asked_at: float | None = None  # since then the loop has not answered
        self.blocking: CoroutineExecution | None = None

    @property
    def blocked_seconds(self) -> float:
        asked_at = self.asked_at
        return 0.0 if asked_at is None else monotonic() - asked_at

    def watch(self) -> None:
        if not self.is_watching:
            self.is_watching = True
            self.event_loop.deadlines.set(self, TICK, self.look)

    def look(self) -> None:
        if self.asked_at is None:
            self.asked_at = monotonic()
            self.event_loop.loop.call_soon_threadsafe(self.answer)
        elif self.blocked_seconds > BLOCKED_SECONDS and self.blocking is None:
            self.report()
        if self.event_loop.executions and not self.event_loop.stopped:
            self.event_loop.deadlines.set(self, TICK, self.look)
        else:
            self.is_watching = False

    def report(self) -> None:
        self.blocking = self.event_loop.running_now()
        if self.blocking is not None:
            log(
                logging.WARNING,
                self.blocking.job,
                f"has blocked the event loop for {self.blocked_seconds:.1f} s, "
                f"other async jobs wait:\n{thread_stack(self.event_loop.thread)}",
            )
            self.event_loop.blocked(self.blocking)

    def answer(self) -> None:
        """Remember that the loop turns; called by the loop itself."""
        seconds, self.asked_at = self.blocked_seconds, None
        blocking, self.blocking = self.blocking, None
        if blocking is not None:
            log(
                logging.WARNING,
                blocking.job,
                f"blocked the event loop for {seconds:.1f} s",
            )


class ConnectionClosingExecutor(ThreadPoolExecutor):
    """Runs `asyncio.to_thread` and the like; its threads keep no connection."""

    def __init__(self) -> None:
        super().__init__(thread_name_prefix="pgjobs-async")

    def submit(self, function, /, *args, **kwargs):
        return super().submit(close_connections_after, function, *args, **kwargs)


def close_connections_after(function, /, *args, **kwargs):
    try:
        return call_for_future(function, *args, **kwargs)
    finally:
        connections.close_all()
