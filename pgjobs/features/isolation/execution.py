"""A job in a slot whose body runs in a child."""

import logging
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import Any

from ...conf import settings
from ...exceptions import (
    Interruption,
    MemoryLimitExceeded,
    TaskCancelled,
    TaskTimeout,
    WorkerLost,
)
from ...queue.recording import Outcome, Unsuccessful, release
from ...tasks.running_job import MOST_LINES, PROGRESS, RunningJob
from ...worker.job_log import log
from ...worker.slots.atomic import open_since
from ...worker.slots.execution import ThreadExecution
from ...worker.slots.outcomes import backoff_of, unsuccessful
from .child_process import CannotStart, ChildProcess, described
from .frames import Garbled
from .pool import Pool
from .wire import packed_job, unpacked_outcome

TAKE_SECONDS = 10.0  # for an idle child to take a job
MOST_TRIES = 3  # to hand a job to a child
START_DELAY = 10.0  # seconds until a job is tried again whose child cannot start
# What has killed a child.
CAUSES: dict[type[Interruption] | None, str] = {
    None: "stop",
    TaskCancelled: "cancel",
    TaskTimeout: "timeout",
}
STOPPED = "Released: the worker stopped."
KILLED = "Cancelled; its process was killed."
BEFORE = "Cancelled before it began."


class RelayedJob(RunningJob):
    """The job as the worker knows it. The child's has said what this one reports."""

    def relay(self, report: dict) -> None:
        with self._lock:
            if "done" in report:
                self._progress = {key: report[key] for key in PROGRESS}
            self._lines += report["log"].split("\n")[:-1]
            del self._lines[:-MOST_LINES]
        self._host.reported(self)


