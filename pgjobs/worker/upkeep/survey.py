"""Asks in one statement which chores have something to do.

Many idle workers need not all ask. One that finds nothing to do notifies the others of
that, and they ask a little later than it will ask again. So mostly the same worker
asks. If it dies, the next one asks soon.
"""

import random
from collections.abc import Callable, Sequence
from math import inf
from time import monotonic
from typing import NamedTuple

from ...conf import settings
from ...queue import upkeep
from ..connections.connection import OwnConnection
from .admission import Admitting
from .chore import NOTHING, RESCUE_PER_HEARTBEAT, Chore, Effects
from .expiry import Expiry
from .late_events import LateDelivery
from .rescue import Rescue
from .schedules import Scheduler

# When to ask next, in intervals: a worker that has told the others, and one that was
# told. A lost worker's jobs are to be rescued within two heartbeats. After 1.3 of them
# others take it for dead, and 1.6 intervals are 0.64 heartbeats.
FIRST = 1.2, 1.25
LATER = 1.3, 1.6
BELIEF = 30  # intervals without asking, for a worker that is told all the time
LONGEST_DELAY = 1.0  # seconds from a survey until the others hear of it


class View(NamedTuple):
    """How the worker sees the queue, and what it is told of it."""

    looks_for_jobs: Callable[[], bool]  # whether to ask for READY jobs, too
    # Called with the seconds until a job is due, or None, and the time.
    saw_no_jobs: Callable[[float | None, float], None]
    # Whether it hears what others tell. If not, it need not tell either: perhaps none
    # of them does.
    listens: Callable[[], bool]


class Survey(Chore):
    """Puts off the chores that have nothing to do.

    While the survey fails, each chore runs at its own interval. What others notify may
    be outdated, or even wrong. So a worker believes it only for a while after it has
    found nothing to do by itself.
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
        view: View,
    ):
        super().__init__(settings.HEARTBEAT_INTERVAL * RESCUE_PER_HEARTBEAT)
        self.worker_id = worker_id
        self.rescue = rescue
        self.expiry = expiry
        self.late_delivery = late_delivery
        self.admitting = admitting
        self.scheduler = scheduler
        self.shared = shared  # the chores that all workers do by turns
        self.view = view
        self.heard_at = -inf  # when another worker has told it something credible
        self.asked_at = -inf
        self.found: upkeep.Chores | None = None  # then, if there was nothing to do

    def run(self, connection: OwnConnection) -> Effects:
        begun, looks = monotonic(), self.view.looks_for_jobs()
        tells = (
            self.view.listens() and begun > self.heard_at + max(FIRST) * self.interval
        )
        found = upkeep.chores(connection.execute, self.worker_id, looks, tells)
        now = monotonic()
        self.asked_at, self.found = begun, found if found.is_idle else None
        if tells and found.is_idle and found.workers > 1:
            self.ask_after(FIRST, now)
        else:
            self.done(now)
        self.note_found(found, looks, now)
        return NOTHING

    def hear(self, payload: str) -> None:
        """Take the notification of a worker that has found nothing to do."""
        told, now = upkeep.read_survey(payload), monotonic()
        if told is None or not self.is_credible(told, now):
            return
        self.heard_at = now
        if now < self.asked_at + BELIEF * self.interval:
            self.ask_after(LATER, now)
            self.note_found(told.found, self.view.looks_for_jobs(), now)

    def is_credible(self, told: upkeep.Told, now: float) -> bool:
        own, found = self.found, told.found
        if own is None:
            return False
        if told.worker_id == self.worker_id or found.installation != own.installation:
            return False
        later = found.at - own.at
        return later > 0 and abs(now - self.asked_at - later) < LONGEST_DELAY

    def ask_after(self, intervals: tuple[float, float], now: float) -> None:
        self.due = now + self.interval * random.uniform(*intervals)

    def note_found(self, found: upkeep.Chores, looks: bool, now: float) -> None:
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
            self.view.saw_no_jobs(found.next_due, now)
