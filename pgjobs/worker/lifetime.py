"""When a worker must claim no more, and whether a new process follows it."""

import logging
from math import inf
from time import monotonic

from .memory import resident_bytes
from .options import WorkerOptions
from .slots.executor import Executor

logger = logging.getLogger("pgjobs.worker")


class Lifetime:
    """A worker lives until it is asked to stop or reaches one of its limits."""

    def __init__(self, options: WorkerOptions, executor: Executor):
        self.options = options
        self.executor = executor
        self.started_at = monotonic()
        self.signals = 0  # how often it was asked to stop
        self.claimed = 0  # jobs
        self.is_too_large = False

    @property
    def is_over(self) -> bool:
        """Whether the worker claims no more, and ends once its jobs have ended."""
        return self.is_cut_short or self.has_claimed_enough

    @property
    def is_cut_short(self) -> bool:
        """Whether not even the jobs that the worker holds may begin."""
        return (
            self.signals > 0 or self.is_too_old or self.is_too_large or self.is_overrun
        )

    @property
    def is_too_old(self) -> bool:
        return monotonic() >= self.end

    @property
    def end(self) -> float:
        """Return when the worker will be too old (monotonic time)."""
        longest = self.options.max_time
        return inf if longest is None else self.started_at + longest

    @property
    def left_to_claim(self) -> float:
        """Return how many jobs the worker may claim before it ends."""
        most = self.options.max_jobs
        return inf if most is None else most - self.claimed

    @property
    def has_claimed_enough(self) -> bool:
        return self.left_to_claim <= 0

    @property
    def ends_when_idle(self) -> bool:
        """Whether the worker ends once there is nothing left to run."""
        return self.options.drain or self.has_given_up

    @property
    def has_given_up(self) -> bool:
        """Whether code of a job runs on although the job has ended.

        Only the end of the process ends that code, and the process must not wait for
        it.
        """
        return self.executor.given_up > 0

    @property
    def is_overrun(self) -> bool:
        """Whether so much code runs on that the worker cannot wait until it is idle."""
        return self.executor.given_up >= self.options.slots

    def measure_memory(self) -> None:
        """Note when the process has grown beyond its limit."""
        most = self.options.max_memory
        if most is None or self.is_too_large:
            return
        size = resident_bytes()
        if size > most:
            self.is_too_large = True
            logger.info("Worker name=%s recycles at bytes=%s", self.options.name, size)

    def should_renew(self, is_drained: bool) -> bool:
        """Whether the worker ends in order to be replaced by a new process."""
        if self.signals or self.is_too_old:
            return False
        if self.has_claimed_enough:
            return self.is_too_large or self.options.is_replaced
        return self.is_too_large or (self.has_given_up and not is_drained)
