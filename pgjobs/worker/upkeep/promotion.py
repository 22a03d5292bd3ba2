"""Makes scheduled jobs READY when their time has come."""

from math import inf

from ...queue import upkeep
from ...queue.statements import Execute
from ...queue.upkeep import Batch
from ..connections.backoff import Backoff
from .batches import BatchChore
from .chore import Effects

FIRST_PAUSE = 0.02  # seconds until the next try while a job that is due is held
LONGEST_PAUSE = 1.0


class Promotion(BatchChore):
    """Claims and surveys say when a job will be due."""

    name = "promote"
    makes_jobs = True
    woken_by = "scheduled"

    def __init__(self) -> None:
        super().__init__(interval=inf)
        self.expect()
        # A job is due and not READY: another transaction holds it.
        self.overdue = Backoff(FIRST_PAUSE, LONGEST_PAUSE)

    def do(self, execute: Execute, batch: Batch) -> tuple[Effects, int]:
        number, must_admit = upkeep.promote(execute, batch)
        if number:
            self.overdue.passed()
        # Another worker may just have promoted what was due.
        return Effects(old_ready=True, waiting=must_admit), number

    def candidates(self, execute: Execute, batch: Batch) -> list[int]:
        return upkeep.candidates(execute, "promotion", batch)

    def expect_in(self, seconds: float | None, now: float) -> None:
        """Expect the next job to be due in so many seconds. None: none is scheduled.

        A busy worker hears this each millisecond, which must not put the next try off.
        """
        if seconds is None:
            self.overdue.passed()
        elif seconds > 0:
            self.due = min(self.due, now + seconds)
            self.overdue.passed()
        elif now >= self.overdue.retry_at:
            self.due = min(self.due, now + self.overdue.failed(now))

    def is_expecting(self, now: float) -> bool:
        if self.backoff.is_waiting(now):
            return False
        return self.due <= now or self.overdue.since is not None
