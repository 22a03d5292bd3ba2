"""Whether new jobs notify the worker, or it looks at the queue by itself.

PostgreSQL commits one transaction at a time that notifies. Where many enqueue at once,
each waits for the disk behind all before it. Then the workers look by themselves, and
say by advisory locks that they need no notification. docs/notifications.md
proves that no worker sleeps beside a job.
"""

from math import inf
from time import monotonic
from typing import Any, Literal

from .claimer import Claimer
from .connections.listener import Listener
from .upkeep.chore import Effects

SHORTEST, LONGEST = 0.001, 0.01  # seconds between two looks of such a worker
PATIENCE = 1.0  # seconds without a new job, after which it wants notifications again
# While it is notified: seconds between two questions whether commits wait for one
# another, and how many notifications make it ask.
ASK_SECONDS = 0.5
MANY = 3
LONGEST_SETTLING = 1.0  # seconds between two looks while a transaction stays open

Phase = Literal["deaf", "settling", "notified", "looking"]


class Wakefulness:
    """Decides when the worker looks without a notification.

    It is deaf without a LISTEN connection. A worker that begins to want notifications
    is settling: transactions that saw no need to notify it have not ended yet.
    """

    def __init__(self, listener: Listener, claimer: Claimer):
        self.listener = listener
        self.claimer = claimer
        self.lifetime = claimer.lifetime
        self.queues = list(claimer.options.queues or [""])
        self.connection: Any = None
        self.phase: Phase = "deaf"
        self.due = 0.0  # when the phase has something to do
        self.pause = 0.0
        self.heard = 0  # notifications, when the worker asked for the last time
        self.had = 0  # jobs claimed, at the last look
        self.busy_at = 0.0  # when the last look had brought a job

    @property
    def next_event(self) -> float:
        """Return when the loop must run a pass for this (monotonic time)."""
        return self.due if self.phase in ("settling", "looking") else inf

    def is_due(self, now: float) -> bool:
        return now >= self.next_event

    def run(self) -> None:
        """Do what the phase asks for; the claim of the same pass comes after it."""
        now = monotonic()
        if self.listener.connection is not self.connection:
            self.meet(self.listener.connection)
        if self.phase == "deaf" or now < self.due:
            return
        if self.phase == "settling":
            self.settle(now)
        elif self.phase == "notified":
            self.stay_notified(now)
        else:
            self.stay_looking(now)

    def meet(self, connection: Any) -> None:
        """Begin with a connection: its session has just asked to be notified."""
        self.connection = connection
        self.phase = "deaf" if connection is None else "settling"
        self.due = self.pause = 0.0

    def settle(self, now: float) -> None:
        """Look until the transactions have ended that did not notify, and once more."""
        if self.listener.ask("silent_ones_ended"):
            self.phase = "notified"
            self.due, self.heard = now + ASK_SECONDS, self.listener.heard
            # Also where the claim cursors have passed, for what committed late.
            self.claimer.take_note(Effects(old_ready=True))
        else:
            self.pause = min(max(1.5 * self.pause, SHORTEST), LONGEST_SETTLING)
            self.due = now + self.pause
            self.claimer.poll_schedule.wake()

    def stay_notified(self, now: float) -> None:
        """Begin to look if notifications keep commits waiting."""
        is_often = self.listener.heard >= self.heard + MANY
        self.due, self.heard = now + ASK_SECONDS, self.listener.heard
        if is_often and self.listener.ask("commits_wait"):
            self.listener.ask("need_no_notifications", queues=self.queues)
            self.phase = "looking"
            self.pause, self.busy_at, self.due = SHORTEST, now, now
            self.had = self.lifetime.claimed

    def stay_looking(self, now: float) -> None:
        """Look once more, or want notifications again after a while without jobs."""
        before, self.had = self.had, self.lifetime.claimed
        if self.had > before or not self.claimer.room():
            self.busy_at, self.pause = now, SHORTEST
        else:
            self.pause = min(2 * self.pause, LONGEST)
        if now < self.busy_at + PATIENCE:
            self.due = now + (self.pause if self.claimer.room() else LONGEST)
        else:
            self.listener.ask(
                "want_notifications", queues=self.queues, was_looking=True
            )
            self.phase, self.due, self.pause = "settling", now, 0.0
        self.claimer.poll_schedule.wake()
