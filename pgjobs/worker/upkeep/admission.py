"""When a worker admits jobs that wait: after a hint, and now and then without one.

database/functions/admission/admit.sql says what an admission decides. Any worker
admits, but only one at a time. A worker that finds another one admitting tries again
soon. Mostly an admission is part of a claim, in the same round trip.
"""

import random
from math import inf
from time import monotonic

from ...conf import settings
from ...queue import admitting
from ...queue.admitting import BEGINNING, Admission, Position
from ..connections.connection import OwnConnection
from .chore import RESCUE_PER_HEARTBEAT, Chore, Effects, Timer, when

FIRST_PAUSE = 0.002  # seconds until the next try while another worker admits
BLOCKED_PAUSE = 0.02  # seconds, while other transactions hold rows
LONGEST_PAUSE = 1.0
# Intervals between two sweeps of a worker that does not lead: it may know a task that
# the leader does not, and wait for an admission to decide about its dependencies.
RARE_SWEEPS = 30
SWEEP = "sweep"  # the payload when a queue may be served again


class Admitting(Chore):
    name = "admit"
    asks = when("""
        EXISTS (SELECT FROM pgjobs_job WHERE line IS NOT NULL)
        OR EXISTS (SELECT FROM pgjobs_note)
        OR EXISTS (SELECT FROM pgjobs_predecessor WHERE is_open AND id > 0)
    """)

    def __init__(self) -> None:
        super().__init__()
        self.due = 0.0
        self.pause = FIRST_PAUSE
        self.kept_out_since: float | None = None  # another session has the lock
        self.position = BEGINNING
        # Lines may wait for this worker to serve their queues.
        self.sweeps_all = True
        # As often as a rescue: a worker that cannot listen hears of nothing.
        sweep_interval = settings.HEARTBEAT_INTERVAL * RESCUE_PER_HEARTBEAT
        self.sweeping = Timer(sweep_interval, RARE_SWEEPS * sweep_interval)

    @property
    def next_event(self) -> float:
        return max(min(self.due, self.sweeping.due), self.backoff.retry_at)

    def is_expecting(self, now: float) -> bool:
        """Whether jobs may wait to be admitted, now or soon."""
        return self.due < inf and not self.backoff.is_waiting(now)

    def is_kept_out(self, seconds: float, now: float) -> bool:
        """Whether no admission has got its lock for so many seconds."""
        since = self.kept_out_since
        return since is not None and now - since >= seconds

    def hear(self, payload: str) -> None:
        """Take a notification of jobs that wait for an admission."""
        if payload == SWEEP:
            self.position, self.sweeps_all = BEGINNING, True
        self.expect()

    def begin(self, now: float) -> tuple[Position, bool]:
        """Return where the next admission goes on, and whether it sweeps."""
        return self.position, self.sweeps_all or self.sweeping.is_due(now)

    def begin_again(self) -> None:
        """Sweep from the beginning."""
        self.position = BEGINNING

    @property
    def is_at_beginning(self) -> bool:
        return self.position == BEGINNING

    def recovered(self) -> None:
        """Try again at once: the database was away and is back."""
        self.backoff.passed()
        self.expect()

    def run(self, connection: OwnConnection) -> Effects:
        """Admit a batch without a claim; look also at lines of keys not freed."""
        admission = admitting.admit(connection.execute, self.position, sweeps=True)
        return self.passed(admission, True, monotonic())

    def deferred(self, now: float) -> None:
        """Remember that another transaction was in the way, and try again soon."""
        self.due = now + self.pause * random.uniform(0.5, 1)
        self.pause = min(2 * self.pause, LONGEST_PAUSE)
        # A sweep may still be due, but not before the next try.
        self.sweeping.due = max(self.sweeping.due, self.due)

    def passed(self, admission: Admission, swept: bool, now: float) -> Effects:
        """Plan the next admission; return the effects of this one."""
        if admission.admitted is None:
            self.kept_out_since = self.kept_out_since or now
            self.deferred(now)
            return effects_of(admission)
        self.kept_out_since = None
        self.backoff.passed()
        self.position = admission.position
        if swept:
            self.sweeping.done(now)
            is_through = not (self.position.line or self.position.link)
            self.sweeps_all = self.sweeps_all and not is_through
        if admission.has_more or self.sweeps_all:
            self.due = 0.0
        elif admission.is_blocked:
            self.pause = max(self.pause, BLOCKED_PAUSE)
            self.due = now + self.pause
            self.pause = min(2 * self.pause, LONGEST_PAUSE)
        else:
            self.due = inf
        if admission.admitted:
            self.pause = FIRST_PAUSE
        return effects_of(admission)


def effects_of(admission: Admission) -> Effects:
    return Effects(
        old_ready=bool(admission.admitted),
        undecided=admission.met_undecided,
        finished=admission.ended,
    )
