"""Adds what the worker has counted to the table of figures."""

from math import inf
from time import monotonic

from ...queue.figures import add_figures
from ..connections.connection import OwnConnection
from ..figures import Figures
from .chore import NOTHING, Chore, Effects

STORE_SECONDS = 15.0


class StoreFigures(Chore):
    """One statement now and then, and none while the worker has nothing to count."""

    name = "figures"

    def __init__(self, figures: Figures):
        super().__init__(STORE_SECONDS)
        self.figures = figures

    def is_due(self, now: float) -> bool:
        return bool(self.figures.sums) and super().is_due(now)

    @property
    def next_event(self) -> float:
        return super().next_event if self.figures.sums else inf

    def run(self, connection: OwnConnection) -> Effects:
        if rows := self.figures.rows():
            add_figures(connection.execute, rows)
            self.figures.clear()
        self.done(monotonic())
        return NOTHING
