"""Asks in one statement which chores have something to do."""

from collections.abc import Callable, Sequence
from time import monotonic

from ...conf import settings
from ...queue import upkeep
from ..connections.connection import OwnConnection
from .admission import Admitting
from .chore import NOTHING, RESCUE_PER_HEARTBEAT, Chore, Effects
from .expiry import Expiry
from .late_events import LateDelivery
from .rescue import Rescue
from .schedules import Scheduler


class Survey(Chore):
    """Puts off the chores that have nothing to do.

    While the survey fails, each chore runs at its own interval.
    """

    name = "survey"

    def __init__(
        self,
        worker_id: int,
        *,
        rescue: Rescue,
        expiry: Expiry,
        late_delivery: LateDelivery,
        admitting: Admitting,
        scheduler: Scheduler,
        shared: Sequence[Chore],
        looks_for_jobs: Callable[[], bool],
        saw_no_jobs: Callable[[float | None, float], None],
    ):
        super().__init__(settings.HEARTBEAT_INTERVAL * RESCUE_PER_HEARTBEAT)
        self.worker_id = worker_id
        self.rescue = rescue
        self.expiry = expiry
        self.late_delivery = late_delivery
        self.admitting = admitting
        self.scheduler = scheduler
        self.shared = shared  # the chores that all workers do by turns
        self.looks_for_jobs = looks_for_jobs  # whether to ask for READY jobs, too
        # Called with the seconds until a job is due, or None, and the time.
        self.saw_no_jobs = saw_no_jobs

    def run(self, connection: OwnConnection) -> Effects:
        looks = self.looks_for_jobs()
        found = upkeep.chores(connection.execute, self.worker_id, looks)
        now = monotonic()
        self.done(now)
        self.rescue.note(found.rescue, now)
        if found.rescue:
            self.rescue.expect()
        self.expiry.note(found.expire, now)
        self.late_delivery.note(found.deliver_late, now)
        self.admitting.sweeping.note(found.admit, now)
        self.scheduler.note_next(found.next_fire, now)
        for each in self.shared:
            each.take_turns(found.workers, now)
        if looks and not found.has_ready:
            self.saw_no_jobs(found.next_due, now)
        return NOTHING
