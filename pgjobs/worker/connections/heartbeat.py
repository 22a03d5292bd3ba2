"""The worker's signs of life, on a thread and a connection of their own."""

import logging
import select
import threading
from collections.abc import Callable
from math import inf
from time import monotonic

import psycopg

from ...base.database_errors import text_of
from ...conf import settings
from ...sql import statement
from ..memory import resident_bytes
from ..options import WorkerOptions
from .bell import Bell
from .connection import OwnConnection, Watchdog, hold_session_lock, keep_plans

logger = logging.getLogger("pgjobs.worker")

RETRY_SECONDS = 1.0
LEAST_PATIENCE = 5.0  # seconds that one beat may take
ECHO_AGE = 0.8  # of an interval: a notification that is older calls for an echo


class Heartbeat:
    """Renews the worker's row until the last job has ended.

    It holds the session lock, by which other workers notice a crash within seconds
    rather than at the end of the lease.
    """

    def __init__(
        self,
        options: WorkerOptions,
        row: dict,
        watchdog: Watchdog,
        held_ids: Callable[[], list[int]],
        on_cancel: Callable[[list[int]], None],
    ):
        self.interval = settings.HEARTBEAT_INTERVAL
        self.lease = settings.LEASE_DURATION
        self.row = row
        self.held_ids = held_ids  # returns the ids of the worker's jobs
        # Called with the lease tokens of jobs that are to stop.
        self.on_cancel = on_cancel
        self.last_beat = monotonic()
        self.last_heard = -inf  # the last notification; the listener sets it
        self.lock_key: int | None = None  # of the session lock, while it is held
        self.connection = OwnConnection(
            options.database,
            "heartbeat",
            options.name,
            watchdog,
            limit=max(2 * self.interval, LEAST_PATIENCE),
            prepare=keep_plans,
        )
        self.bell = Bell()
        self.stopped = threading.Event()
        self.thread = threading.Thread(
            target=self.run, name="pgjobs-heartbeat", daemon=True
        )

    @property
    def is_silent(self) -> bool:
        """Whether other workers may take this one for dead. Then it must not claim."""
        return monotonic() - self.last_beat > self.lease

    @property
    def is_late(self) -> bool:
        return monotonic() - self.last_beat > 1.5 * self.interval

    def start(self) -> None:
        """Beat once, then go on beating on a thread.

        The first beat may fail, because the row was made a moment ago. So a lock that
        another session holds on the table does not keep the worker from starting.
        """
        try:
            self.beat()
        except psycopg.Error as error:
            logger.warning("Heartbeat failed: %s", text_of(error))
        self.thread.start()

    def stop(self) -> None:
        self.stopped.set()
        self.bell.ring()
        self.thread.join()
        self.bell.close()
        self.connection.close()

    def run(self) -> None:
        delay = self.interval
        while not self.rest(delay):
            try:
                self.beat()
                delay = self.interval
            except psycopg.Error as error:
                level = logging.WARNING if delay == self.interval else logging.DEBUG
                logger.log(level, "Heartbeat failed: %s", text_of(error))
                delay = self.pause_after(delay)
            except Exception:  # a dead heartbeat would get living jobs rescued
                logger.exception("Heartbeat failed")
                delay = self.pause_after(delay)

    def rest(self, seconds: float) -> bool:
        """Wait until the next beat is due; return whether no other one follows.

        It is due at once if the session ends: others see that nobody holds the session
        lock, and take the worker for dead if it does not take the lock again.
        """
        ends_at = monotonic() + seconds
        while not self.stopped.is_set() and (left := ends_at - monotonic()) > 0:
            poll = select.poll()
            poll.register(self.bell.read_end, select.POLLIN)
            own = self.connection.connection
            if own is not None:
                poll.register(own.fileno(), select.POLLIN)
            readable = [descriptor for descriptor, _ in poll.poll(1_000 * left)]
            has_heard = any(each != self.bell.read_end for each in readable)
            if has_heard and self.connection.has_ended():
                logger.warning("Heartbeat connection lost")
                break
        return self.stopped.is_set()

    def pause_after(self, delay: float) -> float:
        """Return the wait before the next try.

        The first try follows at once: with the connection the session lock is lost, and
        other workers notice that soon.
        """
        return 0.0 if delay == self.interval else min(RETRY_SECONDS, self.interval / 5)

    def beat(self) -> None:
        if self.connection.connection is None:
            self.lock_key = None
            self.connection.open()
        if self.lock_key is None:
            self.lock_key = hold_session_lock(self.connection, self.row["id"])
        # Before the statement: the process may be frozen before its answer.
        begun = monotonic()
        now = {
            "holds_session_lock": self.lock_key is not None,
            "lock_key": self.lock_key,
            "memory": resident_bytes(),
            "held": self.held_ids(),
            "echoes": begun - self.last_heard > ECHO_AGE * self.interval,
        }
        rows = self.connection.execute(statement("heartbeat"), {**self.row, **now})
        self.last_beat = begun
        if lease_tokens := rows[0][0]:
            self.on_cancel(lease_tokens)
