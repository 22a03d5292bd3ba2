"""What a worker counts in memory: for the table of figures, and for scrapes of metrics.

A chore adds the sums to the table now and then. Scrapes get all since the worker began.
"""

import threading
from collections.abc import Iterable, Sequence
from typing import Any

from ...queue.claiming import ClaimedJob
from ...sql.columns import BUCKETS
from ...tasks.registry import registry
from ...worker.observer import AttemptEnd, WorkerObserver

# Bucket 0 has the durations under 1 ms; each further one reaches twice as far. The last
# one, from 19 hours on, has all others. In memory every duration has a bucket of its
# own, because finding it costs less then.
MOST_BUCKETS = 64

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
        self.run_times = [0] * MOST_BUCKETS
        self.wait_times = [0] * MOST_BUCKETS

    def add(self, other: "Sums") -> None:
        for name in (*COLUMNS, "put_off", "seconds", "waited"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in ("run_times", "wait_times"):
            pairs = zip(getattr(self, name), getattr(other, name), strict=True)
            setattr(self, name, [one + another for one, another in pairs])


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
        for job in jobs:
            if (waited := job.waited) is not None:
                key = (job.queue_name, job.task)
                sums = known(key) or self.begin(key)
                sums.waited += waited
                sums.wait_times[bucket_of(waited)] += 1

    def notified(self) -> None:
        self.notifications += 1

    def polled(self) -> None:
        self.polls += 1

    def recorded(self, ends: Sequence[AttemptEnd]) -> None:
        """Count how attempts ended; a snooze or a release took no time."""
        known = self.sums.get
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
    """Return the number of the bucket of a duration, of those in memory."""
    return int(seconds * 1_000).bit_length() if seconds > 0 else 0


def folded(buckets: list[int]) -> list[int]:
    """Return the buckets that are stored."""
    return [*buckets[: BUCKETS - 1], sum(buckets[BUCKETS - 1 :])]


def column_of(end: AttemptEnd) -> str:
    if end.status != "FAILED" and getattr(end.outcome, "verdict", "") == "RETRY":
        return "retried"
    return COLUMN_OF.get(end.status or "", "put_off")
