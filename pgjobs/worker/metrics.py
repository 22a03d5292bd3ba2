"""What a worker counts in memory for scrapes of metrics, for as long as it runs."""

import threading
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeVar, cast

from ..queue.recording import Unsuccessful
from .observer import AttemptEnd, WorkerObserver

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0, 600.0)
MOST_SERIES = 1_000  # of one metric: SQL may give jobs any number of names
OTHERS = "(others)"

Series = TypeVar("Series", bound=tuple[str, ...])


class Histogram:
    """How often something took how long."""

    def __init__(self) -> None:
        self.counts = [0] * (len(SECONDS) + 1)
        self.total = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(SECONDS, seconds)] += 1
        self.total += seconds

    def snapshot(self) -> "Snapshot":
        return Snapshot(tuple(self.counts), self.total)


class Snapshot(NamedTuple):
    """A histogram as it was: the counts of its buckets, and the sum of the seconds."""

    counts: tuple[int, ...]
    total: float


class AttemptMetrics(WorkerObserver):
    """Counts the ends of attempts, by queue, task and outcome."""

    def __init__(self) -> None:
        self.lock = threading.Lock()  # scrapes read on other threads
        self.processed: dict[tuple[str, str, str], int] = {}
        self.durations: dict[tuple[str, str], Histogram] = {}
        self.waits: dict[tuple[str], Histogram] = {}

    def recorded(self, ends: Sequence[AttemptEnd]) -> None:
        with self.lock:
            for end in ends:
                self.count(end)

    def count(self, end: AttemptEnd) -> None:
        job = end.job
        counted = bounded(self.processed, (job.queue_name, job.task, outcome_of(end)))
        self.processed[counted] = self.processed.get(counted, 0) + 1
        series = bounded(self.durations, (job.queue_name, job.task))
        self.durations.setdefault(series, Histogram()).add(end.seconds)
        if job.waited is not None and job.attempt == 1 and job.life == 1:
            queue = bounded(self.waits, (job.queue_name,))
            self.waits.setdefault(queue, Histogram()).add(max(job.waited, 0.0))

    def snapshot(self) -> tuple[dict, dict, dict]:
        """Return what was counted: processed jobs, durations and waits."""
        with self.lock:
            return (
                dict(self.processed),
                {series: each.snapshot() for series, each in self.durations.items()},
                {series: each.snapshot() for series, each in self.waits.items()},
            )


def outcome_of(end: AttemptEnd) -> str:
    """Return how an attempt ended, in one of a few words."""
    if end.status in ("SUCCESSFUL", "FAILED", "CANCELLED"):
        return end.status.lower()
    outcome = end.outcome
    return outcome.verdict.lower() if isinstance(outcome, Unsuccessful) else "lost"


def bounded(known: Mapping[Series, object], series: Series) -> Series:
    """Return the series to count. Beyond a number, all others share one."""
    if series in known or len(known) < MOST_SERIES:
        return series
    return cast(Series, (OTHERS,) * len(series))