class IsolatedExecution(ThreadExecution):
    """The worker's half of an attempt; the other half is a `slot.Slot`'s.

    A thread of the worker waits here for what the child sends.
    """

    running_class = RelayedJob
    running: RelayedJob
    host: Any  # the executor

    def __init__(self, *common) -> None:
        super().__init__(*common)
        self.lock = threading.Lock()
        self.child: ChildProcess | None = None  # that has got the job
        self.is_interrupted = False
        self.is_killed = False
        self.cause: type[Interruption] | None = None  # None: the worker stops
        # Lines of its output, until it is known who gets them.
        self.held: list[str] = []
        self.place = ""  # where the body was as its time was over

    # On the thread of the slot

    def run(self) -> Outcome:
        self.own_thread = threading.current_thread()
        self.begun_at = monotonic()
        try:
            return self.run_in_child()
        except BaseException as error:  # noqa: BLE001  (no outcome would block a slot)
            return self.broken_by(error)
        finally:
            open_since.pop(self.job.lease_token, None)
            self.host.deadlines.lift(self)
            self.host.deadlines.lift(self.running)

    def run_in_child(self) -> Outcome:
        if self.task is None:
            unable = self.prepare()
            assert unable is not None
            return unable
        pool = pool_of(self.host)
        try:
            for _ in range(MOST_TRIES):
                if outcome := self.tried_with(pool, pool.take()):
                    return outcome
            raise CannotStart("No process takes the job.")
        except CannotStart as error:
            return self.not_started(error)

    def tried_with(self, pool: Pool, child: ChildProcess) -> Outcome | None:
        """Run the job in this child; return None if it has not taken it."""
        if (before := self.ended_before()) is not None:
            pool.give_back(child, is_spent=False)
            return before
        keeps = self.running.keeps_level is not None
        for output in child.outputs:
            output.begin(self.held.append if keeps else None)
        outcome: Outcome | None
        try:
            outcome = self.attend(child)
        except (Garbled, KeyError, TypeError, ValueError, IndexError) as error:
            outcome = self.crash(f"Its process sent what is no message: {error!r}")
            child.kill_now()
        with self.lock:
            self.child = None
        for output in child.outputs:
            output.end()
        if child.has_ended:
            if self.has_taken(child):
                pool.deaths[self.why(child)] += 1
            pool.forget(child)
        else:
            pool.give_back(child, is_spent=self.is_interrupted)
        return outcome

    def ended_before(self) -> Unsuccessful | None:
        """Return the outcome of a job that is not to begin any more."""
        if self.is_killed:
            return self.killed()
        if self.running.cancel_requested and self.options.cancel == "interrupt":
            return unsuccessful(self.job, "CANCEL", BEFORE)
        return None

    def attend(self, child: ChildProcess) -> Outcome | None:
        self.limit_memory(child)
        try:
            assert self.task is not None
            module = self.task.function.__module__
            child.frames.send("job", packed_job(self.job), module)
        except OSError:
            child.kill_now()
        with self.lock:
            self.child = child
            is_cancelled, is_killed = self.running.cancel_requested, self.is_killed
        if is_cancelled:
            self.tell("cancel")
        if is_killed:
            child.kill()
        for what, *values in self.heard(child):
            if what == "outcome":
                *packed, child.size = values
                if self.options.memory_limit:
                    child.order("limit 0")
                return unpacked_outcome(self.job, *packed)
            self.hear(what, *values)
        if self.has_taken(child):
            return self.died(child)
        return self.killed() if self.is_killed else None

    def heard(self, child: ChildProcess) -> Iterator[list]:
        """Yield what the child sends; kill it if it does not take the job in time.

        It may do so until it is dead. Then the body may have begun, and another child
        must not begin it once more.
        """
        yield from child.heard(monotonic() + TAKE_SECONDS)
        if not self.has_taken(child):
            child.kill()
        yield from child.heard()

    def has_taken(self, child: ChildProcess) -> bool:
        return child.taken.get() == self.job.lease_token

    def limit_memory(self, child: ChildProcess) -> None:
        limit = self.options.memory_limit
        if limit is None:
            return
        child.order(f"limit {limit}")
        if child.first_size > limit:
            log(
                logging.ERROR,
                self.job,
                f"has memory_limit={limit}, less than its process takes before it "
                f"begins: {child.first_size}",
            )

    def keep_output(self, child: ChildProcess, is_masked: bool) -> None:
        """Keep what the child prints, and has printed, if values in it are masked."""
        for output in child.outputs:
            output.begin(self.running.log if is_masked else None)
        for line in self.held:
            if is_masked:
                self.running.log(line)
            else:
                child.outputs[0].forward(f"{line}\n".encode())
        self.held.clear()

    def hear(self, what: str, *values) -> None:
        if what == "began":
            self.limit, self.ends_life, is_masked, is_in_transaction = values
            if is_in_transaction:
                open_since[self.job.lease_token] = self.job, monotonic()
            if self.child and self.running.keeps_level is not None:
                self.keep_output(self.child, is_masked)
            if self.limit is not None:
                self.host.deadlines.set(self, self.limit, self.time_out)
        elif what == "report" and values[0]["lease_token"] == self.job.lease_token:
            self.running.relay(values[0])  # a thread may go on for the job before it
        elif what == "committed":  # what it gave to on_commit may take long
            open_since.pop(self.job.lease_token, None)
        elif what == "where":
            self.place = str(values[0])

    # How it ends without an outcome of its own

    def why(self, child: ChildProcess) -> str:
        """Return why the child has ended, as metrics say it."""
        if child.memory:
            return "memory"
        if not self.is_killed:
            return "crash"
        return CAUSES[self.cause]

    def died(self, child: ChildProcess) -> Unsuccessful:
        if child.memory:
            limit = self.options.memory_limit
            return self.outcome_of(MemoryLimitExceeded(child.memory, limit))
        if self.is_killed:
            return self.killed()
        return self.crash(f"Its process died: {described(child.status)}")

    def killed(self) -> Unsuccessful:
        if self.cause is None:
            return release(self.job, STOPPED)
        if self.cause is TaskCancelled:
            return unsuccessful(self.job, "CANCEL", KILLED)
        return self.given_up()

    def crash(self, reason: str) -> Unsuccessful:
        job = self.job._replace(failures=self.job.failures + self.job.crashes)
        error = WorkerLost(reason)
        delay = backoff_of(job, self.options, error) or 0.0
        log(logging.ERROR, self.job, f"crashed: {reason}")
        crash = unsuccessful(self.job, "CRASH", reason, delay=delay)
        return crash._replace(statement="crash", error=error)

    def not_started(self, error: CannotStart) -> Unsuccessful:
        log(logging.ERROR, self.job, f"has no process: {error}")
        first = str(error).strip().splitlines()[-1:]
        reason = f"Released: its process cannot start: {' '.join(first)}"
        outcome = unsuccessful(self.job, "RELEASE", reason, delay=START_DELAY)
        return outcome._replace(has_begun=False)

    def where(self) -> str:
        return self.place

    # From outside, on any thread

    def cancel(self) -> None:
        if self.running.cancel_requested:
            return
        self.running.cancel_requested = True
        self.tell("cancel")
        if self.options.cancel == "interrupt":
            self.is_interrupted = True
            self.host.deadlines.set(
                self.running, settings.TIMEOUT_GRACE, self.kill_cancelled
            )

    def time_out(self) -> None:
        self.stop(TaskTimeout)
        kill = partial(self.kill, TaskTimeout)
        self.host.deadlines.set(self, settings.TIMEOUT_GRACE, kill)

    def kill_cancelled(self) -> None:
        self.kill(TaskCancelled)

    def stop(self, cause: type[Interruption]) -> None:
        self.is_interrupted = True
        self.tell("stop", cause.__name__)

    def kill(self, cause: type[Interruption] | None) -> None:
        """Kill the child, because of this; None: because the worker stops."""
        with self.lock:
            if not self.is_killed:
                self.is_killed, self.cause = True, cause
            if self.child is not None:
                self.child.kill()

    def tell(self, what: str, *values) -> None:
        """Tell the child something. A child that does not read will be killed."""
        with self.lock, suppress(OSError):
            if self.child is not None:
                token = self.job.lease_token
                self.child.frames.send(what, token, *values, flags=socket.MSG_DONTWAIT)


def pool_of(host) -> Pool:
    """Return the children of the worker, who may have none yet."""
    with host.lock:
        for each in host.beside:
            if isinstance(each, Pool):
                return each
        pool = Pool(host)
        host.beside.append(pool)
        return pool
