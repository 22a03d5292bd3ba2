"""Deletes what is old: finished jobs, empty batches, events and full rates."""

import logging
from time import monotonic

from ...conf import settings
from ...queue import events as outbox
from ...queue import upkeep
from ...queue.statements import Execute
from ...queue.upkeep import Batch
from ..connections.connection import OwnConnection
from .batches import BatchChore
from .chore import NOTHING, Chore, Effects

logger = logging.getLogger("pgjobs.worker")

PRUNE_SECONDS = 60.0


class PruneJobs(BatchChore):
    name = "prune"
    fails_culprits = False

    def __init__(self) -> None:
        super().__init__(PRUNE_SECONDS)

    def do(self, execute: Execute, batch: Batch) -> tuple[Effects, int]:
        number = upkeep.prune(execute, settings.RETENTION, batch)
        if number:
            logger.info("Pruned jobs=%s", number)
        return NOTHING, number

    def suspects(self, execute: Execute, batch: Batch) -> list[int]:
        ages = upkeep.limited_ages(settings.RETENTION)
        return upkeep.suspects(execute, "pruning", batch, **ages)


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
    """Looks at all old events, one part at a time, and begins again at the end."""

    name = "prune_events"

    def __init__(self) -> None:
        super().__init__(PRUNE_SECONDS)
        self.position = outbox.OLDEST

    def run(self, connection: OwnConnection) -> Effects:
        number, position = outbox.prune(
            connection.execute, settings.EVENT_RETENTION, self.position
        )
        self.position = position or outbox.OLDEST
        # Many events may be kept for dead letters. So it looks at one part a minute,
        # and goes on at once only after a part with something to delete.
        self.done(monotonic(), again_at_once=position is not None and number > 0)
        if number:
            logger.info("Pruned events=%s", number)
        return NOTHING


class ForgetRates(Chore):
    name = "forget_rates"

    def __init__(self) -> None:
        super().__init__(PRUNE_SECONDS)

    def run(self, connection: OwnConnection) -> Effects:
        upkeep.forget_rates(connection.execute)
        self.done(monotonic())
        return NOTHING
