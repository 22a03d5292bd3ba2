"""Makes the rows of new queues, by which operators pause them."""

from collections.abc import Iterable
from math import inf

from ...queue import upkeep
from ..connections.connection import OwnConnection
from .chore import NOTHING, Chore, Effects


class NewQueues(Chore):
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
