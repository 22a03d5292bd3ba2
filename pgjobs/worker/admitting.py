"""When a worker admits jobs that wait: after a hint, and now and then without one.

What an admission decides is said in migrations/0005_admission.py. Any worker does it,
one at a time; one that does not get its turn tries again soon.
"""

import random
from math import inf
from time import monotonic

from ..conf import settings
from ..models.work import BEGINNING, Admission, Position
from .maintenance import RESCUE_PER_HEARTBEAT, Chore

FIRST_PAUSE = 0.002  # seconds, until it is tried again while another worker admits
BLOCKED_PAUSE = 0.02  # and while other transactions hold rows
LONGEST_PAUSE = 1.0
SWEEP = "sweep"  # what is notified when a queue may be served again


class Admitting:
    def __init__(self) -> None:
        self.due = 0.0  # monotonic time
        self.pause = FIRST_PAUSE
        self.position = BEGINNING
        # Lines may wait for this worker to serve their queues.
        self.sweeps_all = True
        # As often as others are rescued: who cannot listen hears of nothing.
        self.sweeping = Chore(settings.HEARTBEAT_INTERVAL * RESCUE_PER_HEARTBEAT)

    @property
    def next_event(self) -> float:
        return min(self.due, self.sweeping.due)

    @property
    def is_due(self) -> bool:
        return monotonic() >= self.next_event

    @property
    def is_expecting(self) -> bool:
        """Whether jobs may wait to be admitted, now or soon."""
        return self.due < inf

    def expect(self) -> None:
        """Note that jobs may wait to be admitted."""
        self.due = 0.0

    def hear(self, payload: str) -> None:
        """Take what was notified of jobs that wait to be admitted."""
        if payload == SWEEP:
            self.position, self.sweeps_all = BEGINNING, True
        self.expect()

    def begin(self) -> tuple[Position, bool]:
        """Return where to go on, and whether to sweep this time."""
        return self.position, self.sweeps_all or self.sweeping.is_due()

    def passed(self, admission: Admission, swept: bool) -> None:
        """Plan the next one."""
        now = monotonic()
        if admission.admitted is None:
            self.due = now + self.pause * random.uniform(0.5, 1)
            self.pause = min(2 * self.pause, LONGEST_PAUSE)
            if swept:  # it is still due, but not before the next try
                self.sweeping.due = self.due
            return
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
