"""The slot of a child: it runs one job after the other, as the slots of a worker do.

The main thread runs plain tasks. Another one hears what the worker says, and a third
one sends: the exception that ends a body may hit it anywhere, but not while it writes.
"""

import gc
import logging
import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib import import_module
from math import inf
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any, NoReturn

from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

from ...base.forks import keep_private
from ...conf import settings
from ...exceptions import Interruption, TaskCancelled, TaskTimeout
from ...queue import recording
from ...queue.claiming import ClaimedJob
from ...queue.observing import call_safely
from ...queue.recording import Outcome, Unsuccessful
from ...tasks.registry import registry
from ...tasks.running_job import RunningJob
from ...worker.memory import resident_bytes
from ...worker.slots.cleaning import session_watching
from ...worker.slots.deadlines import Deadlines
from ...worker.slots.event_loop import EventLoop
from ...worker.slots.execution import CoroutineExecution, Execution, ThreadExecution
from ...worker.slots.surroundings import Surroundings
from ...worker.slots.threads import BorrowedThread, Threads
from .. import modules
from .frames import Frames, Garbled
from .mark import Mark
from .wire import packed_outcome, unpacked_job

logger = logging.getLogger("pgjobs.worker")

REPORT_SECONDS = 0.02  # between two reports of a job that has many
SEND_SECONDS = 1.0  # that a job waits at most until its report has left the process
IDLE_SECONDS = 1.0  # between two looks at connections that nobody uses
FLUSH_SECONDS = 2.0  # for what exporters have not sent as the child ends
GROWTH = 40_000_000  # bytes beyond the start, at which the garbage is collected
CAUSES: dict[str, type[Interruption]] = {
    cause.__name__: cause for cause in (TaskTimeout, TaskCancelled)
}


