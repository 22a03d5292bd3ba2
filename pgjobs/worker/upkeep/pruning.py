"""Deletes what is old. What is old of a feature, its own chores name."""

import logging
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Any, ClassVar

from ...conf import settings
from ...queue import upkeep
from ...queue.slices import OLDEST, Position, Slice
from ...queue.statements import Execute
from ...queue.upkeep import Batch
from ...sql import statement
from ..connections.connection import OwnConnection
from .batches import BatchChore
from .chore import NOTHING, Chore, Effects, WorkerContext

logger = logging.getLogger("pgjobs.worker")

PRUNE_SECONDS = 60.0
# While it prunes, the loop records and claims nothing. So a slice has few jobs, and the
# loop then prunes nothing for PAUSE times as long as the slice took.
PRUNED_AT_ONCE = 500
PAUSE = 4
ENTRIES_AT_ONCE = 1_000  # of the audit trail


class Walk:
    """Where a chore continues that deletes old rows but must keep some of them.

    It looks at each row as soon as that is old enough. Later it looks again at the rows
    that it kept, a slice at a time, so that it does not read all of them each minute.
    """

    def __init__(self) -> None:
        self.end = OLDEST  # behind what was looked at
        self.again = OLDEST  # behind what was looked at once more

    @property
    def positions(self) -> set[Position]:
        return {self.end, self.again}

    def run(self, prune: Callable[[Position], Slice]) -> tuple[int, bool]:
        """Prune one slice or two; return how many rows went, and whether to go on."""
        new = prune(self.end)
        is_first = self.end == OLDEST
        self.end = new.position
        if new.has_more or is_first:
            return new.number, new.has_more
        kept = prune(self.again)
        is_through = not kept.has_more or kept.position >= self.end
        self.again = OLDEST if is_through else kept.position
        return new.number + kept.number, kept.number > 0 and not is_through


class PruneJobs(BatchChore):
    name = "prune"
    for_all = True
    fails_culprits = False

    def __init__(self) -> None:
        super().__init__(PRUNE_SECONDS)
        self.walks: defaultdict[str, Walk] = defaultdict(Walk)

    def run(self, connection: OwnConnection) -> Effects:
        begun = monotonic()
        effects = super().run(connection)
        now = monotonic()
        self.due = max(self.due, now + PAUSE * (now - begun))
        return effects

    def do(self, execute: Execute, batch: Batch) -> tuple[Effects, int]:
        total, has_more = 0, False
        limited = batch._replace(limit=min(batch.size, PRUNED_AT_ONCE))
        for status, age in upkeep.limited_ages(settings.RETENTION).items():
            prune = partial(upkeep.prune_slice, execute, status, age, batch=limited)
            number, goes_on = self.walks[status].run(prune)
            total, has_more = total + number, has_more or goes_on
        if total:
            logger.info("Pruned jobs=%s", total)
        # A full batch goes on without the wait of a chore; `run` adds a pause.
        return NOTHING, batch.size if has_more else 0

    def candidates(self, execute: Execute, batch: Batch) -> list[int]:
        ids_in_order: dict[int, None] = {}
        for status, age in upkeep.limited_ages(settings.RETENTION).items():
            for position in self.walks[status].positions:
                parameters = {"status": status, "age": age, **position._asdict()}
                ids = upkeep.candidates(execute, "pruning", batch, **parameters)
                ids_in_order |= dict.fromkeys(ids)
        return list(ids_in_order)


# How a table is walked over, one slice at a time: `run` deletes a slice, and returns
# how many rows went, and whether to go on at once.


class BatchStep:
    """Deletes old rows that nothing else needs."""

    def __init__(self, prune: Callable[[Execute], int]):
        self.prune = prune  # deletes a batch, and returns how many rows went

    def run(self, execute: Execute) -> tuple[int, bool]:
        number = self.prune(execute)
        return number, number > 0


class RoundStep:
    """Looks at all rows, one slice at a time, and begins again at the end."""

    def __init__(self, prune: Callable[[Execute, int], tuple[int, int | None]]):
        # Returns how many rows went, and the last id, or None at the end.
        self.prune = prune
        self.after = 0  # the next slice begins behind this id

    def run(self, execute: Execute) -> tuple[int, bool]:
        number, last = self.prune(execute, self.after)
        self.after = last or 0
        return number, last is not None and number > 0


class WalkStep:
    """Looks at rows as soon as they are old enough, and again at those that it kept."""

    def __init__(self, prune: Callable[[Execute, Position], Slice]):
        self.prune = prune
        self.walk = Walk()

    def run(self, execute: Execute) -> tuple[int, bool]:
        return self.walk.run(partial(self.prune, execute))


@dataclass(frozen=True)
class Prune:
    """What is old of one table, and how it is found: an entry of a list of chores."""

    name: str  # of the chore
    step: Callable[[Callable], Any]  # makes the step that calls `statement`
    statement: Callable  # deletes a slice
    rows: str = ""  # what they are called in the log. "" logs nothing
    asks: ClassVar[str] = ""

    def made_for(self, worker: WorkerContext) -> "Pruning":
        return Pruning(self)


class Pruning(Chore):
    """Deletes what is old of one table."""

    for_all = True

    def __init__(self, what: Prune):
        super().__init__(PRUNE_SECONDS)
        self.name, self.rows = what.name, what.rows
        self.step = what.step(what.statement)

    def run(self, connection: OwnConnection) -> Effects:
        number, goes_on = self.step.run(connection.execute)
        self.done(monotonic(), again_at_once=goes_on)
        if number and self.rows:
            logger.info("Pruned %s=%s", self.rows, number)
        return NOTHING


def prune_audit(execute: Execute) -> int:
    """Delete a batch of old entries of the audit trail; return how many went."""
    parameters = {"age": settings.AUDIT_RETENTION, "limit": ENTRIES_AT_ONCE}
    ((number,),) = execute(statement("prune_audit"), parameters)
    return number


CHORES = (
    PruneJobs,
    # A role that may only delete jobs leaves rows behind that belong to them.
    Prune("prune_left_rows", RoundStep, upkeep.prune_left_rows),
    Prune("forget_rates", BatchStep, upkeep.forget_rates),
    Prune("prune_audit", BatchStep, prune_audit),
)
