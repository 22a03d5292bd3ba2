"""The worker's signs of life, on a thread and a connection of their own."""

import logging
import select
import threading
from collections.abc import Callable
from math import inf
from time import monotonic
from typing import NamedTuple

import psycopg
from psycopg.types.json import Jsonb

from ...base.database_errors import text_of
from ...conf import settings
from ...sql import statement
from ..memory import resident_bytes
from ..options import WorkerOptions
from .bell import Bell
from .connection import OwnConnection, Watchdog, beat_cheaply, hold_session_lock

logger = logging.getLogger("pgjobs.worker")

RETRY_SECONDS = 1.0
LEAST_PATIENCE = 5.0  # seconds that one beat may take
ECHO_AGE = 0.8  # of an interval: a notification that is older calls for an echo
SHORTEST_REST = 1.0  # seconds between two beats, whatever is notified


class Beat(NamedTuple):
    """What a heartbeat has found."""

    leads: bool = True  # no other worker does the upkeep for all
    has_asked: bool = False  # what follows is known
    has_ready: bool = False  # there are READY jobs in any queue
    next_due: float | None = None  # seconds until a scheduled job may run
    at: float = 0.0  # monotonic time


NO_BEAT = Beat()


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
        *,
        asks_for_ready: Callable[[], bool],
        on_beat: Callable[[], None],
        on_order: Callable[[str], None],
    ):
        self.interval = settings.HEARTBEAT_INTERVAL
        self.lease = settings.LEASE_DURATION
        self.row = row
        self.held_ids = held_ids  # returns the ids of the worker's jobs
        # Called with the lease tokens of jobs that are to stop.
        self.on_cancel = on_cancel
        self.asks_for_ready = asks_for_ready  # asked whether it is of interest
        self.on_beat = on_beat  # called when the loop has to know of a beat
        self.on_order = on_order  # called with what operators now want of the worker
        self.drains = options.drain
        self.last = NO_BEAT
        self.pause = self.interval  # until the next beat
        self.last_beat = monotonic()
        # When others may take this worker for dead: from then on it must not claim.
        self.silent_at = self.last_beat + self.lease
        self.last_heard = -inf  # the last notification; the listener sets it
        self.lock_key: int | None = None  # of the session lock, while it is held
        self.connection = OwnConnection(
            options.database,
            "heartbeat",
            options.name,
            watchdog,
            limit=max(2 * self.interval, LEAST_PATIENCE),
            prepare=beat_cheaply,
        )
        self.bell = Bell()
        self.stopped = threading.Event()
        self.thread = threading.Thread(
            target=self.run, name="pgjobs-heartbeat", daemon=True
        )

    @property
    def is_late(self) -> bool:
        return monotonic() - self.last_beat > 1.5 * self.interval

    @property
    def latest(self) -> Beat:
        """Return what the last beat has found. If it was long ago, this worker leads.

        Otherwise none would, while something keeps all workers from beating. A worker
        that drains the queue always does: it ends only once all that is due is done.
        """
        return NO_BEAT if self.is_late or self.drains else self.last

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

    def beat_soon(self) -> None:
        """Beat before the pause is over: the worker that leads may have left."""
        self.bell.ring()

    def stop(self) -> None:
        self.stopped.set()
        self.bell.ring()
        self.thread.join()
        self.bell.close()
        self.connection.close()

    def run(self) -> None:
        delay, failures = self.pause, 0
        while not self.rest(delay):
            try:
                self.beat()
                delay, failures = self.pause, 0
                continue
            except psycopg.Error as error:
                level = logging.DEBUG if failures else logging.WARNING
                logger.log(level, "Heartbeat failed: %s", text_of(error))
            except Exception:  # a dead heartbeat would get living jobs rescued
                logger.exception("Heartbeat failed")
            # The first try follows at once: with the connection the session lock is
            # lost, and other workers notice that soon.
            delay = min(RETRY_SECONDS, self.interval / 5) if failures else 0.0
            failures += 1
            if self.is_late and not self.last.leads:
                self.last = NO_BEAT
                self.on_beat()

    def rest(self, seconds: float) -> bool:
        """Wait until the next beat is due; return whether no other one follows.

        It is due at once if the session ends: others see that its lock is free, and
        take the worker for dead if it does not take the lock again.
        """
        ends_at = monotonic() + seconds
        while not self.stopped.is_set() and (left := ends_at - monotonic()) > 0:
            poll = select.poll()
            poll.register(self.bell.read_end, select.POLLIN)
            own = self.connection.connection
            if own is not None:
                poll.register(own.fileno(), select.POLLIN)
            readable = {descriptor for descriptor, _ in poll.poll(1_000 * left)}
            if self.bell.read_end in readable:
                self.bell.clear()
                ends_at = min(ends_at, self.last_beat + SHORTEST_REST)
            if readable - {self.bell.read_end} and self.connection.has_ended():
                logger.warning("Heartbeat connection lost")
                break
        return self.stopped.is_set()

    def beat(self) -> None:
        if self.connection.connection is None:
            self.lock_key = None
            self.connection.open()
        if self.lock_key is None:
            self.lock_key = hold_session_lock(self.connection, self.row["id"])
        # Before the statement: the process may be frozen before its answer.
        begun, leads = monotonic(), self.last.leads
        with_ready = not leads and self.asks_for_ready()
        now = {
            "holds_session_lock": self.lock_key is not None,
            "lock_key": self.lock_key,
            "memory": resident_bytes(),
            "children": self.row["children"] and Jsonb(self.row["children"]),
            "held": self.held_ids(),
            "leads": leads,
            "with_ready": with_ready,
            "echoes": begun - self.last_heard > ECHO_AGE * self.interval,
        }
        rows = self.connection.execute(statement("heartbeat"), {**self.row, **now})
        lease_tokens, other_leads, are_few, wanted, has_ready, next_due, _ = rows[0]
        self.last_beat, self.silent_at = begun, begun + self.lease
        self.last = Beat(not other_leads, with_ready, has_ready, next_due, begun)
        # So that the death of the worker that leads shows soon where few look for it.
        self.pause = self.interval / 2 if other_leads and are_few else self.interval
        if other_leads or not leads:
            self.on_beat()
        if lease_tokens:
            self.on_cancel(lease_tokens)
        if wanted != self.row["wanted"]:
            self.row["wanted"] = wanted
            self.on_order(wanted)
