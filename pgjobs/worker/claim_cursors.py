"""Where a claim looks for jobs.

Most looks walk along the line of all READY jobs and are complete. Two things make that
walk long: jobs at its beginning that the worker does not serve, and index entries of
jobs that are gone, which PostgreSQL keeps while an old transaction lasts. Where a look
was cut short because of the former, a look into each queue follows it. One that other
workers cut short, by claiming its jobs meanwhile, is repeated instead. While complete
looks are slow for either reason, most looks begin at cursors. A cursor is, for one
priority, the turn before which the latest looks have left nothing.

Jobs may come in before a cursor: a retry, a promoted job, a late COMMIT, a job of a
queue that was resumed. The next complete look finds them, or the next rewind: that is
a complete look in parts. It comes within seconds, and never later than a poll. So
complete looks are the guarantee; cursors only save time.

While looks into each queue fail, looks for plain jobs replace most of them.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from itertools import pairwise
from math import inf

import psycopg

from ..base.database_errors import passes_by_itself, text_of
from ..queue.claiming import Claimed, ClaimedJob
from ..queue.looks import (
    HIGHEST_PRIORITY,
    LOWEST_PRIORITY,
    Look,
    Range,
    first_look,
    plain_look,
)
from .connections.faults import Backoff
from .rewind import REST, Part, Rewind
from .upkeep.chore import FIRST_PAUSE, LONGEST_PAUSE

logger = logging.getLogger("pgjobs.worker")

# A complete look that walks over nothing takes a fifth of this, and some time for each
# job.
SLOW_SECONDS = 0.0015
SLOW_SECONDS_PER_JOB = 0.00002
# Cursors begin to pay above the first share of slow looks among the latest ones, and
# pay no more below the second. One slow look means nothing: the server may be busy.
MOST, FEW = 0.8, 0.5
LATEST_LOOKS = 10
LATE_SECONDS = 1.0  # how long after the job behind it a job may be committed
REWIND_SECONDS = 2.0
# After a look that was cut short, the next ones are longer from the start, for a while.
CROWDED_SECONDS = 2.0


class Horizon:
    """The turn before which, most probably, every transaction has ended."""

    def __init__(self) -> None:
        self.turn = 0
        self.recent = 0  # the highest turn claimed since the horizon moved
        self.move_at = -inf

    def saw(self, claimed: Claimed, now: float) -> None:
        """Move the horizon to what was claimed or enqueued a while ago."""
        turns = [job.turn for job in claimed.jobs]
        if now >= self.move_at:
            self.turn, self.recent = max(self.turn, self.recent), 0
            self.move_at = now + LATE_SECONDS
        self.recent = max([self.recent, *turns])
        self.turn = max([self.turn, *turns_of_old_jobs(claimed)])


def turns_of_old_jobs(claimed: Claimed) -> Iterator[int]:
    """Yield the turns of jobs that were enqueued a while ago, by the server's clock."""
    for job in claimed.jobs:
        # A job that a limit has admitted has a new turn.
        if not job.is_keyed:
            age = claimed.at - job.enqueued_at
            if age > timedelta(seconds=LATE_SECONDS):
                yield job.turn