class Slot(Surroundings):
    """The host of the jobs of a child. It says everything to the worker by frames."""

    database: str

    def __init__(self, frames: Frames, taken: Mark, database: str):
        super().__init__()
        self.frames = frames
        self.taken = taken  # by its lease token: the latest job
        self.database = database
        self.default_limit = settings.TIMEOUT
        self.executions: SimpleQueue[Execution | None] = SimpleQueue()
        self.current: Execution | None = None
        self.first_hide: Callable[[str], str] = str  # that it began with
        self.to_send: SimpleQueue[tuple] = SimpleQueue()
        self.last_said = threading.Event()  # set once the last of them has been sent
        self.last_said.set()
        self.deadlines = Deadlines()
        self.threads = Threads()
        self.event_loop: EventLoop | None = None
        self.ended: SimpleQueue[Outcome] = SimpleQueue()  # of a coroutine
        self.next_report = 0.0  # monotonic time
        self.has_run = False  # a job, since the exporters were flushed
        keep_private(frames.socket)
        session_watching.begin()
        connection_created.connect(end_with_client, dispatch_uid="pgjobs.isolation")
        registry.load_sources()
        gc.collect()
        self.first_size = resident_bytes()

    def run(self) -> NoReturn:
        for work, name in ((self.hear, "hear"), (self.tell, "tell")):
            threading.Thread(target=work, name=f"pgjobs-{name}", daemon=True).start()
        self.say("ready", self.first_size)
        while (execution := self.next_execution()) is not None:
            self.taken.set(execution.job.lease_token)
            self.has_run = True
            outcome = self.outcome_of(execution)
            self.current = None
            self.report(execution.running)
            self.tell_of_failure(execution, outcome)
            flush()
            self.say_last("outcome", *packed_outcome(outcome), self.size())
        self.flush_exporters()
        end()

    def next_execution(self) -> Execution | None:
        """Wait for a job; close the connections that are idle for too long."""
        while True:
            try:
                is_open = any(connections.all(initialized_only=True))
                is_busy = is_open or self.has_run
                return self.executions.get(timeout=IDLE_SECONDS if is_busy else None)
            except Empty:
                if self.has_run:  # it may be killed as it waits
                    self.has_run = False
                    self.flush_exporters()
                for connection in connections.all(initialized_only=True):
                    connection.close_if_unusable_or_obsolete()

    def outcome_of(self, execution: Execution) -> Outcome:
        if isinstance(execution, CoroutineExecution):
            execution.event_loop.start(execution)
            return self.ended.get()
        assert isinstance(execution, ThreadExecution)
        return execution.run()

    def size(self) -> int:
        """Return how many bytes the idle child takes."""
        size = resident_bytes()
        if size - self.first_size > GROWTH:
            gc.collect()
            size = resident_bytes()
        return size

    def tell_of_failure(self, execution: Execution, outcome: Outcome) -> None:
        """Let exporters report a job that has failed for good, with its exception."""
        if not isinstance(outcome, Unsuccessful) or outcome.error is None:
            return
        job, is_cancelled = execution.job, execution.running.cancel_requested
        is_last = outcome.verdict == "RETRY" and job.failures + 1 >= job.max_attempts
        if (outcome.verdict == "FAIL" or is_last) and not is_cancelled:
            for module in modules("in_child"):
                call_safely(module.failed, job.id, outcome.error)

    def flush_exporters(self) -> None:
        for module in modules("in_child"):
            call_safely(module.flush, FLUSH_SECONDS)

    # What the worker says

    def hear(self) -> None:
        try:
            while True:
                while (frame := self.frames.take()) is not None:
                    self.obey(*frame)
                if not self.frames.fill():
                    break
        except Garbled:
            pass
        end()

    def obey(self, what: str, *values: Any) -> None:
        if what == "job":
            packed, module = values
            self.current = self.execution(unpacked_job(packed), module)
            self.first_hide = self.current.hide
            self.executions.put(self.current)
        elif what == "end":
            self.executions.put(None)
        elif (current := self.current) and current.job.lease_token == values[0]:
            if what == "cancel":
                current.cancel()
            elif what == "stop":
                self.say("where", current.where())
                current.stop(CAUSES[values[1]])

    def execution(self, job: ClaimedJob, module: str) -> Execution:
        task = registry.find(job.task)
        if task is None and module not in sys.modules:  # it is no app's `tasks`
            with suppress(Exception):
                import_module(module)
            task = registry.find(job.task)
        if task is None or not task.is_async:
            return ThreadExecution(job, task, self, self.default_limit)
        if self.event_loop is None:
            self.event_loop = EventLoop(
                self.deadlines,
                lambda execution, outcome: self.ended.put(outcome),
                lambda execution: None,
            )
        borrowed = BorrowedThread(self.threads)
        return CoroutineExecution(
            job, task, self, self.default_limit, self.event_loop, borrowed
        )

    # What the worker is told

    def tell(self) -> None:
        try:
            while True:
                frame, has_been_sent = self.to_send.get()
                self.frames.send(*frame)
                has_been_sent.set()
        except OSError:
            end()

    def say(self, *frame: Any) -> threading.Event:
        """Let the frame be sent, and return what says that it has been."""
        self.last_said = has_been_sent = threading.Event()
        self.to_send.put((frame, has_been_sent))
        return has_been_sent

    def say_last(self, *frame: Any) -> None:
        """Send behind what the job has said. The body is over: nothing interrupts."""
        if self.last_said.is_set():
            self.say_now(*frame)
        else:
            self.say(*frame)

    def say_now(self, *frame: Any) -> None:
        """Send before the body begins, which may end the process or hold the GIL."""
        try:
            self.frames.send(*frame)
        except OSError:
            end()

    def began(self, execution: Execution) -> None:
        # A middleware begins before the transaction does.
        queue = connections[settings.DATABASE]
        is_open = execution.options.atomic and queue.in_atomic_block
        keeps_log = execution.running.keeps_level is not None
        if execution.limit is None and not (is_open or keeps_log):
            return  # the worker would have nothing to do
        # It masks what the job prints, and does not know values that were opened.
        is_known = execution.hide is self.first_hide
        self.say_now("began", execution.limit, execution.ends_life, is_known, is_open)
        if is_open:
            transaction.on_commit(partial(self.say_now, "committed"), queue.alias)

    def reported(self, job: RunningJob) -> None:
        """Send what the job reports; at once, unless it has just sent something."""
        now = monotonic()
        if now < self.next_report:
            if self.next_report < inf:
                wait, self.next_report = self.next_report - now, inf
                self.deadlines.set(job, wait, partial(self.report, job))
            return
        if has_been_sent := self.send_report(job):
            # What the job does next may end the process.
            has_been_sent.wait(SEND_SECONDS)

    def report(self, job: RunningJob) -> None:
        self.send_report(job)

    def send_report(self, job: RunningJob) -> threading.Event | None:
        self.next_report = monotonic() + REPORT_SECONDS
        self.deadlines.lift(job)
        report = job.take_report()
        return self.say("report", report) if report else None

    def still_owned(self, job: RunningJob) -> bool:
        return recording.still_owned(self.database, job.id, job.lease_token)


def end_with_client(connection: BaseDatabaseWrapper, **named: Any) -> None:
    """Let the server end a query of this process soon after its death.

    A pooler may hand the session on: to others the setting does no harm.
    """
    if connection.vendor == "postgresql":
        connection.connection.pgconn.exec_(
            b"SET client_connection_check_interval = '500ms'"
        )


def flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            continue  # the job has closed it


def end() -> NoReturn:
    flush()
    os._exit(0)
