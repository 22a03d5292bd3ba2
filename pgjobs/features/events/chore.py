"""Delivers events to subscribers that appeared later, and deletes old ones."""

import logging
from time import monotonic

from ...conf import settings
from ...queue.slices import Position, Slice
from ...queue.statements import Execute
from ...worker.connections.connection import OwnConnection
from ...worker.upkeep.chore import Chore, Effects, when
from ...worker.upkeep.pruning import Prune, WalkStep
from . import queue

logger = logging.getLogger("pgjobs.worker")

DELIVER_LATE_SECONDS = 5.0


class LateDelivery(Chore):
    name = "deliver_late"
    asks = when("EXISTS (SELECT FROM pgjobs_event WHERE handlers = 0)")

    def __init__(self) -> None:
        super().__init__(DELIVER_LATE_SECONDS)

    def run(self, connection: OwnConnection) -> Effects:
        delivered = queue.deliver_late(
            connection.execute, settings.UNHANDLED_EVENT_GRACE
        )
        self.done(monotonic(), again_at_once=delivered == queue.BATCH)
        if delivered:
            logger.info("Delivered events=%s late", delivered)
        return Effects(ready=delivered > 0)


def prune(execute: Execute, position: Position) -> Slice:
    """Look at a slice of the old events; many may be kept for their dead letters."""
    if settings.EVENT_RETENTION is None:
        return Slice(0, False, position)
    return queue.prune(execute, settings.EVENT_RETENTION, position)


CHORES = (LateDelivery, Prune("prune_events", WalkStep, prune, "events"))
