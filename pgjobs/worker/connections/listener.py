"""The one place where a worker sleeps, and everything that can wake it."""

import logging
import random
import select
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from time import monotonic
from typing import Any

import psycopg
from psycopg import sql

from ...base.connections import connect, is_pooled, listen_changes
from ...base.database_errors import text_of
from ...conf import settings
from ...sql import statement
from ..options import WorkerOptions
from .backoff import Backoff
from .bell import Bell
from .connection import Watchdog
from .heartbeat import Heartbeat

logger = logging.getLogger("pgjobs.worker")

SUBSCRIBE_SECONDS = 10.0
ASK_SECONDS = 5.0
FIRST_PAUSE = 0.2  # seconds without a connection whose statement failed; it doubles
BUSY_SECONDS = 0.01  # between two checks of a busy loop for what was notified
# Shows whose session it is: sql/upkeep/left_listeners.sql.
HOLD_LISTENING_LOCK = """
SELECT pg_try_advisory_lock_shared(
    hashint8('pgjobs_worker'::regclass::oid::bigint) # 1885825644,
    (%(id)s::bigint & 2147483647)::int
)
"""
LONGEST_SLEEP = 3_600.0  # seconds at a time; poll() refuses infinity


def own_channel(worker_id: int) -> str:
    """Return the channel on which one worker is notified of its own jobs."""
    return f"pgjobs_worker_{worker_id}"


