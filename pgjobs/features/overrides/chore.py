"""Holds the READY jobs of what is paused, lets them go, and ends overrides in time."""

import logging
from time import monotonic

from ...queue.statements import Execute
from ...sql import statement
from ...worker.connections.connection import OwnConnection
from ...worker.upkeep.admission import SWEEP, Admitting
from ...worker.upkeep.chore import Chore, Effects, when

logger = logging.getLogger("pgjobs.worker")

AT_ONCE = 1_000  # jobs of one statement
FIRST = (100, -1)  # before the first READY job: the priority, and the turn
REST = 10  # how many times as long as a walk took it rests before the next one
CHANNEL = "pgjobs_overrides"


class HoldPaused(Chore):
    """Walks over the READY jobs, a part at a time, in the order of claims.

    No claim asks what is paused. So the jobs that wait when something is paused are
    held here, the first ones first; those that come later wait from the beginning.
    """

    name = "overrides"
    takes = ("admitting",)
    for_all = True
    channel = CHANNEL
    asks = when(
        "EXISTS (SELECT FROM pgjobs_override"
        " WHERE paused_at IS NOT NULL AND NOT is_held OR until <= clock_timestamp())"
        " OR EXISTS (SELECT FROM pgjobs_job"
        " WHERE line > 'paused ' AND line < 'paused!')"
    )

    def __init__(self, admitting: Admitting) -> None:
        super().__init__()
        self.admitting = admitting
        self.place: tuple[int, int] | None = None  # None: no walk has begun
        self.ids: list[int] = []  # of the pauses for which it walks
        self.is_last = False  # nothing can come behind it
        self.began = self.rests_until = 0.0  # monotonic times

    def run(self, connection: OwnConnection) -> Effects:
        execute, limit = connection.execute, {"limit": AT_ONCE}
        ((ended,),) = execute(statement("end_overrides"), limit)
        if ended:
            logger.info("Ended overrides=%s", ended)
            # A lower limit has kept jobs back, and no end of a job frees its key.
            self.admitting.hear(SWEEP)
        ((let_go,),) = execute(statement("let_go"), limit)
        has_more = self.walk(execute) or let_go >= AT_ONCE or ended >= AT_ONCE
        self.done(monotonic(), again_at_once=has_more)
        return Effects(waiting=bool(let_go))

    def walk(self, execute: Execute) -> bool:
        """Hold one part; return whether there are more."""
        if self.place is None:
            if monotonic() < self.rests_until:
                return False
            execute(statement("note_pauses"), {})
            ((ids, self.is_last),) = execute(statement("begin_walk"), {})
            if not ids:
                return False
            self.ids, self.place, self.began = ids, FIRST, monotonic()
        priority, turn = self.place
        parameters = {"priority": priority, "turn": turn, "limit": AT_ONCE}
        ((*place, held, has_more, has_skipped),) = execute(
            statement("hold_ready"), parameters
        )
        self.is_last &= not has_skipped
        if held:
            logger.info("Held jobs=%s of what is paused", held)
        self.place = (place[0], place[1]) if has_more else None
        if not has_more:
            self.end_walk(execute)
        return has_more

    def end_walk(self, execute: Execute) -> None:
        """Note that all are held; while older transactions are open, walk once more."""
        now = monotonic()
        if self.is_last:
            execute(statement("end_walk"), {"ids": self.ids})
        else:
            self.rests_until = now + REST * (now - self.began)

    def hear(self, payload: str) -> None:
        """Look at once at what was paused or resumed right now."""
        self.rests_until = 0.0
        self.expect()


CHORES = (HoldPaused,)
