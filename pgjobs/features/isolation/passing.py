"""When a worker whose processes are all busy looks past READY isolated jobs."""

from math import inf
from typing import Any

import psycopg

from ...base.database_errors import is_lost
from ...queue.claiming import Claimed, Fetch
from ...sql import statement
from ...worker.claimer import Capacity
from ...worker.fetch_rule import MOMENT, RESCAN_PAUSE, FetchRule


class PassingRule(FetchRule):
    """The rule of fetches that pass over all isolated jobs.

    To walk over them takes the longer, the more there are. So a fetch that has walked
    over all of them and brought nothing leaves cursors at the last jobs that were READY
    a moment before, and is a rescan; those that follow begin there.
    """

    def __init__(self, poll: float, minds_units: bool, connection: Any) -> None:
        super().__init__(poll, minds_units)
        self.connection = connection
        self.is_next = False  # although a process may be free
        self.began_at = -inf  # the latest fetch
        self.rests_until = -inf
        # The last turns of each priority, when they were asked, and those before them.
        self.last: dict[int, int] = {}
        self.last_at = -inf
        self.before: dict[int, int] = {}

    def decides(self, processes: int) -> bool:
        """Whether the next fetch is of this rule; so many isolated jobs may begin."""
        return self.is_next or processes <= 0

    def pass_isolated(self, now: float) -> None:
        """Look past isolated jobs, but not after each one that begins.

        If a look is due it comes next, also if a process is free by then: where
        isolated jobs are short, one mostly is.
        """
        self.due = min(self.due, self.rests_until)
        self.is_next = now >= self.due

    def next_fetch(
        self, slots: int, now: float, must_see_all: bool = False, prefetched: int = 0
    ) -> Fetch:
        if now < min(self.due, self.rests_until) and not must_see_all:
            return Fetch(0)
        fetch = super().next_fetch(slots, now, must_see_all, prefetched)
        fetch = fetch._replace(isolated=0)
        has_cursors = not self.minds_units
        if has_cursors and fetch.by_queue and now >= self.last_at + MOMENT:
            self.ask_for_last(now)
        self.began_at = now
        return fetch

    def fetched(
        self,
        fetch: Fetch,
        claimed: Claimed,
        slots: int,
        now: float,
        processes: int = 0,
    ) -> None:
        super().fetched(fetch, claimed, slots, now, processes=0)
        if not fetch.scan_limit:
            return
        self.is_next = False
        seconds = now - self.began_at
        self.rests_until = now + RESCAN_PAUSE * seconds
        if fetch.by_queue and self.before and not (self.minds_units or leaves(claimed)):
            self.slow_seconds, self.by_queue_until = seconds, -inf
            self.cursors = dict(self.before)
            self.rescan_at = now + min(RESCAN_PAUSE * seconds, self.poll)

    def ask_for_last(self, now: float) -> None:
        """Ask for the turns behind which the READY jobs of each priority come to be.

        A job may be committed a moment after one behind it.
        """
        try:
            rows = self.connection.execute(statement("last_turns"), {})
        except psycopg.Error as error:
            if is_lost(error):
                raise
            rows = []
        self.before, self.last, self.last_at = self.last, dict(rows), now


def leaves(claimed: Claimed) -> bool:
    """Whether a fetch has left a job that is READY, and not isolated."""
    return bool(
        claimed.jobs
        or claimed.has_more
        or claimed.met_locked
        or claimed.met_last_chance
        or claimed.met_expired
    )


class EitherRule:
    """The rule of a worker that may lack processes for isolated jobs.

    Whichever of two rules decides about the next fetch stands for this one.
    """

    def __init__(self, plain: FetchRule, capacity: Capacity, connection: Any) -> None:
        self.plain = plain
        self.passing = PassingRule(plain.poll, plain.minds_units, connection)
        self.passing.pass_isolated(-inf)
        self.used = plain  # the rule that made the latest fetch
        self.capacity = capacity

    @property
    def deciding(self) -> FetchRule:
        """The rule that decides about the next fetch."""
        is_passing = self.passing.decides(self.capacity.free_processes)
        return self.passing if is_passing else self.plain

    def __getattr__(self, name: str) -> Any:
        """Return what the rule has that decides."""
        return getattr(self.deciding, name)

    @property
    def is_empty(self) -> bool:
        """Whether the last fetch saw no READY job that may begin: a drain asks.

        A look past isolated jobs says nothing of those for which a process is free.
        """
        has_process = self.capacity.free_processes > 0
        return self.plain.is_empty if has_process else self.passing.is_empty

    def wake(self) -> None:
        """Expect jobs: the queue may have changed."""
        self.plain.wake()
        self.passing.wake()

    def rescan_soon(self, now: float) -> None:
        """Expect old jobs, too."""
        self.plain.rescan_soon(now)
        self.passing.rescan_soon(now)

    def next_fetch(self, *how: Any) -> Fetch:
        """Return the next fetch, and remember whose it is."""
        self.used = self.deciding
        return self.used.next_fetch(*how)

    def can_do_without(self, *how: Any) -> bool:
        """Remember why a fetch failed. A look past isolated jobs that fails, maybe
        because there are too many, does not keep them from beginning.
        """
        self.passing.is_next = False
        return self.used.can_do_without(*how)

    def fetched(
        self,
        fetch: Fetch,
        claimed: Claimed,
        slots: int,
        now: float,
        processes: int = 0,
    ) -> None:
        """Learn from a fetch. One that stopped at an isolated job is followed by others
        past it.
        """
        self.used.fetched(fetch, claimed, slots, now, processes)
        if fetch.isolated and not processes:
            self.passing.pass_isolated(now)


class WatchingRule(FetchRule):
    """A plain rule, which lets another one take its place once it is needed."""

    def __init__(self, claimer: Any) -> None:
        super().__init__(claimer.rule.poll, claimer.rule.minds_units)
        self.claimer = claimer

    def stopped_at_isolated(self) -> None:
        super().stopped_at_isolated()
        if self.claimer.rule is self:
            self.claimer.rule = either_of(self.claimer)


def either_of(claimer: Any) -> EitherRule:
    return EitherRule(claimer.rule, claimer.capacity, claimer.connection)


def rule_of(claimer: Any) -> Any:
    """Return the rule of a new worker, which has a plain one."""
    if not claimer.capacity.processes:
        return either_of(claimer)
    is_enough = claimer.capacity.processes >= claimer.options.slots
    return claimer.rule if is_enough else WatchingRule(claimer)


RULES = (rule_of,)
