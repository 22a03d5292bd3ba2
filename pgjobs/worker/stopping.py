"""How a worker stops: its jobs end within the grace, or go back to the queue."""

import logging
from collections.abc import Callable
from math import inf
from time import monotonic

import psycopg

from ..base.database_errors import text_of
from ..queue.claiming import ClaimedJob
from ..queue.recording import Unsuccessful, release
from .exit_code import ExitCode
from .lifetime import Lifetime
from .prefetching import Prefetching
from .recorder import Recorder

logger = logging.getLogger("pgjobs.worker")

RELEASE_TRIES = 3
STOPPED = "Released: the worker stopped."
LAST_SECONDS = 2.0  # for announcing the last jobs that ended, in a hurry


class Stopping:
    def __init__(
        self, recorder: Recorder, lifetime: Lifetime, run_pass: Callable[[], None]
    ):
        self.options = recorder.options
        self.recorder = recorder
        self.executor = recorder.executor
        self.in_flight = recorder.in_flight
        self.observer = recorder.observer
        self.lifetime = lifetime
        self.run_pass = run_pass
        self.stop_at: float | None = None  # end of the grace, once asked to stop
        self.has_abandoned_jobs = False  # whose threads run on
        self.is_cut_off = False  # receivers of signals have not heard of all ends
        self.closed_at = self.hurried_at = inf  # monotonic times

    @property
    def is_out_of_time(self) -> bool:
        """Whether the running jobs must be released."""
        signals = self.lifetime.signals
        if signals == 0:
            return False
        if self.stop_at is None:
            self.stop_at = monotonic() + self.options.grace
            if len(self.in_flight):
                self.observer.stopping(len(self.in_flight))
        over = signals > 1 or monotonic() >= self.stop_at
        return over and len(self.in_flight) > 0

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

    def release_unstarted(self) -> None:
        """Put the prefetched jobs that no slot has begun back in the queue."""
        self.in_flight.put(map(unstarted, self.executor.withdraw()))

    def release_overdue(self, prefetching: Prefetching) -> None:
        """Put prefetched jobs back for which no slot was free in time."""
        for job in prefetching.overdue(monotonic()):
            reason = "Released: no slot was free in time."
            self.in_flight.put([release(job, reason, has_begun=False)])

    def abandon(self) -> ExitCode:
        """Put the jobs that will not end back in the queue; their threads go on."""
        withdrawn = self.executor.withdraw()
        self.recorder.gather()
        self.in_flight.put(map(unstarted, withdrawn))
        running = self.in_flight.still_running
        self.in_flight.put(map(released, running))
        self.release()
        if not running and not withdrawn and self.in_flight.is_empty:
            return ExitCode.STOPPED
        number = len(withdrawn) + len(running)
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


def released(job: ClaimedJob) -> Unsuccessful:
    return release(job, STOPPED)


def unstarted(job: ClaimedJob) -> Unsuccessful:
    return release(job, STOPPED, has_begun=False)
