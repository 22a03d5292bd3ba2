"""When and from where a worker fetches jobs: one rule.

A fetch walks over all READY jobs in claim order. If jobs that the worker may not claim
have cut it short, it was *starved*, and fetches by queue follow for a while; a worker
that counts units makes no others. While an old snapshot lasts, PostgreSQL keeps the
index entries of jobs that are gone (dead tuples), and a fetch from the front, a
*rescan*, walks over them all. The next rescan follows after some times as long, and
fetches begin at cursors meanwhile. A cursor is, for one priority, the turn before which
the latest fetches have left nothing.

Jobs may come in before a cursor: a retry, a promoted job, a late COMMIT, a job of a
queue that was resumed. The next rescan finds them. It begins at most a poll after the
one before it. So rescans are the guarantee; cursors only save time.

All times are those of a monotonic clock.
"""

import logging
from collections.abc import Iterator, Mapping
from itertools import pairwise
from math import inf

import psycopg

from ..base.database_errors import text_of
from ..queue.claiming import (
    PRIORITIES,
    Claimed,
    Fetch,
    Range,
    fetch_past,
    first_fetch,
)
from .connections.backoff import Backoff, early

logger = logging.getLogger("pgjobs.worker")

# A rescan that walks over nothing takes a fifth of this for each job that it brings.
# One slow fetch means nothing: the server may be busy. The quicker of two counts.
SLOW_SECONDS = 0.0015
RESCAN_PAUSE = 40  # the pause after a slow fetch, in its durations
FIRST_PAUSE = 0.02  # seconds, after a fetch that passed over a locked job
# In seconds: the longest such pause; for how long fetches by queue follow one that was
# starved; and a job may be committed this long after one behind it.
MOMENT = 1.0


