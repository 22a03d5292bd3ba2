"""Plans schedules again whose next run is too far away: the clock was wrong."""

import logging
from time import monotonic

from ...queue.replanning import replan
from ..connections.connection import OwnConnection
from .chore import NOTHING, Chore, Effects

logger = logging.getLogger("pgjobs.schedules")

LOOK_SECONDS = 3_600.0


class Replanning(Chore):
    name = "replan"

    def __init__(self) -> None:
        super().__init__(LOOK_SECONDS)
        self.due = 0.0
        self.after = 0  # the id behind which the next batch begins

    def run(self, connection: OwnConnection) -> Effects:
        replanned = replan(connection.execute, self.after)
        self.after = replanned.after
        for name in replanned.names:
            logger.warning(
                "Schedule name=%s was planned too far ahead, as by a clock that was "
                "wrong, and is planned again",
                name,
            )
        self.done(monotonic(), again_at_once=self.after > 0)
        return NOTHING
