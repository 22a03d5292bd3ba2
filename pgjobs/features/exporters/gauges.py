"""Gauges of the queues and workers: bounded in time and rows, and cached."""

import logging
import threading
from collections import Counter
from time import monotonic
from typing import NamedTuple

import psycopg
from django.db import OperationalError, connections

from ...base.connections import connect
from ...base.database_errors import text_of
from ...reports.status import seen_in
from ...sql import statement
from ..desk.limits import OFF, alerts, chosen
from ..desk.remarks import found

logger = logging.getLogger("pgjobs.metrics")

MOST_QUEUES = 1_000  # rows of each kind
LONGEST_SECONDS = 2.0  # that a scrape waits for the database
FRESH_SECONDS = 5.0


class Gauge(NamedTuple):
    kind: str  # jobs, paused, workers or remarks
    name: str  # of the queue, or the kind of the remarks
    state: str  # or the level
    number: float
    seconds: float | None  # since when the oldest of them is due


class CachedGauges:
    """The latest gauges of a database.

    However many scrapers ask, and however slow the database is, it is asked by one
    thread at a time, on a connection of its own, and no more often than every 5 s.
    """

    def __init__(self, database: str):
        self.database = database
        self.lock = threading.Lock()
        self.latest: list[Gauge] | None = None
        self.asked_at = float("-inf")
        self.asking: threading.Thread | None = None

    def get(self) -> list[Gauge] | None:
        """Return the gauges, or None if the database does not return them in time."""
        with self.lock:
            is_asking = self.asking is not None and self.asking.is_alive()
            if not is_asking and monotonic() - self.asked_at >= FRESH_SECONDS:
                self.asked_at = monotonic()
                self.latest = None
                self.asking = threading.Thread(
                    target=self.ask, name="pgjobs-gauges", daemon=True
                )
                self.asking.start()
            asking = self.asking
        if asking is not None:
            asking.join(LONGEST_SECONDS)
        return self.latest

    def ask(self) -> None:
        try:
            self.latest = gauges = read_gauges(self.database)
            self.latest = gauges + read_remarks(self.database)
        except (psycopg.Error, OperationalError) as error:
            logger.warning("The metrics of the queues are missing: %s", text_of(error))


def read_gauges(database: str) -> list[Gauge]:
    """Ask for the gauges; raise psycopg.Error if that takes too long."""
    seconds = int(LONGEST_SECONDS)
    with (
        connect(
            database,
            "metrics",
            "gauges",
            connect_timeout=seconds,
            tcp_user_timeout=2_000 * seconds,
        ) as connection,
        connection.transaction(),
    ):
        connection.execute(f"SET LOCAL statement_timeout = '{seconds}s'")
        rows = connection.execute(statement("queue_gauges"), {"most": MOST_QUEUES})
        return [Gauge._make(row) for row in rows]


def read_remarks(database: str) -> list[Gauge]:
    """Count what is wrong by its kind; what is acknowledged does not count."""
    seen = seen_in(database)
    try:
        counted = Counter(
            (each.kind, each.level) for each in found(seen) if not each.acknowledged
        )
    finally:
        connections[database].close()  # that of this thread
    looked_for = [(alert.kind, chosen(alert).level) for alert in alerts().values()]
    return [
        Gauge("remarks", kind, level, counted[kind, level], None)
        for kind, level in looked_for
        if level != OFF
    ]