class ClaimCursors:
    """Decides where each claim looks; times are those of a monotonic clock."""

    def __init__(self, poll: float, minds_units: bool = False):
        self.poll = poll  # seconds
        # Units are counted only by looks into each queue.
        self.minds_units = minds_units
        # Until these times, looks list many jobs to spare, or go into each queue.
        self.long_until = -inf
        self.by_queue_until = -inf
        self.follow_up: Look | None = None  # the last look was cut short
        self.latest: Look | None = None
        self.backoff = Backoff(FIRST_PAUSE, LONGEST_PAUSE)  # of looks into each queue
        self.seconds = 0.0  # of the server, for looks since the last complete one
        self.slow_share = 0.0  # of the latest complete looks
        self.rested_at = -inf
        self.rewind_at = -inf  # when a complete look, or the next part of one, is due
        self.stuck_at = -inf  # when a complete look is due instead of that part
        # A look ahead of the slots came upon jobs that need a slot at once.
        self.needs_slot = False
        self.forget()

    def forget(self) -> None:
        self.is_collecting = False
        self.horizon = Horizon()
        self.priorities: set[int] = set()
        self.turns: dict[int, int] = {}  # the cursors, by priority
        self.rewind = Rewind(self.poll)

    @property
    def are_set(self) -> bool:
        return bool(self.turns)

    @property
    def highest(self) -> int:
        return max(self.turns.values())

    def next_look(
        self, limit: int, now: float, must_see_all: bool = False, ahead: int = 0
    ) -> Look:
        """Return where to look for `limit` jobs, and some ahead of the slots."""
        look = self.wanted_look(limit + ahead, now, must_see_all)
        if look.by_queue and self.backoff.is_waiting(now):
            look = plain_look(limit + ahead)
        self.latest = look
        return look

    def wanted_look(self, number: int, now: float, must_see_all: bool) -> Look:
        if not number:
            return first_look(0)
        if self.follow_up:
            return self.follow_up
        may_be_partial = self.are_set and not must_see_all
        if may_be_partial and now < self.rewind_at:
            return self.look_at_cursors(number)
        if self.minds_units or now < self.by_queue_until:
            return first_look(number, by_queue=True)
        if may_be_partial and self.rewind.is_cut and now < self.stuck_at:
            look = self.look_at_cursors(number, self.rewind.part)
            sees_overdue = self.rewind.is_at_last_part
            return look._replace(is_part=True, sees_overdue=sees_overdue)
        return first_look(number, is_long=now < self.long_until)

    def look_at_cursors(self, number: int, part: Part | None = None) -> Look:
        look = first_look(number, is_long=True)
        return look._replace(ranges=list(ranges_from(self.turns, part)))

    def invalidate(self) -> None:
        """Note that jobs may have come in before the cursors."""
        if self.rewind.is_under_way:
            self.rewind.is_stale = True
        else:
            self.rewind_at = min(self.rewind_at, self.rested_at)

    def failed(self) -> None:
        """Begin again with the cheapest look after a look that raised an error."""
        self.follow_up = None
        self.by_queue_until = -inf
        self.forget()

    def can_do_without(self, error: psycopg.Error, now: float) -> bool:
        """Note why the latest look failed; return whether one of another kind may pass.

        Along the line a worker cannot count units, and does not get past the jobs that
        it may not claim.
        """
        if self.latest is None or not self.latest.by_queue or passes_by_itself(error):
            return False
        pause = self.backoff.failed(now)
        logger.error(
            "Claiming by queue failed, only plain jobs run for %.1f s: %s",
            pause,
            text_of(error),
        )
        return True

    def complete_look_at(self, look: Look) -> float | None:
        """Return when a complete look, or a part of one, is due; None after one."""
        if look.is_complete:
            return None
        return self.backoff.retry_at if look.is_plain else self.rewind_at

    def looked(self, look: Look, claimed: Claimed, limit: int, now: float) -> None:
        """Note what a look for `limit` jobs brought."""
        if not look.reach:
            return
        if not limit and not claimed.jobs:
            # That does not say what is in line. Where it matters, wait for a slot.
            self.needs_slot = self.are_set and (look.is_complete or look.is_part)
            return
        self.needs_slot = False
        if look.by_queue:
            self.backoff.passed()
        if look.is_complete:
            self.seconds += claimed.seconds
        self.follow_up = None
        if claimed.has_more:
            self.note_cut(look, claimed.is_crowded, now)
            self.follow_up = self.after_more(look, claimed, now)
        if look.is_complete and not claimed.has_more:
            self.judge(self.seconds, claimed, now)
            self.seconds = 0.0
        if look.is_part:
            self.note_part(claimed, limit, now)
        if self.is_collecting and not look.is_plain:
            self.priorities.update(job.priority for job in claimed.jobs)
            self.horizon.saw(claimed, now)
            self.advance(look, claimed, limit)
            self.note_duration(look, claimed)

    def after_more(self, look: Look, claimed: Claimed, now: float) -> Look | None:
        """Return the look after one that did not see all there is.

        Return None if the next look may begin wherever it is cheapest.
        """
        is_line_crowded = claimed.is_crowded and not look.by_queue
        if is_line_crowded or not claimed.jobs:
            return look.further()
        if look.by_queue and (self.minds_units or now < self.by_queue_until):
            return look  # it comes further if it is repeated
        # Only rivals have cut it short. Along the line the next one costs least.
        return None

    def note_cut(self, look: Look, is_crowded: bool, now: float) -> None:
        """Note that a look was too short, so that the next ones list more jobs."""
        if look.is_complete and not look.by_queue:
            self.long_until = now + CROWDED_SECONDS
            if look.is_long and is_crowded:
                self.by_queue_until = now + CROWDED_SECONDS

    def judge(self, seconds: float, claimed: Claimed, now: float) -> None:
        """Decide, after a complete look, whether cursors pay, and when the next is due.

        The next complete look begins at most a poll after this one has begun. It comes
        earlier if this one has left jobs before the cursors: a full queue may soon
        have room again.
        """
        is_slow = seconds > SLOW_SECONDS + len(claimed.jobs) * SLOW_SECONDS_PER_JOB
        self.slow_share += (is_slow - self.slow_share) / LATEST_LOOKS
        if self.slow_share < FEW:
            self.forget()
        elif self.slow_share > MOST:
            self.is_collecting = not self.minds_units
        must_follow = claimed.met_locked or not is_slow
        self.plan_rewind(now - seconds, seconds, must_follow, now)

    def plan_rewind(
        self, begun_at: float, seconds: float, must_follow: bool, now: float
    ) -> None:
        """Decide when the line is walked again, after the latest look took so long.

        `begun_at`: when the last walk began. `must_follow`: another one, and soon.
        """
        latest = begun_at + self.poll
        self.rested_at = min(now + REST * seconds, latest)
        wait = 0.0 if must_follow else REWIND_SECONDS
        self.rewind_at = min(max(now + wait, self.rested_at), latest)
        self.stuck_at = self.rewind_at + self.poll

    def note_part(self, claimed: Claimed, limit: int, now: float) -> None:
        """Decide when the next part of the rewind is due, or the next rewind."""
        rewind, seconds = self.rewind, claimed.seconds
        rewind.is_stale |= claimed.met_locked
        ended_early = len(claimed.jobs) >= limit and self.is_before(claimed.jobs[-1])
        if claimed.has_more or claimed.met_suspect:  # the part comes again
            self.rested_at = self.rewind_at = now + REST * seconds
        elif rewind.saw_part(own_seconds(claimed), self.highest, now, ended_early):
            self.plan_rewind(rewind.begun_at, seconds, rewind.is_stale, now)
            rewind.is_stale = False
        else:
            self.rested_at = self.rewind_at = now + rewind.pause(seconds, now)
            longest = min(max(self.poll, 2 * rewind.duration), 2 * self.poll)
            self.stuck_at = rewind.begun_at + longest

    def is_before(self, job: ClaimedJob) -> bool:
        """Whether the job stands before the cursor of its or of a lower priority."""
        turn = self.turns.get(job.priority, 0)
        return job.turn < turn or min(self.turns) < job.priority

    def note_duration(self, look: Look, claimed: Claimed) -> None:
        """Let the rewind know what looks take, so that it can be cut into parts."""
        if look.is_complete and not claimed.has_more:
            if look.is_along_line and self.are_set:
                self.rewind.saw_line(own_seconds(claimed), self.highest)
            else:
                self.rewind.saw_all()
        elif not (look.is_complete or look.is_part):
            self.rewind.saw_cursors(own_seconds(claimed))

    def advance(self, look: Look, claimed: Claimed, limit: int) -> None:
        """Move the cursors to where a look has left nothing behind it.

        If it has ended in the part that it took along, the next ones begin there. A
        full look sees nothing of lower priorities. None of these is due while looks are
        full, so their cursors stay, and the next rewind will do.
        """
        known = {} if look.is_complete else self.turns
        if not (claimed.has_more or claimed.met_suspect):
            last = claimed.jobs[-1] if len(claimed.jobs) >= limit else None
            if last and look.is_complete:
                cursors = self.turns.items()
                known = {each: turn for each, turn in cursors if each < last.priority}
            elif last and look.is_part and last.priority in known:
                turn = min(known[last.priority], last.turn)
                known = {**known, last.priority: turn}
            reached = dict(turns_reached(self.priorities, last, self.horizon.turn))
            known = {
                priority: max(known.get(priority, 0), reached.get(priority, 0))
                for priority in self.priorities
            }
        self.turns = {priority: turn for priority, turn in known.items() if turn}


