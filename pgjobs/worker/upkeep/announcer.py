"""Sends the signals of ends beside the loop, which must not wait for receivers."""

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from queue import SimpleQueue
from typing import Any, NamedTuple

from django.db import connections
from django.dispatch import Signal

from ... import signals
from ...models import Job, Worker
from ...queue.acts import announce_finished
from ..slots.cleaning import clean_connections

logger = logging.getLogger("pgjobs.worker")


class EndOfAttempt(NamedTuple):
    """How an attempt ended: a key of `signals.OF_ENDS`."""

    id: int  # of the job
    end: str
    error: BaseException | None = None


class Announcer:
    """A thread that starts with the first job of which a receiver wants to hear."""

    def __init__(self, database: str):
        self.database = database
        self.works: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self.thread: threading.Thread | None = None

    @property
    def has_listeners(self) -> bool:
        """Whether there is a receiver for any end of an attempt."""
        return any(signals.is_heard(end, Job) for end in signals.OF_ENDS)

    def finished(self, ids: Sequence[int]) -> None:
        """Tell of jobs that a statement has ended; their rows say how."""
        if ids and self.has_listeners:
            for id in ids:  # a row that cannot be read harms itself alone
                self.put(partial(announce_finished, Job, self.database, [id]))

    def ended(self, ends: Iterable[EndOfAttempt]) -> None:
        """Tell of attempts whose ends are recorded."""
        for end in ends:
            if signals.is_heard(end.end, Job):
                self.put(partial(self.announce, end))

    def announce(self, ended: EndOfAttempt) -> None:
        job = Job.objects.using(self.database).filter(pk=ended.id).first()
        if job is not None:
            signals.send_end(ended.end, Job, job, ended.error)

    def announce_worker(self, signal: Signal, row: dict[str, Any]) -> None:
        """Tell of the worker itself, by what it has put into its row."""
        if signal.has_listeners(Worker):
            known = {field.name for field in Worker._meta.concrete_fields}
            worker = Worker(**{name: row[name] for name in known & row.keys()})
            self.put(partial(signals.send, signal, Worker, worker=worker))

    def put(self, work: Callable[[], None]) -> None:
        """Have the work done in its turn."""
        if self.thread is None:
            self.thread = threading.Thread(
                target=self.run, name="pgjobs-announcer", daemon=True
            )
            self.thread.start()
        self.works.put(work)

    def run(self) -> None:
        while (work := self.works.get()) is not None:
            try:
                work()
            except Exception:  # a row may be unreadable, too
                logger.exception("A signal could not be sent")
            del work  # and the error in it, before the thread sleeps
            clean_connections()
            if self.works.empty():
                connections.close_all()  # one more than the slots are to have
        connections.close_all()

    def wait(self) -> None:
        """Return when all receivers have been told of what was put so far."""
        if self.thread is not None:
            told = threading.Event()
            self.works.put(told.set)
            told.wait()

    def stop(self, timeout: float | None = None) -> None:
        """Send what is left, for `timeout` seconds at most, then end."""
        if self.thread is not None:
            self.works.put(None)
            self.thread.join(timeout)
