"""A complete look in parts: no part is left out, and none takes long."""

from bisect import bisect_right
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from pgjobs.worker.rewind import LAST_TURN, PART_SECONDS, REST, Part, Rewind

POLL = 5.0
USUAL = 0.0005  # seconds of a look at the cursors
HIGHEST = 100_000
PER_ENTRY = 1e-6  # seconds


class Line:
    """The line before a cursor, with index entries of jobs that are gone."""

    def __init__(self, dead: range = range(0), highest: int = HIGHEST):
        self.dead = dead
        self.highest = highest

    def seconds(self, part: Part) -> float:
        """Return how long a look takes that takes this part along."""
        first, end = max(part.first, self.dead.start), self.dead.stop
        entries = max(min(part.last + 1, self.highest, end) - first, 0)
        return USUAL + entries * PER_ENTRY

    def look_at_all(self) -> float:
        return self.seconds(Part(0, self.highest))


def cut(line: Line, poll: float = POLL) -> Rewind:
    """Return the rewind after a complete look along the line."""
    rewind = Rewind(poll)
    rewind.usual = USUAL
    rewind.saw_line(line.look_at_all(), line.highest)
    return rewind


def make(rewind: Rewind, line: Line, between: Callable = lambda: None) -> list[Part]:
    """Make a whole rewind; return its parts, from the newest to the oldest."""
    parts, is_over = [], False
    while not is_over:
        parts.append(rewind.part)
        is_over = rewind.saw_part(line.seconds(rewind.part), line.highest, 0.0)
        between()
    return parts


def are_all(parts: list[Part]) -> bool:
    """Whether the parts follow one another, from the end of the line to its begin."""
    ends = [LAST_TURN, *(part.first - 1 for part in parts)]
    return [part.last for part in parts] == ends[:-1] and ends[-1] == -1


def test_complete_look_that_takes_little_is_not_cut():
    assert not cut(Line()).is_cut
    assert cut(Line(range(90_000, 100_000))).is_cut


def test_complete_look_is_not_cut_before_it_is_known_what_looks_take():
    rewind = Rewind(POLL)
    rewind.saw_line(1.0, HIGHEST)
    assert not rewind.is_cut


def test_no_part_takes_long_after_some_rewinds():
    line = Line(range(700_000, 1_000_000), highest=1_000_000)
    rewind = cut(line)
    for _ in range(12):
        assert are_all(parts := make(rewind, line))
    assert max(map(line.seconds, parts)) < USUAL + PART_SECONDS
    assert len(parts) < 250, "all entries take a hundred times as long as a part may"


def test_one_slow_look_at_the_cursors_does_not_change_what_is_usual():
    rewind = cut(Line())
    rewind.saw_cursors(10 * USUAL)
    assert rewind.usual < 2 * USUAL
    rewind.saw_cursors(USUAL / 2)
    assert rewind.usual == USUAL / 2


def test_parts_become_one_once_they_take_little():
    line = Line(range(HIGHEST))
    rewind = cut(line)
    for _ in range(10):
        make(rewind, line)
    line.dead = range(0)
    make(rewind, line)
    assert not rewind.is_cut


def test_slow_looks_are_not_cut_if_looks_at_the_cursors_take_as_long():
    rewind = cut(Line())
    rewind.usual = 0.5
    rewind.saw_line(0.5, HIGHEST)
    assert not rewind.is_cut


def test_looks_that_ended_early_do_not_cut_parts_without_end():
    line = Line(range(HIGHEST))
    rewind = cut(line)
    parts = make(rewind, line)
    rewind.saw_part(1.0, HIGHEST, 0.0)  # something kept this look waiting
    for _ in range(20):
        while not rewind.saw_part(USUAL, line.highest, 0.0, ended_early=True):
            pass
    assert len(rewind.left) < 4 * len(parts)
    assert rewind.duration < 1.0


def test_look_that_ended_before_its_part_does_not_join_it_with_others():
    line = Line(range(HIGHEST))
    rewind = cut(line)
    for _ in range(10):
        parts = make(rewind, line)
    for _ in range(3):
        while not rewind.saw_part(USUAL, line.highest, 0.0, ended_early=True):
            pass
    assert len(make(rewind, line)) >= len(parts) > 10


def test_parts_are_not_so_many_that_their_number_takes_a_poll():
    line = Line(range(HIGHEST))
    rewind = cut(line, poll=100 * USUAL)
    for _ in range(10):
        parts = make(rewind, line)
    assert 20 < len(parts) < 30, "all together take a quarter of it, not more"


def test_complete_look_in_between_begins_the_rewind_anew():
    line = Line(range(HIGHEST))
    rewind = cut(line)
    for _ in range(5):
        before = make(rewind, line)
    rewind.saw_part(line.seconds(rewind.part), HIGHEST, 0.0)
    rewind.is_stale = True
    rewind.saw_line(line.look_at_all(), HIGHEST)
    assert not (rewind.is_under_way or rewind.is_stale)
    assert are_all(after := make(rewind, line))
    assert len(after) >= len(before) > 5


def test_rewind_rests_between_its_parts_and_still_ends_within_a_poll():
    line = Line(range(HIGHEST))
    rewind = cut(line)
    for _ in range(10):
        make(rewind, line)
    begun_at = now = 1_000.0
    pauses = []
    while True:
        seconds = line.seconds(rewind.part)
        now += seconds
        if rewind.saw_part(seconds, HIGHEST, now):
            break
        pauses.append(rewind.pause(seconds, now))
        assert pauses[-1] <= REST * seconds
        now += pauses[-1]
    assert now < begun_at + POLL
    assert min(pauses) > USUAL
    late = begun_at + POLL + 1
    assert rewind.pause(0.001, late) == 0.0


@given(
    steps=st.lists(
        st.tuples(
            st.integers(0, 300_000),  # how far the cursor moves on
            st.integers(0, 100_000),  # or back
            st.sampled_from([0.0, 1e-7, 1e-6, 1e-5]),  # seconds that an entry takes
        ),
        max_size=12,
    ),
    lived=st.lists(st.integers(0, 10**6), max_size=20),
)
def test_each_rewind_goes_everywhere_whatever_looks_take(steps, lived):
    """A job that stands before the cursor when a rewind begins is met by it."""
    line = Line(range(10**7), highest=1_000)
    rewind = Rewind(POLL)
    rewind.usual = USUAL
    rewind.saw_line(1.0, line.highest)
    for forward, back, per_entry in steps:
        line.highest = max(line.highest + forward - back, 1)
        old = [turn for turn in lived if turn < line.highest]
        if not rewind.is_cut:
            rewind.saw_line(1.0, line.highest)
            continue
        parts, is_over = [], False
        while not is_over:
            parts.append(rewind.part)
            entries = max(min(rewind.part.last, line.highest) - rewind.part.first, 0)
            seconds = USUAL + per_entry * entries
            is_over = rewind.saw_part(seconds, line.highest, 0.0)
            line.highest += 7  # other jobs are claimed meanwhile
        assert are_all(parts)
        firsts = sorted(part.first for part in parts)
        for turn in old:
            part = parts[-bisect_right(firsts, turn)]
            assert part.first <= turn <= part.last
