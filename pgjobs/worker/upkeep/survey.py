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
LONGEST_DELAY = 0.5  # intervals from a survey until another worker hears of it
# How many of the workers, when all are busy, look at the session locks each time.
LOOKING_AT_LOCKS = 4
# Intervals without asking, for a worker that is told all the time.
BELIEF = 20.0, 30.0
LEAST_DOUBT = 0.1  # seconds until the next survey while the death of a worker shows


class View(NamedTuple):
    """What a survey has to do with the rest of its worker."""

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
        self.asked_at = self.believes_until = -inf
        self.found: upkeep.Chores | None = None  # then, if there was nothing to do
        self.until_locks = 0  # surveys until it looks at the session locks again

    def run(self, connection: OwnConnection) -> Effects:
        begun, looks = monotonic(), self.view.looks_for_jobs()
        was_told = begun < self.heard_at + max(FIRST) * self.interval
        tells = self.view.listens() and not was_told
        sees_locks = self.must_see_locks()
        found = upkeep.chores(
            connection.execute, self.worker_id, looks, tells, sees_locks
        )
        now = monotonic()
        if sees_locks:
            self.until_locks = found.workers // LOOKING_AT_LOCKS
        self.asked_at, self.found = begun, found if found.is_idle else None
        self.believes_until = begun + self.interval * random.uniform(*BELIEF)
        if found.is_idle and found.workers > 1 and (tells or was_told):
            self.ask_after(FIRST if tells else LATER, now)
        else:
            self.done(now)
        if found.doubt_ends_in is not None:
            self.due = min(self.due, now + max(found.doubt_ends_in, LEAST_DOUBT))
        for each in self.shared:
            each.take_turns(found.workers, now)
        self.note_found(found, looks, now)
        return NOTHING

    def must_see_locks(self) -> bool:
        """Whether it is this worker's turn. An idle worker asks for all others."""
        self.until_locks -= 1
        return self.found is not None or self.until_locks < 0

    def note_found(self, found: upkeep.Chores, looks: bool, now: float) -> None:
        self.rescue.note(found.rescue, now)
        if found.rescue:
            self.rescue.expect()
        self.expiry.note(found.expire, now)
        self.late_delivery.note(found.deliver_late, now)
        self.admitting.sweeping.note(found.admit, now)
        self.scheduler.note_next(found.next_fire, now)
        if looks and not found.has_ready:
            self.view.saw_no_jobs(found.next_due, now)

    # What other workers have found

    def hear(self, payload: str) -> None:
        """Take the notification of a worker that has found nothing to do."""
        told, now = upkeep.read_survey(payload), monotonic()
        if told is None or (asked_at := self.when_asked(told, now)) is None:
            return
        self.heard_at = now
        if now < self.believes_until:
            self.ask_after(LATER, asked_at)
            self.put_off(told, asked_at)

    def when_asked(self, told: upkeep.Told, now: float) -> float | None:
        """Return when another worker has asked, or None if this one must not care."""
        own = self.found
        if own is None or told.worker_id == self.worker_id:
            return None
        asked_at = self.asked_at + told.at - own.at
        is_recent = abs(now - asked_at) < LONGEST_DELAY * self.interval
        if told.installation != own.installation or asked_at <= self.asked_at:
            return None
        return min(asked_at, now) if is_recent else None

    def put_off(self, told: upkeep.Told, asked_at: float) -> None:
        """Put off all chores but those that are due: something new may be to do."""
        now = monotonic()
        sweeping = self.admitting.sweeping
        for each in (self.rescue, self.expiry, self.late_delivery, sweeping):
            if now < each.due:
                each.note(False, asked_at)
        if now < self.scheduler.due:
            self.scheduler.note_next(told.next_fire, asked_at)
        if self.view.looks_for_jobs():
            self.view.saw_no_jobs(told.next_due, asked_at)

    def ask_after(self, intervals: tuple[float, float], now: float) -> None:
        self.due = now + self.interval * random.uniform(*intervals)
