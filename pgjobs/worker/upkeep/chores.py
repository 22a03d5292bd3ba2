"""The list of a worker's chores. A new chore is a module, and an entry here."""

from collections.abc import Callable, Iterable
from contextlib import suppress

import psycopg

from ..connections.connection import OwnConnection
from ..figures import Figures
from ..options import WorkerOptions
from .admission import Admitting
from .cancel_requests import CancelRequests
from .chore import Effects, Upkeep, attempt
from .dependencies import Depending
from .expiry import Expiry
from .figures import StoreFigures
from .heavy_jobs import HeavyJobWarning
from .held_locks import HeldLockWarning
from .late_events import LateDelivery
from .long_transactions import LongTransactionWarning
from .new_queues import NewQueues, WaitingQueues
from .pruning import (
    ForgetRates,
    PruneAudit,
    PruneBatches,
    PruneEvents,
    PruneFigures,
    PruneJobs,
    PruneLeftRows,
)
from .replanning import Replanning
from .rescue import ReleaseOrphans, Rescue
from .schedules import Scheduler
from .survey import Survey, View
from .versions import Versions

PRUNING = (
    PruneJobs,
    PruneLeftRows,
    PruneBatches,
    PruneEvents,
    ForgetRates,
    PruneFigures,
    PruneAudit,
)


class Chores(Upkeep):
    def __init__(
        self,
        row: dict,
        options: WorkerOptions,
        *,
        figures: Figures,
        admitting: Admitting,
        held: Callable[[], Iterable[int]],
        held_ids: Callable[[], list[int]],
        cancel: Callable[[int], None],
        view: View,
    ):
        self.cancel_requests = CancelRequests(row["id"], held_ids, cancel)
        self.new_queues = NewQueues()
        self.rescue = Rescue(row["id"])
        self.orphans = ReleaseOrphans(row["id"], options.name, held)
        self.expiry = Expiry()
        self.late_delivery = LateDelivery()
        self.scheduler = Scheduler()
        self.dependencies = Depending()
        self.figures = StoreFigures(figures)
        by_turns = [WaitingQueues(), *(prune() for prune in PRUNING)]
        self.survey = Survey(
            row["id"],
            rescue=self.rescue,
            expiry=self.expiry,
            late_delivery=self.late_delivery,
            admitting=admitting,
            scheduler=self.scheduler,
            shared=by_turns,
            view=view,
        )
        super().__init__(
            self.cancel_requests,
            self.new_queues,
            self.survey,
            self.expiry,
            self.late_delivery,
            self.rescue,
            self.orphans,
            self.figures,
            *by_turns,
            Versions(row, options.database),
            LongTransactionWarning(),
            HeavyJobWarning(options),
            HeldLockWarning(admitting),
            Replanning(),
            self.scheduler,
            self.dependencies,
        )

    def take_note(self, effects: Effects) -> None:
        """Note effects after which a chore finds something to do."""
        if effects.undecided:
            self.dependencies.expect()
        if effects.expired:
            self.expiry.expect()
        if effects.in_doubt:
            self.orphans.expect()

    def store_last_figures(self, connection: OwnConnection) -> None:
        """Store what was counted since the last time, if that is possible now."""
        with suppress(psycopg.Error):
            attempt(self.figures, connection)
