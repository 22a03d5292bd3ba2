"""What a worker counts in memory: for the table of figures, and for scrapes of metrics.

A chore adds the sums to the table now and then. Scrapes get all since the worker began.
"""

import threading
from collections.abc import Iterable, Sequence
from math import log
from typing import Any

from ...queue.claiming import ClaimedJob
from ...tasks.registry import registry
from ...worker.observer import AttemptEnd, WorkerObserver

# Bucket 0 has the durations under 10 us; each further one reaches 1.2 times as far. So
# the middle of a bucket is no more than 10 % away from all that is in it. The last one
# has all that took longer than 30 years. Only buckets with something in them are kept.
SHORTEST = 1e-5  # seconds
FACTOR = 1.2
MOST_BUCKETS = 180
LOG_FACTOR = log(FACTOR)
LOG_SHORTEST = log(SHORTEST)

# Only rows that SQL inserts can name more tasks and queues. Those beyond are counted
# together. Tasks that no code declares get half of the places.
MOST_ROWS = 1_000
NO_NAME = ("", "")
COLUMN_OF = {"SUCCESSFUL": "successful", "FAILED": "failed", "CANCELLED": "cancelled"}
COLUMNS = (*COLUMN_OF.values(), "retried")

Key = tuple[str, str]  # a queue and a task


class Sums:
    """The sums of one queue and task."""

    __slots__ = (*COLUMNS, "put_off", "run_times", "seconds", "wait_times", "waited")

    def __init__(self) -> None:
        self.seconds = self.waited = 0.0
        self.successful = self.failed = self.cancelled = self.retried = 0
        self.put_off = 0  # attempts that were snoozed or released
        self.run_times: dict[int, int] = {}
        self.wait_times: dict[int, int] = {}

    def add(self, other: "Sums") -> None:
        for name in (*COLUMNS, "put_off", "seconds", "waited"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in ("run_times", "wait_times"):
            buckets = getattr(self, name)
            for bucket, number in list(getattr(other, name).items()):
                buckets[bucket] = buckets.get(bucket, 0) + number


class Counted(WorkerObserver):
    """Counts the attempts of a worker as they begin and end."""

    def __init__(self) -> None:
        self.sums: dict[Key, Sums] = {}  # since they were stored
        self.stored: dict[Key, Sums] = {}
        self.lock = threading.Lock()  # scrapes read on other threads
        # Looks that a notification, or the poll, has asked an idle worker for.
        self.notifications = self.polls = 0

    def begin(self, key: Key) -> Sums:
        return self.sums.setdefault(bounded(self.sums, key), Sums())

    def claimed(self, jobs: Sequence[ClaimedJob]) -> None:
        """Count how long jobs have waited."""
        known = self.sums.get
        last, bucket = 0.0, 0
        for job in jobs:
            if (waited := job.waited) is not None:
                key = (job.queue_name, job.task)
                sums = known(key) or self.begin(key)
                sums.waited += waited
                if waited != last:  # many that were enqueued together have waited alike
                    last, bucket = waited, bucket_of(waited)
                times = sums.wait_times
                times[bucket] = times.get(bucket, 0) + 1

    def notified(self) -> None:
        self.notifications += 1

    def polled(self) -> None:
        self.polls += 1

    def recorded(self, ends: Sequence[AttemptEnd]) -> None:
        """Count how attempts ended; a snooze or a release took no time."""
        known = self.sums.get
        last, bucket = 0.0, 0
        for end in ends:
            job, status, _, seconds = end
            key = (job.queue_name, job.task)
            sums = known(key) or self.begin(key)
            if status == "SUCCESSFUL":  # the most: without any detour
                sums.successful += 1
            elif (column := column_of(end)) != "put_off":
                setattr(sums, column, getattr(sums, column) + 1)
            else:
                sums.put_off += 1
                continue
            sums.seconds += seconds
            if seconds != last:  # those of one call took the same time
                last, bucket = seconds, bucket_of(seconds)
            times = sums.run_times
            times[bucket] = times.get(bucket, 0) + 1

    def rows(self) -> list[dict[str, Any]]:
        """Return the sums as rows of the table."""
        return [
            {
                "queue_name": queue,
                "task": task,
                "seconds": sums.seconds,
                **{column: getattr(sums, column) for column in COLUMNS},
                "run_buckets": sorted(sums.run_times.items()),
                "wait_buckets": sorted(sums.wait_times.items()),
            }
            for (queue, task), sums in self.sums.items()
        ]

    def clear(self) -> None:
        """Begin again, once the sums are stored."""
        with self.lock:
            add_all(self.stored, self.sums)
            self.sums.clear()

    def totals(self) -> dict[Key, Sums]:
        """Return the sums since the worker began; from any thread."""
        totals: dict[Key, Sums] = {}
        with self.lock:
            for each in (self.stored, self.sums):
                add_all(totals, each)
        return totals

    @property
    def number_ended(self) -> int:
        """The attempts that have ended since the worker began."""
        columns = (*COLUMNS, "put_off")
        return sum(
            getattr(sums, column)
            for sums in self.totals().values()
            for column in columns
        )


def counted_by(observers: Iterable[WorkerObserver]) -> Counted:
    """Return what a worker has counted, by what observes it."""
    return next(each for each in observers if isinstance(each, Counted))


def add_all(totals: dict[Key, Sums], sums: dict[Key, Sums]) -> None:
    for key, each in list(sums.items()):  # the worker may add some meanwhile
        totals.setdefault(bounded(totals, key), Sums()).add(each)


def bounded(known: dict[Key, Sums], key: Key) -> Key:
    """Return the key to count under, which is that of all others if there are many."""
    if key in known or len(known) < MOST_ROWS // 2:
        return key
    _, task = key
    if task not in registry.declared():
        return NO_NAME
    return key if len(known) < MOST_ROWS else ("", task)


def bucket_of(seconds: float) -> int:
    """Return the number of the bucket of a duration."""
    if seconds < SHORTEST:
        return 0
    bucket = int((log(seconds) - LOG_SHORTEST) / LOG_FACTOR) + 1
    return bucket if bucket < MOST_BUCKETS else MOST_BUCKETS - 1


def upper_bound(bucket: int) -> float:
    """Return the seconds that no duration of a bucket reaches."""
    return SHORTEST * FACTOR**bucket


def column_of(end: AttemptEnd) -> str:
    if end.status != "FAILED" and getattr(end.outcome, "verdict", "") == "RETRY":
        return "retried"
    return COLUMN_OF.get(end.status or "", "put_off")