class FetchRule:
    """Decides about each fetch by what the fetches before it have brought.

    A last chance is a job that would fail by one more crash, and so must run alone.
    """

    def __init__(self, poll: float, minds_units: bool = False):
        self.poll = poll  # seconds
        # They are counted only by fetches by queue.
        self.minds_units = minds_units
        self.due = -inf  # the next fetch; -inf: the last one did not show all there is
        self.poll_at = -inf  # and the next poll; fetches at cursors do not postpone it
        self.rescan_at = -inf  # and, while there are cursors, a rescan
        self.is_partial = False  # the last fetch did not go everywhere
        self.waits_for_idle = False  # a last chance is next in claim order
        # Another transaction held a job, or a queue was full.
        self.passed_over = Backoff(FIRST_PAUSE, MOMENT)
        self.by_queue_until = -inf
        # Fetches by queue fail.
        self.without_queues = Backoff(FIRST_PAUSE, MOMENT)
        self.slow_seconds = 0.0  # of the latest rescan; 0 for a quick one
        self.cursors: dict[int, int] = {}  # the turns, by priority
        # The turn before which, most probably, every transaction has ended; the highest
        # one claimed since; and when this takes its place.
        self.ended, self.claimed, self.ended_at = 0, 0, -inf

    # When

    @property
    def may_hold_more(self) -> bool:
        """Whether the last fetch left something, or something has come in."""
        return self.due == -inf

    def due_for(self, is_idle: bool) -> float:
        """Return when a fetch may bring jobs. `is_idle`: the worker holds no jobs."""
        return -inf if is_idle and self.waits_for_idle else self.due

    @property
    def is_empty(self) -> bool:
        """Whether the last fetch saw no job that is READY."""
        return not (
            self.may_hold_more
            or self.waits_for_idle
            or self.is_partial
            or self.passed_over.since is not None
        )

    def wake(self) -> None:
        """Expect jobs: the queue may have changed."""
        self.due = -inf

    def rescan_soon(self, now: float) -> None:
        """Expect jobs before the cursors."""
        self.rescan_at = min(self.rescan_at, now + self.slow_seconds)
        self.due = -inf

    def saw_none(self, now: float, least: float = 0.0) -> None:
        """Remember that no job is READY, as after a fetch that brought nothing.

        `least`: seconds until this will be known again, so that a poll shortly before
        that would be for nothing.
        """
        if self.is_empty:  # a fetch that is due will tell more
            pause = early(self.poll)
            if round(least / self.poll) <= 1:
                pause = max(pause, least)
            self.due = self.poll_at = now + pause

    # Where

    def next_fetch(
        self, slots: int, now: float, must_see_all: bool = False, prefetched: int = 0
    ) -> Fetch:
        """Return how to fetch jobs for so many slots, and some to prefetch."""
        is_by_queue = self.minds_units or now < self.by_queue_until
        if not (slots or (prefetched and not is_by_queue)):
            return Fetch(0)
        if is_by_queue and (self.minds_units or now >= self.without_queues.retry_at):
            return first_fetch(slots, by_queue=True)
        if is_by_queue:
            return fetch_past()
        fetch = first_fetch(slots + prefetched)
        if not self.cursors or now >= self.rescan_at:
            return fetch
        if must_see_all or self.waits_for_idle:  # a last chance may stand anywhere
            return fetch
        return fetch._replace(ranges=list(ranges_from(self.cursors)))

    def can_do_without(self, fetch: Fetch, error: psycopg.Error, now: float) -> bool:
        """Remember why a fetch failed; return whether one of another kind may pass.

        In claim order a worker cannot count units.
        """
        self.cursors = {}
        if not fetch.by_queue or self.minds_units:
            return False
        is_first = self.without_queues.since is None
        pause = self.without_queues.failed(now)
        logger.log(
            logging.ERROR if is_first else logging.DEBUG,  # once is enough
            "Claiming by queue failed, only jobs of queues without a limit run for "
            "%.1f s: %s",
            pause,
            text_of(error),
        )
        return True

    # What a fetch has brought

    def fetched(
        self,
        fetch: Fetch,
        claimed: Claimed,
        slots: int,
        now: float,
        processes: int = 1,
    ) -> None:
        """Plan the next fetch, after one for so many slots and some to prefetch.

        A statement that only recorded does not say what is READY. `processes`: how many
        isolated jobs may begin now. With none left, the fetch may have stopped at one.
        """
        if not fetch.scan_limit or not (slots or claimed.jobs):
            return
        if fetch.by_queue:
            self.without_queues.passed()
        elif fetch.is_complete and not claimed.has_more:
            self.plan_rescan(claimed, now)
        if claimed.has_more and not fetch.by_queue:
            self.plan_after_cut(claimed, now)
        skips = fetch.by_queue or fetch.skips_special or not processes
        if self.slow_seconds and not skips:
            self.remember_ended(claimed, now)
            self.advance(fetch, claimed, slots)
        if slots:
            self.plan(fetch, claimed, slots, now)
        if fetch.isolated and not processes:
            self.stopped_at_isolated()

    def stopped_at_isolated(self) -> None:
        """Go past the isolated job, for which no process is free, with the next one."""
        self.wake()

    def plan(self, fetch: Fetch, claimed: Claimed, slots: int, now: float) -> None:
        """Decide when to fetch again."""
        self.is_partial = not fetch.is_complete
        if now >= self.poll_at or fetch.is_complete:
            self.poll_at = now + early(self.poll)
        self.waits_for_idle = claimed.met_last_chance and not any(
            job.is_last_chance for job in claimed.jobs
        )
        self.due = self.poll_at
        if fetch.skips_special:
            self.due = min(self.due, self.without_queues.retry_at)
        elif self.is_partial:
            self.due = min(self.due, self.rescan_at)
        # Expired jobs are cancelled before the next fetch, but for those that another
        # transaction has locked.
        is_held = claimed.met_locked or claimed.met_expired
        if self.passed_over.since is not None and (claimed.jobs or not is_held):
            self.passed_over.passed()
        if is_held:
            self.passed_over.failed(now)
            self.due = min(self.due, self.passed_over.retry_at)
        if len(claimed.jobs) >= slots or claimed.has_more:
            self.due = -inf

    def plan_after_cut(self, claimed: Claimed, now: float) -> None:
        """Decide what follows a fetch in claim order that was cut short.

        If only rivals have done it, the same fetch comes further the next time.
        """
        if claimed.is_starved or not claimed.jobs:
            self.by_queue_until = now + MOMENT
            self.cursors = {}

    def plan_rescan(self, claimed: Claimed, now: float) -> None:
        """Decide, after a rescan, when the next one is due."""
        seconds, before = claimed.seconds, self.slow_seconds
        is_slow = seconds > SLOW_SECONDS * max(len(claimed.jobs), 1)
        self.slow_seconds = seconds if is_slow else 0.0
        pause = RESCAN_PAUSE * min(before, self.slow_seconds)
        self.rescan_at = min(now + pause, now - seconds + self.poll)
        if not pause:
            self.cursors = {}

    def remember_ended(self, claimed: Claimed, now: float) -> None:
        """Remember the highest turn that was claimed or enqueued a while ago."""
        if now >= self.ended_at:
            self.ended, self.claimed = max(self.ended, self.claimed), 0
            self.ended_at = now + MOMENT
        for job in claimed.jobs:
            self.claimed = max(self.claimed, job.turn)
            # A job that a limit has admitted has a new turn.
            if not job.is_keyed and (job.waited or 0.0) > MOMENT:
                self.ended = max(self.ended, job.turn)

    def advance(self, fetch: Fetch, claimed: Claimed, slots: int) -> None:
        """Move the cursors to the turns before which a fetch has left nothing.

        A full fetch sees nothing of lower priorities. None of these is due while
        fetches are full, so their cursors stay, and the next rescan will do.
        """
        if claimed.has_more or claimed.met_last_chance:
            if fetch.is_complete:
                self.cursors = {}
            return
        is_full = len(claimed.jobs) >= slots
        last = claimed.jobs[-1] if is_full else None
        for priority in {*self.cursors, *(job.priority for job in claimed.jobs)}:
            if last and priority < last.priority:
                continue
            cursor = self.ended
            if last and priority == last.priority:
                cursor = min(cursor, last.turn)
            if not fetch.is_complete:
                cursor = max(cursor, self.cursors.get(priority, 0))
            if cursor:
                self.cursors[priority] = cursor
            else:
                self.cursors.pop(priority, None)


def ranges_from(cursors: Mapping[int, int]) -> Iterator[Range]:
    """Yield, in claim order, the ranges behind the cursors."""
    highest, lowest = PRIORITIES
    in_order = sorted(cursors, reverse=True)
    for above, priority in pairwise([highest + 1, *in_order, lowest - 1]):
        if above - priority > 1:
            yield Range(above - 1, priority + 1, 0)
        if priority in cursors:
            yield Range(priority, priority, cursors[priority])
