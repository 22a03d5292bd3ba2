"""Deletes what is old: jobs, batches, events, rates, figures, the audit trail."""

import logging
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from time import monotonic

from ...conf import settings
from ...queue import events as outbox
from ...queue import upkeep
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


class Walk:
    """Where a chore goes on that deletes old rows, but keeps some of them for long.

    What has become old is looked at once, as soon as possible. The rows that were kept
    then get another look, a part at a time, so that they are not all read each minute.
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

    def do(self, execute: Execute, batch: Batch) -> tuple[Effects, int]:
        total, has_more = 0, False
        for status, age in upkeep.limited_ages(settings.RETENTION).items():
            prune = partial(upkeep.prune_part, execute, status, age, batch=batch)
            number, goes_on = self.walks[status].run(prune)
            total, has_more = total + number, has_more or goes_on
        if total:
            logger.info("Pruned jobs=%s", total)
        return NOTHING, batch.size if has_more else 0  # so that it goes on at once

    def suspects(self, execute: Execute, batch: Batch) -> list[int]:
        found: dict[int, None] = {}
        for status, age in upkeep.limited_ages(settings.RETENTION).items():
            for position in self.walks[status].positions:
                parameters = {"status": status, "age": age, **position._asdict()}
                ids = upkeep.suspects(execute, "pruning", batch, **parameters)
                found |= dict.fromkeys(ids)
        return list(found)


class PruneBatches(Chore):
    """Looks at all batches, one part at a time, and begins again at the end."""

    name = "prune_batches"

    def __init__(self) -> None:
        super().__init__(PRUNE_SECONDS)
        self.after = 0  # the next part begins behind this id

    def run(self, connection: OwnConnection) -> Effects:
        number, after = upkeep.prune_batches(connection.execute, self.after)
        self.after = after or 0
        self.done(monotonic(), again_at_once=after is not None and number > 0)
        if number:
            logger.info("Pruned batches=%s", number)
        return NOTHING


class PruneEvents(Chore):
    """Looks at old events; many may be kept for their dead letters."""

    name = "prune_events"

    def __init__(self) -> None:
        super().__init__(PRUNE_SECONDS)
        self.walk = Walk()

    def run(self, connection: OwnConnection) -> Effects:
        number, has_more = 0, False
        if settings.EVENT_RETENTION is not None:
            prune = partial(outbox.prune, connection.execute, settings.EVENT_RETENTION)
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