def own_seconds(claimed: Claimed) -> float:
    """Return how long a look took, less some time for each job that it brought."""
    return max(claimed.seconds - len(claimed.jobs) * SLOW_SECONDS_PER_JOB, 0.0)


def turns_reached(
    priorities: Iterable[int], last: ClaimedJob | None, horizon: int
) -> Iterator[tuple[int, int]]:
    """Yield, by priority, the turns before which a look has left nothing.

    `last`: the last job that the look claimed. It is None if the look saw the end of
    the line, and so has left nothing anywhere before the horizon. Behind the horizon,
    jobs may still be committed late.
    """
    for priority in priorities:
        if last is None or priority > last.priority:
            yield priority, horizon
        elif priority == last.priority:
            yield priority, min(last.turn, horizon)


def ranges_from(
    cursors: Mapping[int, int], part: Part | None = None
) -> Iterator[Range]:
    """Yield, in the order of the line, the ranges behind the cursors.

    With a part, also yield what of it stands before them.
    """
    in_line = sorted(cursors, reverse=True)
    limits = [HIGHEST_PRIORITY + 1, *in_line, LOWEST_PRIORITY - 1]
    for above, priority in pairwise(limits):
        if above - priority > 1:
            yield Range(above - 1, priority + 1, 0)
        if priority in cursors:
            cursor = cursors[priority]
            if part and part.first < cursor:
                last = min(part.last, cursor - 1)
                yield Range(priority, priority, part.first, last)
            yield Range(priority, priority, cursor)
