"""When the queue deserves a look, if nobody wakes the worker before."""

import random
from math import inf
from time import monotonic

from ..queue.claiming import Turn

FIRST_LOOK_AGAIN = 0.02  # seconds, after passing over a job that another one locked
LONGEST_LOOK_AGAIN = 1.0


class Outlook:
    """What the last look at the queue promised for the next one.

    A suspect is a job that would fail by one more crash, and so must run alone.
    """

    def __init__(self, poll: float):
        self.poll = poll
        self.look_at = 0.0  # monotonic time of the next look, if nothing happens before
        self.promote_at = 0.0  # and of the next promotion of scheduled jobs
        self.may_hold_more = True  # the last look did not show all there is
        self.waits_for_idle = False  # a suspect is next in line
        self.passed_over = False  # what could have been ours, another one had locked
        self.is_partial = False  # the last look did not go everywhere
        self.look_again = FIRST_LOOK_AGAIN  # seconds, in that case

    @property
    def next_look(self) -> float:
        return min(self.look_at, self.promote_at)

    @property
    def is_poll_due(self) -> bool:
        return monotonic() >= self.look_at

    @property
    def is_promotion_due(self) -> bool:
        return monotonic() >= self.promote_at

    def deserves_look(self, is_idle: bool) -> bool:
        """Whether a claim may bring jobs; `is_idle`: the worker holds none."""
        if self.may_hold_more or (is_idle and self.waits_for_idle):
            return True
        return monotonic() >= self.next_look

    @property
    def is_empty(self) -> bool:
        """Whether nothing was READY or due, neither for us nor passed over."""
        return not (
            self.may_hold_more
            or self.waits_for_idle
            or self.passed_over
            or self.is_partial
        )

    def expect_jobs(self) -> None:
        """Note that the queue may have changed."""
        self.may_hold_more = True

    def expect_due(self) -> None:
        """Note that a scheduled job may be due before the next one that is known."""
        self.promote_at = 0.0

    def saw_none(self, next_due: float | None) -> None:
        """Note that nothing was READY, as after a look that brought nothing.

        `next_due`: seconds until a scheduled job may run.
        """
        self.look_at = monotonic() + self.poll * random.uniform(0.8, 1)
        if next_due is not None:
            self.promote_at = min(self.promote_at, monotonic() + next_due)

    def plan(
        self,
        brought: Turn,
        limit: int,
        promoted: bool,
        look_back_at: float | None = None,
    ) -> None:
        """Decide when to look again, after a turn that asked for `limit` jobs.

        `promoted`: the turn began with a promotion. `look_back_at`: when the look is
        due that goes everywhere, if this one did not (monotonic time).
        """
        now = monotonic()
        claimed_suspect = any(job.is_suspect for job in brought.claimed)
        self.waits_for_idle = brought.met_suspect and not claimed_suspect
        met_all = len(brought.claimed) < limit and not brought.met_expired
        self.may_hold_more = not met_all
        self.look_at = now + self.poll * random.uniform(0.8, 1)
        self.is_partial = look_back_at is not None
        if look_back_at is not None:
            self.look_at = min(self.look_at, look_back_at)
        due = inf if brought.next_due is None else brought.next_due
        # Overdue: it came late, or another transaction has locked it.
        is_overdue = due <= 0
        self.passed_over = brought.met_locked or is_overdue
        if brought.claimed or not self.passed_over:
            self.look_again = FIRST_LOOK_AGAIN
        if brought.met_locked:
            self.look_at = min(self.look_at, now + self.look_again)
        if not is_overdue:
            self.promote_at = now + due
        elif promoted:
            self.promote_at = now + self.look_again
        else:  # a busy worker, which turns each millisecond, must not put it off
            self.promote_at = min(self.promote_at, now + self.look_again)
        if self.passed_over:
            self.look_again = min(2 * self.look_again, LONGEST_LOOK_AGAIN)
