"""When a worker admits jobs that wait: after a hint, and now and then without one.

What an admission decides is said in database/functions/admission/admit.sql. Any
worker does it, one at a time; one that does not get its turn tries again soon.
"""

import random
from math import inf
from time import monotonic

from ...conf import settings
from ...queue.admitting import BEGINNING, Admission, Position
from .maintenance import RESCUE_PER_HEARTBEAT, Chore

FIRST_PAUSE = 0.002  # seconds, until it is tried again while another worker admits
BLOCKED_PAUSE = 0.02  # and while other transactions hold rows
LONGEST_PAUSE = 1.0
FIRST_FAILURE_PAUSE = 0.5  # after an error of its statement
LONGEST_FAILURE_PAUSE = 60.0
SWEEP = "sweep"  # what is notified when a queue may be served again


class Admitting:
    def __init__(self) -> None:
        self.due = 0.0  # monotonic time
        self.pause = FIRST_PAUSE
        self.failure_pause = FIRST_FAILURE_PAUSE
        self.position = BEGINNING
        # Lines may wait for this worker to serve their queues.
        self.sweeps_all = True
        # As often as others are rescued: who cannot listen hears of nothing.
        self.sweeping = Chore(settings.HEARTBEAT_INTERVAL * RESCUE_PER_HEARTBEAT)

    @property
    def next_event(self) -> float:
        return self.due if self.is_failing else min(self.due, self.sweeping.due)

    @property
    def is_due(self) -> bool:
        return monotonic() >= self.next_event

    @property
    def is_expecting(self) -> bool:
        """Whether jobs may wait to be admitted, now or soon."""
        return self.due < inf and not self.is_failing

    def expect(self) -> None:
        """Note that jobs may wait to be admitted."""
        if not self.is_failing:
            self.due = 0.0

    def hear(self, payload: str) -> None:
        """Take what was notified of jobs that wait to be admitted."""
        if payload == SWEEP:
            self.position, self.sweeps_all = BEGINNING, True
        self.expect()

    def begin(self) -> tuple[Position, bool]:
        """Return where to go on, and whether to sweep this time."""
        return self.position, self.sweeps_all or self.sweeping.is_due()

    def failed(self) -> None:
        """Put the next one off, longer each time: its statement raised an error."""
        self.due = self.sweeping.due = monotonic() + self.failure_pause
        self.failure_pause = min(2 * self.failure_pause, LONGEST_FAILURE_PAUSE)

    def recovered(self) -> None:
        """Note that what failed was the database, which is back."""
        self.failure_pause = FIRST_FAILURE_PAUSE
        self.expect()

    @property
    def is_failing(self) -> bool:
        """Whether the last one failed, and it is not yet time to try again."""
        return self.failure_pause > FIRST_FAILURE_PAUSE and monotonic() < self.due

    def passed(self, admission: Admission, swept: bool) -> None:
        """Plan the next one."""
        now = monotonic()
        if admission.admitted is None:
            self.due = now + self.pause * random.uniform(0.5, 1)
            self.pause = min(2 * self.pause, LONGEST_PAUSE)
            if swept:  # it is still due, but not before the next try
                self.sweeping.due = self.due
            return
        self.failure_pause = FIRST_FAILURE_PAUSE
        self.position = admission.position
        if swept:
            self.sweeping.done()
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
