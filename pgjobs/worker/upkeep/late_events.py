"""Delivers events to subscribers that appeared after their publication."""

import logging
from time import monotonic

from ...conf import settings
from ...queue import events
from ..connections.connection import OwnConnection
from .chore import Chore, Effects

logger = logging.getLogger("pgjobs.worker")

DELIVER_LATE_SECONDS = 5.0


class LateDelivery(Chore):
    name = "deliver_late"

    def __init__(self) -> None:
        super().__init__(DELIVER_LATE_SECONDS)

    def run(self, connection: OwnConnection) -> Effects:
        delivered = events.deliver_late(
            connection.execute, settings.UNHANDLED_EVENT_GRACE
        )
        self.done(monotonic(), again_at_once=delivered == events.BATCH)
        if delivered:
            logger.info("Delivered events=%s late", delivered)
        return Effects(ready=delivered > 0)
