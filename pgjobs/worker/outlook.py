"""When the queue deserves a look, if nobody wakes the worker before."""

import random
from time import monotonic

from ..models.work import Turn

FIRST_LOOK_AGAIN = 0.02  # after passing over a READY job that another one locked
LONGEST_LOOK_AGAIN = 1.0


class Outlook:
    """What the last look at the queue promised for the next one.

    A suspect is a job that would fail by one more crash, and so must run alone.
    """

    def __init__(self, poll: float):
        self.poll = poll
        self.look_at = 0.0  # monotonic time of the next look, if nothing happens before
        self.may_hold_more = True  # the last look did not show all there is
        self.waits_for_idle = False  # a suspect is next in line
        self.passed_over = False  # what could have been ours, another one had locked
        self.look_again = FIRST_LOOK_AGAIN  # seconds, in that case

    @property
    def is_due(self) -> bool:
        return monotonic() >= self.look_at

    @property
    def deserves_look(self) -> bool:
        return self.may_hold_more or self.is_due

    @property
    def is_empty(self) -> bool:
        """Whether nothing was READY or due, neither for us nor passed over."""
        return not self.may_hold_more and not self.passed_over

    def expect_jobs(self) -> None:
        """Note that the queue may have changed."""
        self.may_hold_more = True

    def expect_due(self) -> None:
        """Note that a scheduled job may be due before the next one that is known."""
        self.look_at = 0.0

    def plan(self, brought: Turn, limit: int) -> None:
        """Decide when to look again, after a turn that asked for `limit` jobs."""
        claimed_suspect = any(job.is_suspect for job in brought.claimed)
        self.waits_for_idle = brought.met_suspect and not claimed_suspect
        self.may_hold_more = len(brought.claimed) == limit or self.waits_for_idle
        wait = self.poll * random.uniform(0.8, 1)
        due = brought.next_due
        if due is not None and due > 0:
            wait = min(wait, due)
        # Overdue: nobody has promoted it yet, or another transaction has locked it.
        is_overdue = due is not None and due <= 0
        self.passed_over = brought.met_locked or is_overdue
        if self.passed_over and not brought.met_suspect:
            wait = min(wait, self.look_again)
            self.look_again = min(2 * self.look_again, LONGEST_LOOK_AGAIN)
        else:
            self.look_again = FIRST_LOOK_AGAIN
        self.look_at = monotonic() + wait
