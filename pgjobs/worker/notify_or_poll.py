"""Whether new jobs notify the worker, or it polls.

PostgreSQL commits one transaction at a time that notifies. Where many enqueue at once,
each waits for the disk behind all before it. Then the workers poll, and say by advisory
locks that they need no notification. docs/notifications.md proves that no worker sleeps
beside a job.
"""

from math import inf
from time import monotonic
from typing import Any, Literal

from .claimer import Claimer
from .connections.listener import Listener
from .upkeep.chore import Effects

SHORTEST, LONGEST = 0.001, 0.01  # seconds between two polls of such a worker
PATIENCE = 1.0  # seconds without a new job, after which it wants notifications again
# While it is notified: seconds between two questions whether commits wait for one
# another, and how many notifications make it ask.
ASK_SECONDS = 0.5
MANY = 3
LONGEST_CATCH_UP = 1.0  # seconds between two polls while a transaction stays open

Phase = Literal["offline", "catching up", "listening", "polling"]


class NotifyOrPoll:
    """Decides when the worker polls, without a notification.

    It is offline without a LISTEN connection. A worker that begins to want
    notifications is catching up: transactions that saw no need to notify it have not
    ended yet.
    """

    def __init__(self, listener: Listener, claimer: Claimer):
        self.listener = listener
        self.claimer = claimer
        self.executor = claimer.recorder.executor
        self.queues = list(claimer.options.queues or [""])
        self.connection: Any = None
        self.phase: Phase = "offline"
        self.due = inf  # when the phase has something to do
        self.wakes_at = inf  # the same, if the loop must not sleep longer
        self.pause = 0.0
        self.heard = 0  # notifications, when the worker asked for the last time
        self.had = 0  # jobs claimed, at the last poll
        self.busy_at = 0.0  # when the last poll had brought a job

    def run(self) -> None:
        """Do what is due, and what a new connection, or a lost one, asks for.

        The claim of the same pass comes after it.
        """
        now = monotonic()
        if self.listener.connection is not self.connection:
            self.meet(self.listener.connection)
        if self.phase != "offline" and now >= self.due:
            steps = {
                "catching up": self.catch_up,
                "listening": self.listen,
                "polling": self.poll,
            }
            steps[self.phase](now)
        self.wakes_at = self.due if self.phase in ("catching up", "polling") else inf

    def meet(self, connection: Any) -> None:
        """Begin with a connection: its session has just asked to be notified."""
        self.connection = connection
        self.phase = "offline" if connection is None else "catching up"
        self.due, self.pause = 0.0 if connection else inf, 0.0

    def catch_up(self, now: float) -> None:
        """Poll until the transactions have ended that did not notify, and once more."""
        if self.listener.ask("silent_ones_ended"):
            self.phase = "listening"
            self.due, self.heard = now + ASK_SECONDS, self.listener.heard
            # Also before the cursors, for what was committed late.
            self.claimer.react_to(Effects(old_ready=True))
        else:
            self.pause = min(max(1.5 * self.pause, SHORTEST), LONGEST_CATCH_UP)
            self.due = now + self.pause
            self.claimer.rule.wake()

    def listen(self, now: float) -> None:
        """Begin to poll if notifications keep commits waiting."""
        is_often = self.listener.heard >= self.heard + MANY
        self.due, self.heard = now + ASK_SECONDS, self.listener.heard
        if is_often and self.listener.ask("commits_wait"):
            self.listener.ask("need_no_notifications", queues=self.queues)
            self.phase = "polling"
            self.pause, self.busy_at, self.due = SHORTEST, now, now
            self.had = self.executor.submitted

    def poll(self, now: float) -> None:
        """Poll once more, or want notifications again after a while without jobs."""
        before, self.had = self.had, self.executor.submitted
        if self.had > before or not self.claimer.capacity.has_room:
            self.busy_at, self.pause = now, SHORTEST
        else:
            self.pause = min(2 * self.pause, LONGEST)
        if now < self.busy_at + PATIENCE:
            self.due = now + (self.pause if self.claimer.capacity.has_room else LONGEST)
        else:
            self.listener.ask(
                "want_notifications", queues=self.queues, was_polling=True
            )
            self.phase, self.due, self.pause = "catching up", now, 0.0
        self.claimer.rule.wake()
