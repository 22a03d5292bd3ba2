"""What a worker counts in memory, until a chore adds it to the table of figures."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from ..queue.claiming import ClaimedJob
from ..queue.figures import BUCKETS, bucket_of
from .observer import AttemptEnd

# Only rows of SQL have so many tasks. The others are counted together, with no name.
MOST_ROWS = 1_000
COLUMN_OF = {"SUCCESSFUL": "successful", "FAILED": "failed", "CANCELLED": "cancelled"}


class Sums:
    """The sums of one queue and task."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.numbers = dict.fromkeys((*COLUMN_OF.values(), "retried"), 0)
        self.run_times = [0] * BUCKETS
        self.wait_times = [0] * BUCKETS


class Figures:
    """Counts attempts as they begin and end; costs a microsecond for each."""

    def __init__(self) -> None:
        self.sums: dict[tuple[str, str], Sums] = {}

    def of(self, job: ClaimedJob) -> Sums:
        key = (job.queue_name, job.task)
        found = self.sums.get(key)
        if found is None:
            if len(self.sums) >= MOST_ROWS:
                key = ("", "")
            found = self.sums.setdefault(key, Sums())
        return found

    def claimed(self, jobs: Iterable[ClaimedJob], at: datetime) -> None:
        """Count how long jobs have waited; `at`: when the server found them."""
        for job in jobs:
            due = due_at(job)
            if due is not None:
                bucket = bucket_of((at - due).total_seconds())
                self.of(job).wait_times[bucket] += 1

    def ended(self, ends: Sequence[AttemptEnd]) -> None:
        """Count how attempts ended; one that was put off or released is none."""
        for end in ends:
            column = column_of(end)
            if column is not None:
                sums = self.of(end.job)
                sums.numbers[column] += 1
                sums.seconds += end.seconds
                sums.run_times[bucket_of(end.seconds)] += 1

    def rows(self) -> list[dict[str, Any]]:
        """Return the sums as rows of the table."""
        return [
            {
                "queue_name": queue,
                "task": task,
                "seconds": sums.seconds,
                **sums.numbers,
                "run_times": sums.run_times,
                "wait_times": sums.wait_times,
            }
            for (queue, task), sums in self.sums.items()
        ]

    def clear(self) -> None:
        self.sums.clear()


def column_of(end: AttemptEnd) -> str | None:
    if end.status == "SUCCESSFUL":
        return "successful"
    if getattr(end.outcome, "verdict", "") == "RETRY" and end.status != "FAILED":
        return "retried"
    return COLUMN_OF.get(end.status or "")


def due_at(job: ClaimedJob) -> datetime | None:
    """Return since when a job could run, if the claim knows it.

    It does not know when a job was put back that a worker or an operator took away.
    """
    if job.run_after is not None:
        return job.run_after
    return job.enqueued_at if job.attempt == 1 and job.life == 1 else None
