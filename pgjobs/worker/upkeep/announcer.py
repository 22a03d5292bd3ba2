"""Sends job_finished beside the loop, which must not wait for receivers."""

import logging
import threading
from collections.abc import Sequence
from queue import SimpleQueue

from django.db import connections

from ... import signals
from ...models import Job
from ...queue.acts import announce_finished
from ..slots.cleaning import clean_connections

logger = logging.getLogger("pgjobs.worker")


class Announcer:
    """A thread that starts with the first job for which there is a receiver."""

    def __init__(self, database: str):
        self.database = database
        self.ids: SimpleQueue[int | None] = SimpleQueue()
        self.thread: threading.Thread | None = None

    def finished(self, ids: Sequence[int]) -> None:
        if not ids or not signals.job_finished.has_listeners(Job):
            return
        if self.thread is None:
            self.thread = threading.Thread(
                target=self.run, name="pgjobs-announcer", daemon=True
            )
            self.thread.start()
        for id in ids:
            self.ids.put(id)

    def run(self) -> None:
        while (id := self.ids.get()) is not None:
            try:
                announce_finished(Job, self.database, [id])
            except Exception:  # the row may be unreadable, too
                logger.exception("Job id=%s finished unannounced", id)
            clean_connections()
            if self.ids.empty():
                connections.close_all()  # it is one more than the slots need
        connections.close_all()

    def stop(self, timeout: float | None = None) -> None:
        """Send what is left, for `timeout` seconds at most, then end."""
        if self.thread is not None:
            self.ids.put(None)
            self.thread.join(timeout)
