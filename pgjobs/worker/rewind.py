"""The rewind: a complete look in parts.

A complete look that walks over the index entries of many jobs that are gone keeps each
job waiting that comes in meanwhile. So the line before the cursors is cut into parts,
by turns. A look at the cursors takes one part along, the newest first: most jobs that
come in before a cursor are young. A part that takes long is cut in halves. Neighbours
that take little become one.
"""

from math import inf
from typing import NamedTuple

LAST_TURN = 2**63 - 1  # the newest part has no other end
PART_SECONDS = 0.003  # by which a part may make a look longer
REST = 4  # the pause after a complete look, or a part of one, in its durations
# What all parts may take by their number alone, as a share of the poll interval.
SHARE_OF_POLL = 0.25


class Part(NamedTuple):
    """The jobs of all priorities that have these turns."""

    first: int
    last: int
    seconds: float = 0.0  # by which it has made the last look longer

    def halves(self) -> list["Part"]:
        middle = (self.first + self.last) // 2
        seconds = self.seconds / 2
        older = Part(self.first, middle, seconds)
        return [older, Part(middle + 1, self.last, seconds)]


class Rewind:
    """The parts of the line before the cursors, and which of them comes next."""

    def __init__(self, poll: float):
        self.poll = poll  # seconds
        # The parts of this rewind, from the oldest to the newest. The last one of those
        # that are left comes next.
        self.left: list[Part] = []
        self.seen: list[Part] = []
        self.usual = inf  # seconds of a look at the cursors alone, once it is known
        self.begun_at = 0.0
        # Another one must follow: jobs may have come in that this one does not see.
        self.is_stale = False

    @property
    def is_cut(self) -> bool:
        """Whether there are parts: a complete look would take too long."""
        return bool(self.left)

    @property
    def is_under_way(self) -> bool:
        return self.is_cut and self.part.last < LAST_TURN

    @property
    def part(self) -> Part:
        """The part that comes next."""
        return self.left[-1]

    @property
    def is_at_last_part(self) -> bool:
        return len(self.left) == 1

    def saw_cursors(self, seconds: float) -> None:
        """Note a look at the cursors alone. One that was slow may have had to wait."""
        if seconds < self.usual:
            self.usual = seconds
        else:
            self.usual += (seconds - self.usual) / 10

    def saw_line(self, seconds: float, highest: int) -> None:
        """Note a complete look along the line. `highest`: the highest cursor."""
        whole = Part(0, highest, seconds - self.usual)
        if not self.is_cut and self.pays_to_cut(whole):
            self.seen = whole.halves()
        self.saw_all()

    def saw_all(self) -> None:
        """Note a complete look."""
        self.restart()
        self.is_stale = False

    def saw_part(
        self, seconds: float, highest: int, now: float, ended_early: bool = False
    ) -> bool:
        """Note a look that took the next part along; return whether it was the last.

        `ended_early`: the look has ended in the part, or before it. Then the part is
        neither cut nor joined for what it did not take.
        """
        part = self.left.pop()
        if part.last == LAST_TURN:
            self.begun_at = now - seconds
            part = part._replace(last=highest)
        extra = max(seconds - self.usual, 0.0)
        if ended_early:
            extra = max(extra, min(part.seconds, PART_SECONDS))
        part = part._replace(seconds=extra)
        if self.pays_to_cut(part):
            self.seen[:0] = part.halves()
        elif part.first <= part.last:
            self.add_or_join(part)
        if self.left:
            return False
        self.restart()
        return True

    def restart(self) -> None:
        """Let the next part be the newest one; it ends where the cursors are then."""
        parts = self.left + self.seen
        if parts and parts[-1].last < LAST_TURN:
            parts.append(Part(parts[-1].last + 1, LAST_TURN))
        self.left = parts if len(parts) > 2 else []
        self.seen = []

    def pays_to_cut(self, part: Part) -> bool:
        number = len(self.left) + len(self.seen)
        return (
            part.seconds > PART_SECONDS
            and part.first < part.last
            and number * self.usual < SHARE_OF_POLL * self.poll
        )

    def add_or_join(self, part: Part) -> None:
        if self.seen:
            newer = self.seen[0]
            seconds = part.seconds + newer.seconds
            if seconds < PART_SECONDS / 2:
                self.seen[0] = Part(part.first, newer.last, seconds)
                return
        self.seen.insert(0, part)

    @property
    def duration(self) -> float:
        """How long all parts take, without the pauses between them."""
        parts = self.left + self.seen
        return sum(part.seconds for part in parts) + len(parts) * self.usual

    def pause(self, seconds: float, now: float) -> float:
        """Return the pause after a look that took so long; all end within a poll."""
        until_end = self.begun_at + self.poll - now
        return max(min(REST * seconds, until_end / (len(self.left) + 1)), 0.0)
