"""The worker's row, the connection of its loop, and what they need."""

import logging
import os
import socket
from collections.abc import Callable

import psycopg

from ..base.database_errors import text_of
from ..conf import settings
from ..features import entries
from ..sql import statement
from .connections.connection import (
    OwnConnection,
    Watchdog,
    hold_session_lock,
    plan_once,
)
from .options import WorkerOptions
from .slots.cleaning import session_watching

logger = logging.getLogger("pgjobs.worker")

STATEMENT_SECONDS = 30.0
# It is NULL on a standby, which will refuse the worker.
TIMELINE = "SELECT CASE WHEN NOT pg_is_in_recovery() THEN pgjobs_timeline() END"


class FailedOver(psycopg.OperationalError):
    """The worker has met another primary than before; the next try meets it, too."""


class Session:
    """Registers the worker when it is created; raises psycopg.Error."""

    def __init__(self, options: WorkerOptions, failed_over: Callable[[], None]):
        self.options = options
        self.failed_over = failed_over  # called when another server has taken over
        self.timeline: str | None = None
        self.id = 0  # until it is registered
        self.watchdog = Watchdog()
        self.connection = OwnConnection(
            options.database,
            "loop",
            options.name,
            self.watchdog,
            STATEMENT_SECONDS,
            prepare=self.prepare,
        )
        self.row = worker_row(options)
        session_watching.begin()
        try:
            self.register()
        except BaseException:
            self.close()
            raise

    def register(self) -> None:
        ((self.id,),) = self.connection.execute(statement("register_worker"), self.row)
        self.row["id"] = self.id
        hold_session_lock(self.connection, self.id)

    def prepare(self, connection: OwnConnection) -> None:
        plan_once(connection)
        if self.id:  # not the first connection
            hold_session_lock(connection, self.id)
        ((timeline,),) = connection.execute(TIMELINE)
        self.compare_timelines(timeline)

    def compare_timelines(self, timeline: str | None) -> None:
        """Doubt all running jobs if another server has taken over from the last one.

        What they did may be lost with that server. Raises FailedOver, so that nothing
        is recorded before.
        """
        before, self.timeline = self.timeline, timeline or self.timeline
        if before not in (None, self.timeline):
            self.failed_over()
            raise FailedOver("another server has taken over")

    def leave(self, how: str) -> None:
        """Remove the worker's row. If that fails, other workers find it dead later."""
        try:
            self.connection.execute(statement("leave"), {"id": self.id, "how": how})
        except psycopg.Error as error:
            logger.warning("Leaving failed: %s", text_of(error))

    def close(self) -> None:
        self.connection.close()
        self.watchdog.stop()
        session_watching.end()


def worker_row(options: WorkerOptions) -> dict:
    return {
        "name": options.name,
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "queues": ",".join(options.queues or ()),
        "excluded": ",".join(options.excluded),
        "slots": options.slots,
        "units": options.units,
        "lease": settings.LEASE_DURATION,
        "heartbeat_interval": settings.HEARTBEAT_INTERVAL,
        "version": settings.VERSION,
        "children": None,
        "manifest_id": None,
        "wanted": "",
        **{name: of(options.database) for name, of in entries("start", "OF_WORKER")},
    }
