"""What is pruned first, and that rows which are kept are not read each time."""

from datetime import UTC, datetime, timedelta
from time import monotonic

from pgjobs.queue.slices import Position, Slice
from pgjobs.worker.upkeep import pruning
from pgjobs.worker.upkeep.pruning import PruneJobs, Walk

START = datetime(2026, 1, 1, tzinfo=UTC)
BATCH = 10


class Rows:
    """A table of old rows, by their ids; some of them are kept for a while."""

    def __init__(self, number: int, kept: int):
        self.ids = list(range(1, number + 1))
        self.kept = set(range(1, kept + 1))
        self.walk = Walk()
        self.looked_at = 0

    def prune(self, position: Position) -> Slice:
        seen = [id for id in self.ids if position < at(id)][:BATCH]
        self.looked_at += len(seen)
        gone = set(seen) - self.kept
        self.ids = [id for id in self.ids if id not in gone]
        last = at(seen[-1]) if seen else position
        return Slice(len(gone), len(seen) == BATCH, last)

    def run(self) -> int:
        """Prune as a worker does; return how many rows it looked at."""
        before, has_more = self.looked_at, True
        while has_more:
            _, has_more = self.walk.run(self.prune)
        return self.looked_at - before


def at(id: int) -> Position:
    return Position(START + timedelta(seconds=id), id)


def test_first_walk_reaches_what_stands_behind_many_rows_that_are_kept():
    rows = Rows(105, kept=100)
    rows.run()
    assert rows.ids == list(range(1, 101))


def test_rows_that_are_kept_are_looked_at_a_slice_at_a_time():
    rows = Rows(100, kept=100)
    rows.run()
    assert [rows.run() for _ in range(3)] == [BATCH] * 3


def test_what_has_become_old_goes_at_once_and_not_after_all_that_is_kept():
    rows = Rows(100, kept=100)
    rows.run()
    rows.ids += range(101, 151)
    rows.run()
    assert rows.ids == list(range(1, 101))


def test_row_that_is_kept_no_longer_goes_at_the_next_look_at_its_slice():
    rows = Rows(100, kept=100)
    rows.run()
    rows.kept -= {5, 55, 99}
    looks = 0
    while len(rows.ids) > 97:
        rows.run()
        looks += 1
    assert looks <= 10


def test_rows_that_may_all_go_later_go_slice_after_slice_at_once():
    rows = Rows(100, kept=100)
    rows.run()
    rows.kept.clear()
    rows.run(), rows.run()  # the first look may have gone on behind some of them
    assert rows.ids == []


class SlowConnection:
    """A connection whose table never runs out of old jobs, with a clock of its own."""

    def __init__(self) -> None:
        self.now = self.begun = monotonic() + 3_600

    def execute(self, text: str, parameters: dict) -> list[tuple]:
        if "table" in parameters:  # which tables refer to jobs
            return []
        self.now += 0.01
        return [(parameters["limit"], True, *at(1))]


def test_jobs_get_more_time_than_pruning(monkeypatch):
    connection = SlowConnection()
    monkeypatch.setattr(pruning, "monotonic", lambda: connection.now)
    chore = PruneJobs()
    chore.run(connection)
    took, pause = connection.now - connection.begun, chore.due - connection.now
    assert 2 * took < pause < 10 * took
