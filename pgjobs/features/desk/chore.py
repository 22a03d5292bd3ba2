"""Adds what the worker has counted to the table of figures, and deletes what is old."""

from collections.abc import Sequence
from math import inf
from time import monotonic

from ...base.plain_json import dump
from ...conf import settings
from ...queue.statements import Execute
from ...sql import statement
from ...worker.connections.connection import OwnConnection
from ...worker.observer import WorkerObserver
from ...worker.upkeep.chore import NOTHING, Chore, Effects
from ...worker.upkeep.pruning import BatchStep, Prune
from .counting import Counted, counted_by

STORE_SECONDS = 15.0
MOST_PAIRS = 100  # of a bucket and a number, before they are added up
PRUNED_AT_ONCE = 10_000  # figures
GROUPS_AT_ONCE = 1_000
MOST_ENDED_WORKERS = 1_000


class StoreFigures(Chore):
    """One statement now and then, and none while the worker has nothing to count."""

    name = "figures"
    takes = ("observers",)
    runs_at_end = True

    def __init__(self, observers: Sequence[WorkerObserver]):
        super().__init__(STORE_SECONDS)
        self.counted = counted_by(observers)

    @property
    def next_event(self) -> float:
        return super().next_event if self.counted.sums else inf

    def run(self, connection: OwnConnection) -> Effects:
        if rows := self.counted.rows():
            add_figures(connection.execute, rows)
            self.counted.clear()
        self.done(monotonic())
        return NOTHING


def add_figures(execute: Execute, rows: list[dict]) -> None:
    """Add sums by queue and task to those of the current minute and hour."""
    execute(statement("add_figures"), {"rows": dump(rows), "most_pairs": MOST_PAIRS})


def prune_figures(execute: Execute, minutes: float, hours: float) -> int:
    """Delete a batch of figures of minutes, and of hours, beyond an age in seconds.

    With those of hours go versions of the code, and groups of errors that are of no
    job. Returns how many figures went.
    """
    parameters = {
        "minutes": minutes,
        "hours": hours,
        "limit": PRUNED_AT_ONCE,
        "groups": GROUPS_AT_ONCE,
    }
    ((number,),) = execute(statement("prune_figures"), parameters)
    return number


def prune(execute: Execute) -> int:
    """Delete a batch of what is old; return how many figures went."""
    minutes, hours = settings.MINUTE_FIGURES_RETENTION, settings.HOUR_FIGURES_RETENTION
    return prune_figures(execute, minutes, hours)


def prune_ended_workers(execute: Execute) -> int:
    """Delete a batch of ended workers that are old, or too many; return how many."""
    limits = {"most": MOST_ENDED_WORKERS, "limit": PRUNED_AT_ONCE}
    ((number,),) = execute(statement("prune_ended_workers"), limits)
    return number


CHORES = (
    StoreFigures,
    Prune("prune_figures", BatchStep, prune),
    Prune("prune_ended_workers", BatchStep, prune_ended_workers),
)
OBSERVERS = (Counted,)
