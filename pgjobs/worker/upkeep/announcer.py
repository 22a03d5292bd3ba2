"""Announces the ends of jobs beside the loop, which must not wait for receivers."""

import logging
import threading
from collections.abc import Callable, Sequence
from functools import partial
from queue import SimpleQueue
from typing import Protocol

from django.db import connections

from ... import signals
from ...models import Job
from ...queue.acts import announce_finished, send_finished
from ...queue.claiming import ClaimedJob
from ..slots.cleaning import clean_connections

logger = logging.getLogger("pgjobs.worker")


class AttemptEnd(Protocol):
    @property
    def job(self) -> ClaimedJob: ...


class Announcer:
    """A thread that starts with the first job whose end is to be announced."""

    def __init__(self, database: str):
        self.database = database
        self.calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self.thread: threading.Thread | None = None

    def finished(self, ids: Sequence[int]) -> None:
        """Announce jobs that have ended without an attempt of this worker."""
        if self.has_receivers or signals.end_listeners:
            for id in ids:
                self.put(partial(announce_finished, Job, self.database, [id]))

    def finished_here(self, ends: Sequence[AttemptEnd]) -> None:
        """Announce jobs whose last attempt this worker has recorded."""
        if self.has_receivers:
            for end in ends:
                self.put(partial(send_finished, Job, self.database, [end.job.id]))
        for listener in signals.end_listeners:
            if of_interest := listener.of_interest(ends):
                self.put(partial(listener.ended_here, of_interest))

    @property
    def has_receivers(self) -> bool:
        return signals.job_finished.has_listeners(Job)

    def put(self, call: Callable[[], None]) -> None:
        if self.thread is None:
            self.thread = threading.Thread(
                target=self.run, name="pgjobs-announcer", daemon=True
            )
            self.thread.start()
        self.calls.put(call)

    def run(self) -> None:
        while (call := self.calls.get()) is not None:
            try:
                call()
            except Exception:  # the row may be unreadable, too
                logger.exception("Jobs have finished unannounced")
            clean_connections()
            if self.calls.empty():
                connections.close_all()  # it is one more than the slots need
        connections.close_all()

    def stop(self, timeout: float | None = None) -> None:
        """Send what is left, for `timeout` seconds at most, then end."""
        if self.thread is not None:
            self.calls.put(None)
            self.thread.join(timeout)
