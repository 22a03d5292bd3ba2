"""Where to begin the walk along the line of READY jobs, while its past is still there.

A transaction that lasts keeps PostgreSQL from removing what the index says of jobs that
were claimed since it began, and each look at the queue walks over all of that. While
looks are slow for that reason, most of them begin at marks: for each queue and priority
the turn of a job that was claimed a while ago. What has come in before a mark meanwhile
(retries, promoted jobs, late commits) is found by looking back.
"""

from collections.abc import Iterable
from itertools import groupby
from math import inf
from time import monotonic

from ..models.job import HIGHEST_PRIORITY, LOWEST_PRIORITY
from ..queue import claiming
from ..queue.claiming import ClaimedJob, Span

# A look takes a fifth of it, and some time for each job, if it walks over nothing.
SLOW_SECONDS = 0.0015
SLOW_SECONDS_PER_JOB = 0.00002
WALKS = 3  # of a look, over the same past; looking back takes one
# What share of the latest looks is slow when marks begin to pay, and pay no more.
# Single ones mean nothing: the server has other things to do, too.
MOST, FEW = 0.8, 0.5
LATEST_LOOKS = 10
LATE_SECONDS = 1.0  # that a job's COMMIT may come later than that of the one behind it
LOOK_BACK_SECONDS = 2.0
REST = 4  # as many times as it took, no look back follows another one
MOST_MARKS = 100


class Marks:
    """There are none while looks are quick without them, nor soon afterwards."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        self.turns: claiming.Marks = {}  # where the walks begin
        # Reached since they were moved for the last time.
        self.recent: claiming.Marks = {}
        self.older: claiming.Marks = {}  # and in the interval before
        self.move_at = inf
        self.look_back_at = 0.0  # monotonic time
        self.rested_at = 0.0
        self.slow_share = 0.0  # of the latest looks without marks
        # All but what lies before the marks; None: look everywhere.
        self.spans: list[Span] | None = None

    def hear(self, queue_name: str) -> None:
        """Note that a queue may have new jobs; without a mark nobody looks there."""
        if self.spans and all(span.queue_name != queue_name for span in self.spans):
            self.doubt()

    def doubt(self) -> None:
        """Note that jobs may have come in before the marks."""
        self.look_back_at = min(self.look_back_at, self.rested_at)

    @property
    def must_look_back(self) -> bool:
        return self.spans is not None and monotonic() >= self.look_back_at

    @property
    def is_collecting(self) -> bool:
        return self.move_at < inf

    def looked_back(self, found: claiming.Marks, seconds: float) -> None:
        """Note what was found before the marks, and how long the server looked."""
        self.judge(seconds, is_slow=seconds > SLOW_SECONDS / WALKS)
        if not self.is_collecting:
            return
        for place, turn in found.items():
            self.move_back(place, turn)
        if found:
            self.doubt()  # there may be more of these queues

    def looked_everywhere(self, seconds: float, claimed: int) -> None:
        """Note how long the server looked without marks, to claim so many jobs."""
        usual = SLOW_SECONDS + claimed * SLOW_SECONDS_PER_JOB
        self.judge(seconds, is_slow=seconds > usual)

    def judge(self, seconds: float, is_slow: bool) -> None:
        """Decide whether marks pay, and when to look back, after a look."""
        now = monotonic()
        self.slow_share += (is_slow - self.slow_share) / LATEST_LOOKS
        if self.is_collecting and self.slow_share < FEW:
            return self.forget()
        if not self.is_collecting and self.slow_share > MOST:
            self.move_at = now + LATE_SECONDS
        self.rested_at = now + REST * seconds
        self.look_back_at = self.rested_at
        if is_slow:
            self.look_back_at = max(now + LOOK_BACK_SECONDS, self.rested_at)

    def reached(self, claimed: Iterable[ClaimedJob]) -> None:
        """Note which jobs were claimed, in line, if that matters at present."""
        if not self.is_collecting:
            return
        for job in claimed:
            place = job.queue_name, job.priority
            self.recent[place] = job.turn
        if monotonic() >= self.move_at:
            self.move()

    def move_back(self, place: tuple[str, int], turn: int) -> None:
        """Begin at a job that was found before the mark; more may stand behind it."""
        if place not in self.turns and len(self.turns) >= MOST_MARKS:
            return self.forget()  # or nobody would look at its queue
        self.turns[place] = turn
        self.older.pop(place, None)
        self.recent.pop(place, None)
        self.spans = list(spans_beyond(self.turns))

    def move(self) -> None:
        """Move the marks to what was reached at least `LATE_SECONDS` ago."""
        self.move_at = monotonic() + LATE_SECONDS
        for place, turn in self.older.items():
            if place in self.turns or len(self.turns) < MOST_MARKS:
                self.turns[place] = max(turn, self.turns.get(place, 0))
        self.older, self.recent = self.recent, {}
        if self.turns:
            self.spans = list(spans_beyond(self.turns))


def spans_beyond(marks: claiming.Marks) -> Iterable[Span]:
    """Yield, of the queues that have marks, all but what lies before them."""
    in_line = sorted(marks, key=lambda place: (place[0], -place[1]))
    for queue_name, places in groupby(in_line, key=lambda place: place[0]):
        highest = HIGHEST_PRIORITY
        for _, priority in places:
            if priority < highest:
                yield Span(queue_name, highest, priority + 1, 0)
            yield Span(queue_name, priority, priority, marks[queue_name, priority])
            highest = priority - 1
        if highest >= LOWEST_PRIORITY:
            yield Span(queue_name, highest, LOWEST_PRIORITY, 0)
