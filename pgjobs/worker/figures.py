"""What a worker counts in memory, until a chore adds it to the table of figures."""

from collections.abc import Iterable, Sequence
from typing import Any

from ..queue.claiming import ClaimedJob
from ..queue.figures import MOST_BUCKETS, bucket_of, folded
from .observer import AttemptEnd

# Only rows of SQL have so many tasks. The others are counted together, with no name.
MOST_ROWS = 1_000
COLUMN_OF = {"SUCCESSFUL": "successful", "FAILED": "failed", "CANCELLED": "cancelled"}
COLUMNS = (*COLUMN_OF.values(), "retried")


class Sums:
    """The sums of one queue and task."""

    __slots__ = (*COLUMNS, "run_times", "seconds", "wait_times")

    def __init__(self) -> None:
        self.seconds = 0.0
        self.successful = self.failed = self.cancelled = self.retried = 0
        self.run_times = [0] * MOST_BUCKETS
        self.wait_times = [0] * MOST_BUCKETS


class Figures:
    """Counts attempts as they begin and end; costs two microseconds for each."""

    def __init__(self) -> None:
        self.sums: dict[tuple[str, str], Sums] = {}

    def of(self, job: ClaimedJob) -> Sums:
        key = (job.queue_name, job.task)
        return self.sums.get(key) or self.begin(key)

    def begin(self, key: tuple[str, str]) -> Sums:
        if len(self.sums) >= MOST_ROWS:
            key = ("", "")
        return self.sums.setdefault(key, Sums())

    def claimed(self, jobs: Iterable[ClaimedJob]) -> None:
        """Count how long jobs have waited."""
        for job in jobs:
            if job.waited is not None:
                self.of(job).wait_times[bucket_of(job.waited)] += 1

    def ended(self, ends: Sequence[AttemptEnd]) -> None:
        """Count how attempts ended. One that was snoozed or released does not count."""
        for end in ends:
            job, status, _, seconds = end
            if status == "SUCCESSFUL":  # the most: without any detour
                sums = self.of(job)
                sums.successful += 1
            elif (column := column_of(end)) is not None:
                sums = self.of(job)
                setattr(sums, column, getattr(sums, column) + 1)
            else:
                continue
            sums.seconds += seconds
            sums.run_times[bucket_of(seconds)] += 1

    def rows(self) -> list[dict[str, Any]]:
        """Return the sums as rows of the table."""
        return [
            {
                "queue_name": queue,
                "task": task,
                "seconds": sums.seconds,
                **{column: getattr(sums, column) for column in COLUMNS},
                "run_times": folded(sums.run_times),
                "wait_times": folded(sums.wait_times),
            }
            for (queue, task), sums in self.sums.items()
        ]

    def clear(self) -> None:
        self.sums.clear()


def column_of(end: AttemptEnd) -> str | None:
    if end.status != "FAILED" and getattr(end.outcome, "verdict", "") == "RETRY":
        return "retried"
    return COLUMN_OF.get(end.status or "")
