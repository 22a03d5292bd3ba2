"""Deletes what is old: jobs, batches, events, rates, figures, the audit trail."""

import logging
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from time import monotonic

from ...conf import settings
from ...queue import events, upkeep
from ...queue.audit import prune_audit
from ...queue.figures import prune_figures
from ...queue.parts import OLDEST, Part, Position
from ...queue.statements import Execute
from ...queue.upkeep import Batch
from ..connections.connection import OwnConnection
from .batches import BatchChore
from .chore import NOTHING, Chore, Effects

logger = logging.getLogger("pgjobs.worker")

PRUNE_SECONDS = 60.0
# While it prunes, the loop records and claims nothing. So a part has few jobs, and the
# loop then prunes nothing for PAUSE times as long as the part took.
PRUNED_AT_ONCE = 500
PAUSE = 4


class Walk:
    """Where a chore continues that deletes old rows but must keep some of them.

    It looks at each row as soon as that is old enough. Later it looks again at the rows
    that it kept, a part at a time, so that it does not read all of them each minute.
    """

    def __init__(self) -> None:
        self.end = OLDEST  # behind what was looked at
        self.again = OLDEST  # behind what was looked at once more

    @property
    def positions(self) -> set[Position]:
        return {self.end, self.again}

    def run(self, prune: Callable[[Position], Part]) -> tuple[int, bool]:
        """Prune one part or two; return how many rows went, and whether to go on."""
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
        part = batch._replace(limit=min(batch.size, PRUNED_AT_ONCE))
        for status, age in upkeep.limited_ages(settings.RETENTION).items():
            prune = partial(upkeep.prune_part, execute, status, age, batch=part)
            number, goes_on = self.walks[status].run(prune)
            total, has_more = total + number, has_more or goes_on
        if total:
            logger.info("Pruned jobs=%s", total)
        # A full batch goes on without the wait of a chore; `run` adds a pause.
        return NOTHING, batch.size if has_more else 0

    def suspects(self, execute: Execute, batch: Batch) -> list[int]:
        found: dict[int, None] = {}
        for status, age in upkeep.limited_ages(settings.RETENTION).items():
            for position in self.walks[status].positions:
                parameters = {"status": status, "age": age, **position._asdict()}
                ids = upkeep.suspects(execute, "pruning", batch, **parameters)
                found |= dict.fromkeys(ids)
        return list(found)


class RoundPruning(Chore):
    """Looks at all rows, one part at a time, and begins again at the end."""

    def __init__(self) -> None:
        super().__init__(PRUNE_SECONDS)
        self.after = 0  # the next part begins behind this id

    def prune(self, execute: Execute) -> tuple[int, int | None]:
        """Prune a part; return how many went, and the last id, or None at the end."""
        raise NotImplementedError

    def run(self, connection: OwnConnection) -> Effects:
        number, last = self.prune(connection.execute)
        self.after = last or 0
        self.done(monotonic(), again_at_once=last is not None and number > 0)
        return NOTHING


class PruneBatches(RoundPruning):
    name = "prune_batches"

    def prune(self, execute: Execute) -> tuple[int, int | None]:
        number, last = upkeep.prune_batches(execute, self.after)
        if number:
            logger.info("Pruned batches=%s", number)
        return number, last


class PruneLeftRows(RoundPruning):
    """A role that may only delete jobs leaves rows behind that belong to them."""

    name = "prune_left_rows"

    def prune(self, execute: Execute) -> tuple[int, int | None]:
        return upkeep.prune_left_rows(execute, self.after)


class PruneEvents(Chore):
    """Looks at old events; many may be kept for their dead letters."""

    name = "prune_events"

    def __init__(self) -> None:
        super().__init__(PRUNE_SECONDS)
        self.walk = Walk()

    def run(self, connection: OwnConnection) -> Effects:
        number, has_more = 0, False
        if settings.EVENT_RETENTION is not None:
            prune = partial(events.prune, connection.execute, settings.EVENT_RETENTION)
            number, has_more = self.walk.run(prune)
        self.done(monotonic(), again_at_once=has_more)
        if number:
            logger.info("Pruned events=%s", number)
        return NOTHING


class SimplePruning(Chore):
    """Deletes old rows that nothing else needs."""

    def __init__(self) -> None:
        super().__init__(PRUNE_SECONDS)

    def prune(self, execute: Execute) -> int:
        """Delete a batch; return how many rows went."""
        raise NotImplementedError

    def run(self, connection: OwnConnection) -> Effects:
        number = self.prune(connection.execute)
        self.done(monotonic(), again_at_once=number > 0)
        return NOTHING


class ForgetRates(SimplePruning):
    name = "forget_rates"

    def prune(self, execute: Execute) -> int:
        return upkeep.forget_rates(execute)


class PruneFigures(SimplePruning):
    name = "prune_figures"

    def prune(self, execute: Execute) -> int:
        return prune_figures(
            execute,
            settings.MINUTE_FIGURES_RETENTION,
            settings.HOUR_FIGURES_RETENTION,
        )


class PruneAudit(SimplePruning):
    name = "prune_audit"

    def prune(self, execute: Execute) -> int:
        return prune_audit(
            execute, settings.AUDIT_RETENTION, settings.HOUR_FIGURES_RETENTION
        )
