"""When the worker looks at the queue if no event wakes it before.

All times are those of a monotonic clock.
"""

import random
from math import inf

from ..queue.claiming import Claimed

FIRST_LOOK_AGAIN = 0.02  # seconds, after a look that passed over a locked job
LONGEST_LOOK_AGAIN = 1.0


class PollSchedule:
    """What the last look at the queue promised for the next one.

    A suspect is a job that would fail by one more crash, and so must run alone.
    """

    def __init__(self, poll: float):
        self.poll = poll
        self.look_at = 0.0  # when the next look is due if no event comes before
        self.poll_at = 0.0  # and the next poll; looks at a part do not postpone it
        self.promote_at = 0.0  # and the next promotion of scheduled jobs
        self.may_hold_more = True  # the last look did not show all there is
        self.waits_for_idle = False  # a suspect is next in line
        self.passed_over = False  # another transaction held a job, or a queue was full
        self.met_expired = False  # the last look met jobs that were not started in time
        self.is_partial = False  # the last look did not go everywhere
        self.look_again = FIRST_LOOK_AGAIN  # seconds, after jobs were passed over

    @property
    def next_look(self) -> float:
        return min(self.look_at, self.promote_at)

    def is_poll_due(self, now: float) -> bool:
        return now >= self.poll_at

    def is_promotion_due(self, now: float) -> bool:
        return now >= self.promote_at

    def deserves_look(self, is_idle: bool, now: float) -> bool:
        """Whether a claim may bring jobs. `is_idle`: the worker holds no jobs."""
        if self.may_hold_more or (is_idle and self.waits_for_idle):
            return True
        return now >= self.next_look

    def must_see_all(self, may_end: bool) -> bool:
        """Whether the next look has to be a complete one.

        A job that must run alone may stand anywhere. If the last look has shown all,
        and the worker may end, the next one makes sure of it.
        """
        return self.waits_for_idle or (may_end and not self.may_hold_more)

    @property
    def is_empty(self) -> bool:
        """Whether the last look saw no job that is READY or due."""
        return not (
            self.may_hold_more
            or self.waits_for_idle
            or self.passed_over
            or self.is_partial
        )

    def wake(self) -> None:
        """Note that the queue may have changed."""
        self.may_hold_more = True

    def wake_for_promotion(self) -> None:
        """Note that a scheduled job may be due before the next one that is known."""
        self.promote_at = 0.0

    def saw_none(self, next_due: float | None, now: float) -> None:
        """Note that no job is READY, as after a look that brought nothing.

        `next_due`: seconds until a scheduled job may run.
        """
        if self.is_empty:  # or the last look asks for another one, and only that tells
            self.look_at = self.poll_at = now + self.poll * random.uniform(0.8, 1)
        if next_due is not None:
            self.promote_at = min(self.promote_at, now + next_due)

    def plan(
        self,
        claimed: Claimed,
        limit: int,
        promoted: bool,
        now: float,
        rewind_at: float | None = None,
    ) -> None:
        """Decide when to look again, after a look for `limit` jobs.

        A look for none, but for jobs ahead of the slots, only tells when to promote.
        `promoted`: a promotion came before the look. `rewind_at`: when the next
        complete look is due. It is None after a complete look.
        """
        due = inf if claimed.next_due is None else claimed.next_due
        # Overdue: the promotion comes late, or another transaction has locked the job.
        is_overdue = due <= 0
        if limit:
            self.plan_look(claimed, limit, is_overdue, now, rewind_at)
        if not is_overdue:
            # A partial look does not see jobs that are long overdue.
            is_all_known = promoted or rewind_at is None
            known = inf if is_all_known else self.promote_at
            self.promote_at = min(known, now + due)
        elif promoted:
            self.promote_at = now + self.look_again
        else:  # a busy worker looks each millisecond and must not keep postponing it
            self.promote_at = min(self.promote_at, now + self.look_again)
        if limit and self.passed_over:
            self.look_again = min(2 * self.look_again, LONGEST_LOOK_AGAIN)

    def plan_look(
        self,
        claimed: Claimed,
        limit: int,
        is_overdue: bool,
        now: float,
        rewind_at: float | None,
    ) -> None:
        """Decide when to look again for jobs that are READY."""
        # Expired jobs are cancelled before the next look, but for those that another
        # transaction has locked.
        is_held = claimed.met_locked or (claimed.met_expired and self.met_expired)
        claimed_suspect = any(job.is_suspect for job in claimed.jobs)
        self.waits_for_idle = claimed.met_suspect and not claimed_suspect
        self.may_hold_more = (
            len(claimed.jobs) >= limit
            or claimed.has_more
            or (claimed.met_expired and not self.met_expired)
        )
        self.met_expired = claimed.met_expired
        self.is_partial = rewind_at is not None
        if now >= self.poll_at or rewind_at is None:
            self.poll_at = now + self.poll * random.uniform(0.8, 1)
        self.look_at = self.poll_at
        if rewind_at is not None:
            self.look_at = min(self.look_at, rewind_at)
        self.passed_over = is_held or is_overdue
        if claimed.jobs or not self.passed_over:
            self.look_again = FIRST_LOOK_AGAIN
        if is_held:
            self.look_at = min(self.look_at, now + self.look_again)
