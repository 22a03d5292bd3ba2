"""Makes the rows of new queues, by which operators pause them."""

from collections.abc import Iterable
from math import inf
from time import monotonic

from ...queue import upkeep
from ..connections.connection import OwnConnection
from .chore import NOTHING, Chore, Effects

LOOK_SECONDS = 30.0


class NewQueues(Chore):
    """Queues from which this worker claims."""

    name = "make_queues"

    def __init__(self) -> None:
        super().__init__()
        self.known: set[str] = set()
        self.new: set[str] = set()

    def meet(self, names: Iterable[str]) -> None:
        self.new |= set(names) - self.known
        if self.new:
            self.expect()

    def run(self, connection: OwnConnection) -> Effects:
        upkeep.make_queues(connection.execute, self.new)
        self.known |= self.new
        self.new = set()
        self.due = inf
        return NOTHING


class WaitingQueues(Chore):
    """Queues that have jobs but no worker, so that operators can pause them, too."""

    name = "make_waiting_queues"

    def __init__(self) -> None:
        super().__init__(LOOK_SECONDS)
        self.names = upkeep.Names()

    def run(self, connection: OwnConnection) -> Effects:
        names = upkeep.make_waiting_queues(connection.execute, self.names)
        has_more = any(names)
        self.names = names if has_more else upkeep.Names()
        self.done(monotonic(), again_at_once=has_more)
        return NOTHING
