"""When a worker stops, and how: its jobs end within the grace, or go back to the queue.

A worker that stops claims no more.
"""

import logging
from collections.abc import Callable
from math import inf
from time import monotonic

import psycopg

from ..base.database_errors import text_of
from ..queue.recording import release
from .exit_code import ExitCode
from .memory import resident_bytes
from .options import WorkerOptions
from .recorder import Recorder
from .slots.executor import Executor

logger = logging.getLogger("pgjobs.worker")

RELEASE_TRIES = 3
STOPPED = "Released: the worker stopped."
LONGEST_WAIT = 0.1  # seconds until jobs that no slot has begun go back
LAST_SECONDS = 2.0  # for announcing the last jobs that ended, in a hurry


class Lifetime:
    """A worker lives until it is asked to stop or reaches one of its limits."""

    def __init__(self, options: WorkerOptions, executor: Executor):
        self.options = options
        self.executor = executor
        self.most = inf if options.max_jobs is None else options.max_jobs
        # When it will be too old (monotonic time).
        longest = options.max_time
        self.end = inf if longest is None else monotonic() + longest
        self.signals = 0  # how often it was asked to stop
        self.is_told = False  # by operators, and no signal has followed
        self.is_too_large = False
        self.is_quiet = False  # it claims nothing, and does not end for that

    @property
    def is_over(self) -> bool:
        """Whether the worker claims no more, and ends once its jobs have ended."""
        return self.is_cut_short or self.executor.submitted >= self.most

    @property
    def is_cut_short(self) -> bool:
        """Whether not even the jobs that the worker holds may begin."""
        # So much code runs on that the worker cannot wait until it is idle.
        is_overrun = self.executor.given_up >= self.options.slots
        is_cut = self.signals > 0 or self.is_too_large or is_overrun
        return is_cut or monotonic() >= self.end

    @property
    def left_to_claim(self) -> float:
        """Return how many jobs the worker may claim before it ends."""
        return 0 if self.is_quiet else self.most - self.executor.submitted

    @property
    def ends_when_idle(self) -> bool:
        """Whether the worker ends once there is nothing left to run."""
        # Only the end of the process ends the code of a job that was given up.
        return self.options.drain or self.executor.given_up > 0

    @property
    def end_in_a_word(self) -> str:
        """Return why the worker ends, once it does."""
        if self.signals:
            return "asked"
        if self.is_too_large:
            return "memory"
        return "limit" if self.is_over or self.executor.given_up else "drained"

    def measure_memory(self, most: int) -> None:
        """Remember whether the process has grown beyond so many bytes."""
        if not self.is_too_large and (size := resident_bytes()) > most:
            self.is_too_large = True
            logger.info("Worker name=%s recycles at bytes=%s", self.options.name, size)

    def should_renew(self, is_drained: bool) -> bool:
        """Whether the worker ends in order to be replaced by a new process."""
        if self.signals or monotonic() >= self.end:
            return False
        if self.executor.submitted >= self.most:
            return self.is_too_large or self.options.is_replaced
        return self.is_too_large or (self.executor.given_up > 0 and not is_drained)


class Stopping:
    def __init__(
        self, recorder: Recorder, lifetime: Lifetime, run_pass: Callable[[], None]
    ):
        self.options = recorder.options
        self.recorder = recorder
        self.executor = recorder.executor
        self.in_flight = recorder.in_flight
        self.observers = recorder.observers
        self.lifetime = lifetime
        self.run_pass = run_pass
        self.stop_at: float | None = None  # end of the grace, once asked to stop
        self.has_abandoned_jobs = False  # whose threads run on
        self.is_cut_off = False  # receivers of signals have not heard of all ends
        self.closed_at = self.hurried_at = inf  # monotonic times

    @property
    def is_out_of_time(self) -> bool:
        """Whether the running jobs must be released, once it was asked to stop."""
        if self.stop_at is None:
            self.stop_at = monotonic() + self.options.grace
            if self.in_flight.jobs:
                for observer in self.observers:
                    observer.stopping(len(self.in_flight.jobs))
        over = self.lifetime.signals > 1 or monotonic() >= self.stop_at
        return over and bool(self.in_flight.jobs)

    @property
    def is_hurried(self) -> bool:
        """Whether the process has to end now."""
        return (
            self.lifetime.signals > 1
            or self.has_abandoned_jobs
            or bool(self.in_flight.still_running)
        )

    def announces_until(self) -> float:
        """Return until when receivers may still hear of ends (monotonic time).

        That is the end of the grace, and a moment later if that is over; after a second
        signal, just the moment.
        """
        now = monotonic()
        self.closed_at = min(self.closed_at, now)
        if self.is_hurried:
            self.hurried_at = min(self.hurried_at, now)
            return self.hurried_at + LAST_SECONDS
        grace_ends = self.stop_at or self.closed_at + self.options.grace
        return max(grace_ends, self.closed_at + LAST_SECONDS)

    def judged(self, code: ExitCode) -> ExitCode:
        """Return how the worker ends if the loop has ended with `code`."""
        if not (self.is_cut_off and self.lifetime.signals) or code != ExitCode.STOPPED:
            return code
        is_hurried = self.lifetime.signals > 1
        return ExitCode.SECOND_SIGNAL if is_hurried else ExitCode.GRACE_OVER

    def release_unstarted(self, reason: str = STOPPED) -> int:
        """Put the jobs that no slot has begun back in the queue; return how many."""
        jobs = self.executor.withdraw()
        self.in_flight.put(release(job, reason, has_begun=False) for job in jobs)
        return len(jobs)

    @property
    def return_at(self) -> float:
        """Return when the prefetched jobs have to go back (monotonic time)."""
        if (job := self.executor.first_waiting()) is None:
            return inf
        return self.in_flight.claimed_at.get(job.lease_token, inf) + LONGEST_WAIT

    def release_overdue(self) -> None:
        """Put prefetched jobs back for which no slot was free in time."""
        if monotonic() >= self.return_at:
            self.release_unstarted("Released: no slot was free in time.")

    def abandon(self) -> ExitCode:
        """Put the jobs that will not end back in the queue; their threads go on."""
        unstarted = self.release_unstarted()
        unstarted += sum(each.kill_running() for each in self.executor.beside)
        self.recorder.gather()
        running = self.in_flight.still_running
        self.in_flight.put(
            (job.call and job.call.marked(job)) or release(job, STOPPED)
            for job in running
        )
        self.release()
        if not running and not unstarted and self.in_flight.is_empty:
            return ExitCode.STOPPED
        number = unstarted + len(running)
        logger.warning("Released jobs=%s that did not end in time", number)
        self.has_abandoned_jobs = bool(running)
        is_hurried = self.lifetime.signals > 1
        return ExitCode.SECOND_SIGNAL if is_hurried else ExitCode.GRACE_OVER

    def release(self) -> None:
        """Store what is left. A job that cannot be released will count as crashed."""
        for _ in range(RELEASE_TRIES):
            try:
                self.run_pass()
            except psycopg.Error as error:
                logger.error("Releasing failed: %s", text_of(error))
            if not self.in_flight.recordable:
                return
