"""Warns of atomic jobs that have been in their transaction for long."""

from time import monotonic

from ..connections.connection import OwnConnection
from ..slots.atomic import warn_of_long_transactions
from .chore import NOTHING, Chore, Effects

LOOK_SECONDS = 5.0


class LongTransactionWarning(Chore):
    name = "long_transactions"

    def __init__(self) -> None:
        super().__init__(LOOK_SECONDS)

    def run(self, connection: OwnConnection) -> Effects:
        warn_of_long_transactions()
        self.done(monotonic())
        return NOTHING
