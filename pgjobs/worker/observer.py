"""How the worker reports on its run, and the sums that it reports."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple

from ..queue.claiming import ClaimedJob
from ..queue.recording import Outcome


class AttemptEnd(NamedTuple):
    """The end of one attempt, once it is recorded."""

    job: ClaimedJob
    status: str | None  # the job's, now. None if the job was taken from this worker
    outcome: Outcome
    seconds: float  # since the worker claimed it


class WorkerObserver:
    """Base of what observes a worker. The loop calls it and waits meanwhile.

    An observer may put work off, until `due` at the latest.
    """

    due = math.inf  # monotonic time at which the loop must call `catch_up`

    def catch_up(self) -> None:
        """Do the work that was put off."""

    def started(self) -> None:
        """The worker is registered and about to claim."""

    def notified(self) -> None:
        """A notification has woken the idle worker."""

    def polled(self) -> None:
        """The idle worker fetches because the poll is due."""

    def claimed(self, jobs: Sequence[ClaimedJob]) -> None:
        """The worker has claimed these jobs, and runs them as its slots allow."""

    def recorded(self, ends: Sequence[AttemptEnd]) -> None:
        """These attempts have ended in one pass."""

    def stopping(self, running: int) -> None:
        """The worker was asked to stop while `running` jobs run."""


@dataclass
class RunStats:
    """What a run has done so far."""

    completed: int = 0  # jobs that this run finished; of these:
    failed: int = 0
    cancelled: int = 0
    retried: int = 0  # attempts that failed and will be tried again

    def count_all(self, ends: Sequence[AttemptEnd]) -> None:
        others = [end for end in ends if end.status != "SUCCESSFUL"]
        self.completed += len(ends) - len(others)
        for end in others:
            self.count(end)

    def count(self, end: AttemptEnd) -> None:
        """Count the end of an attempt that did not succeed."""
        match end.status:
            case "FAILED":
                self.completed += 1
                self.failed += 1
            case "CANCELLED":
                self.completed += 1
                self.cancelled += 1
            case _ if getattr(end.outcome, "verdict", "") == "RETRY":
                self.retried += 1

    def add(self, other: "RunStats") -> None:
        for field in fields(self):
            total = getattr(self, field.name) + getattr(other, field.name)
            setattr(self, field.name, total)