class Listener:
    """Waits for notifications and for the bell.

    Notifications are hints that a fetch may pay; without them the worker polls. The
    connection is opened beside the loop, which never waits for it.
    """

    CHANNEL = "pgjobs"
    ADMISSION = "pgjobs_admission"
    RESIGNED = "pgjobs_resigned"  # of a worker that has led and stops
    ECHO = "pgjobs_echo"  # of the heartbeats of all workers
    MISSED = ""  # in place of a channel: notifications may have been missed
    LONGEST_PAUSE = 10.0  # seconds between two tries to connect

    def __init__(
        self,
        options: WorkerOptions,
        worker_id: int,
        bell: Bell,
        watchdog: Watchdog,
        heartbeat: Heartbeat,
        reactions: Mapping[str, Callable[[str], None]],
        channels: Iterable[str] = (),
    ):
        self.channels = channels  # of chores
        self.options = options
        self.worker_id = worker_id
        self.own_channel = own_channel(worker_id)
        self.watchdog = watchdog
        self.heartbeat = heartbeat
        self.reactions = reactions  # by channel, what is called with a payload
        self.bell = bell
        self.is_new = False  # what was notified before this connection is lost
        self.wanted = options.listen and settings.LISTEN is not False
        self.connection: psycopg.Connection | None = None
        self.connecting: threading.Thread | None = None
        self.failures = 0
        self.refused = Backoff(FIRST_PAUSE, self.LONGEST_PAUSE)
        self.refused_statement = ""  # until it works, pauses grow
        self.next_try = 0.0
        self.next_check = 0.0
        self.heard = 0  # notifications of jobs so far

    def wait(self, wakes_at: Callable[[], float]) -> None:
        """Sleep until the bell, or a time that notifications may bring forward.

        `wakes_at` returns the time (monotonic). It is asked after the alarm is set, so
        that no event is slept through, and again after notifications.
        """
        self.take()
        self.keep_connected()
        self.bell.alarm = ["set"]
        try:
            while (remaining := wakes_at() - monotonic()) > 0:
                readable = self.sleep(remaining)
                if self.bell.read_end in readable:
                    self.bell.clear()
                    return
                if readable:
                    self.take()
        finally:
            self.bell.alarm = []

    def sleep(self, seconds: float) -> list[int]:
        """Return the descriptors that ended the sleep; none after the time-out."""
        poll = select.poll()  # select() refuses descriptors over 1023
        poll.register(self.bell.read_end, select.POLLIN)
        if self.connection is not None:
            poll.register(self.connection.fileno(), select.POLLIN)
        milliseconds = 1_000 * min(seconds, LONGEST_SLEEP)
        return [descriptor for descriptor, _ in poll.poll(milliseconds)]

    def take_while_busy(self) -> None:
        """Take, now and then, what was notified: a busy loop does not sleep."""
        if monotonic() >= self.next_check:
            self.take()
            self.keep_connected()

    def take(self) -> None:
        """Hear the notifications that have come, if there are any."""
        self.next_check = monotonic() + BUSY_SECONDS
        if self.connection is None:
            return
        if self.is_new:
            self.is_new = False
            self.reactions[self.MISSED]("")
        try:
            self.hear_all(received(self.connection))
        except psycopg.Error as error:
            self.drop(text_of(error))
            self.reactions[self.MISSED]("")

    def hear_all(self, notifications: Iterable[psycopg.Notify]) -> None:
        for notification in notifications:
            self.heartbeat.last_heard = monotonic()
            self.heard += notification.channel in (self.CHANNEL, self.ADMISSION)
            if notification.channel != self.ECHO:
                self.reactions[notification.channel](notification.payload)

    def keep_connected(self) -> None:
        """Drop a connection that went silent; open another one on a thread.

        Call it after `take`, for a busy loop may not have listened.
        """
        if not self.wanted:
            return
        if self.connection is not None:
            patience = 3 * self.heartbeat.interval
            is_silent = monotonic() - self.heartbeat.last_heard > patience
            if is_silent and not self.heartbeat.is_late:
                self.drop("no echo of the heartbeats")
        elif self.connecting is None and monotonic() >= self.next_try:
            self.connecting = threading.Thread(
                target=self.connect, name="pgjobs-listen", daemon=True
            )
            self.connecting.start()

    def connect(self) -> None:
        options = self.options
        names = options.database, "listen", options.name
        guard = partial(self.watchdog.guard, seconds=SUBSCRIBE_SECONDS)
        try:
            connection = connect(*names, guard, **listen_changes(options.database))
            with guard(connection):
                self.subscribe(connection)
        except psycopg.Error as error:
            level = logging.DEBUG if self.failures else logging.WARNING
            self.failures += 1
            pause = min(2.0**self.failures / 2, self.LONGEST_PAUSE)
            self.next_try = monotonic() + pause * random.uniform(0.5, 1)
            logger.log(level, "LISTEN failed, polling: %s", text_of(error))
        finally:
            self.connecting = None
            self.bell.ring()

    def subscribe(self, connection: psycopg.Connection) -> None:
        if is_pooled(connection):
            connection.close()
            self.wanted = False
            logger.warning(
                "LISTEN is impossible through a pooler, polling. "
                "PGJOBS['LISTEN'] can name a direct connection."
            )
            return
        connection.execute(HOLD_LISTENING_LOCK, {"id": self.worker_id})
        shared = self.CHANNEL, self.ADMISSION, self.RESIGNED, self.ECHO
        for channel in (*shared, *self.channels, self.own_channel):
            connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
        queues = {"queues": list(self.options.queues or [""]), "was_polling": False}
        connection.execute(statement("want_notifications"), queues)
        self.failures = 0
        self.heartbeat.last_heard = monotonic()
        self.is_new = True
        self.connection = connection

    def ask(self, name: str, **parameters: Any) -> Any:
        """Return the first value of a statement of this session.

        It is None if there is no connection, or none any more.
        """
        if self.connection is None:
            return None
        meanwhile: list[psycopg.Notify] = []
        self.connection.add_notify_handler(meanwhile.append)
        try:
            with self.watchdog.guard(self.connection, ASK_SECONDS):
                row = self.connection.execute(statement(name), parameters).fetchone()
        except psycopg.Error as error:
            # The session may hold a part of the locks that the statement takes.
            self.drop(text_of(error))
            self.refused_statement = name
            self.next_try = monotonic() + self.refused.failed(monotonic())
            self.reactions[self.MISSED]("")
            return None
        if name == self.refused_statement:
            self.refused_statement = ""
            self.refused.passed()
        self.connection.remove_notify_handler(meanwhile.append)
        self.hear_all(meanwhile)
        return row and row[0]

    @property
    def state(self) -> str:
        """Return "on", "off", or "connecting" (polling until then)."""
        if self.connection is not None:
            return "on"
        return "connecting" if self.wanted else "off"

    def drop(self, reason: str) -> None:
        logger.warning("LISTEN connection lost, polling: %s", reason)
        connection, self.connection = self.connection, None
        self.next_try = 0.0
        if connection is not None:
            connection.close()

    def close(self) -> None:
        self.wanted = False
        connecting = self.connecting
        if connecting is not None:
            connecting.join()
        if self.connection is not None:
            self.connection.close()
            self.connection = None
        self.bell.close()


def received(connection: psycopg.Connection) -> Iterator[psycopg.Notify]:
    """Yield the notifications that have come, without waiting; raise psycopg.Error.

    `connection.notifies(timeout=0)` does so, too, and takes 50 us longer: each job for
    an idle worker would wait for that.
    """
    connection.pgconn.consume_input()
    while (notify := connection.pgconn.notifies()) is not None:
        names = notify.relname.decode(), notify.extra.decode(errors="replace")
        yield psycopg.Notify(*names, notify.be_pid)
