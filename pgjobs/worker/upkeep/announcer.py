"""Announces ends beside the loop, which must not wait for receivers."""

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

from django.db import connections
from django.dispatch import Signal

from ... import signals
from ...conf import FINISHED
from ...models import Job, Worker
from ...queue.acts import announce_finished
from ...queue.recording import Unsuccessful
from ..observer import AttemptEnd
from ..slots.cleaning import clean_connections

logger = logging.getLogger("pgjobs.worker")

# How long the thread keeps its connection to the database without a call.
IDLE_SECONDS = 1.0
# Seconds after which a worker that stops gives up on a call, and one that starts warns.
LONGEST_CALL = 30.0


class EndOfAttempt(NamedTuple):
    """What receivers of signals hear of the end of an attempt."""

    id: int  # of the job
    end: str  # a key of `signals.OF_ENDS`, or a word for which no signal is sent
    error: BaseException | None = None


class Announcer:
    """A thread that starts with the first job whose end must be announced."""

    def __init__(self, database: str):
        self.database = database
        self.calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self.thread: threading.Thread | None = None
        self.done = 0  # calls

    def finished(self, ids: Sequence[int]) -> None:
        """Announce jobs that have ended without an attempt of this worker."""
        if ids and (has_receivers() or signals.end_listeners):
            for id in ids:  # a row that cannot be read harms itself alone
                self.put(partial(announce_finished, Job, self.database, [id]))

    def ended(self, ends: Sequence[AttemptEnd]) -> None:
        """Announce attempts whose ends this worker has recorded."""
        for call in announcements(self.database, ends):
            self.put(call)

    def announce_worker(self, signal: Signal, row: dict[str, Any]) -> None:
        """Announce the worker itself, by what it has put into its row."""
        if signal.has_listeners(Worker):
            known = {field.name for field in Worker._meta.concrete_fields}
            worker = Worker(**{name: row[name] for name in known & row.keys()})
            self.put(partial(signals.send, signal, Worker, worker=worker))

    def put(self, call: Callable[[], None]) -> None:
        if self.thread is None:
            self.thread = threading.Thread(
                target=self.run, name="pgjobs-announcer", daemon=True
            )
            self.thread.start()
        self.calls.put(call)

    def run(self) -> None:
        while (call := self.next_call()) is not None:
            try:
                call()
            except BaseException:  # or no further end would be announced
                logger.exception("A signal could not be sent")
            del call  # and the error in it, before the thread sleeps
            clean_connections()
            self.done += 1
        connections.close_all()

    def next_call(self) -> Callable[[], None] | None:
        """Wait for a call; None ends the thread."""
        try:
            return self.calls.get(timeout=IDLE_SECONDS)
        except Empty:
            connections.close_all()  # it is one more than the slots need
            return self.calls.get()

    def wait(self) -> None:
        """Return when all that was put so far is announced."""
        if self.thread is not None:
            announced = threading.Event()
            self.calls.put(announced.set)
            while not announced.wait(LONGEST_CALL):
                logger.warning("A receiver of worker_started keeps the worker waiting")

    def stop(self, timeout: float | None = None) -> None:
        """Send what is left, for `timeout` seconds at most, then end.

        Without a time-out, give up on a call that does not end: its connection may have
        gone silent.
        """
        if self.thread is None:
            return
        self.calls.put(None)
        if timeout is None:
            self.join_while_calls_end()
        else:
            self.thread.join(timeout)
        if self.thread.is_alive():
            logger.warning("A receiver of a signal is stuck")

    def join_while_calls_end(self) -> None:
        assert self.thread is not None
        done = -1
        while self.thread.is_alive() and done != self.done:
            done = self.done
            self.thread.join(LONGEST_CALL)


def has_receivers() -> bool:
    """Whether a signal of any end of an attempt has a receiver."""
    return any(signals.is_heard(end, Job) for end in signals.OF_ENDS)


def announcements(
    database: str, ends: Sequence[AttemptEnd]
) -> Iterator[Callable[[], None]]:
    """Yield the calls that announce the ends of attempts of this process."""
    if has_receivers():  # asked once for all, because most projects have none
        for end in map(end_of_attempt, ends):
            if signals.is_heard(end.end, Job):
                yield partial(send, database, end)
    for listener in signals.end_listeners:
        last = [each for each in ends if each.status in FINISHED]
        if of_interest := listener.of_interest(last):
            yield partial(listener.ended_here, database, of_interest)


def send(database: str, ended: EndOfAttempt) -> None:
    job = Job.objects.using(database).filter(pk=ended.id).first()
    if job is not None:
        signals.send_end(ended.end, Job, job, ended.error)


def end_of_attempt(end: AttemptEnd) -> EndOfAttempt:
    """Return what receivers of signals hear of an end."""
    if end.status is None or not isinstance(end.outcome, Unsuccessful):
        return EndOfAttempt(end.job.id, end.status or "")
    status = end.status if end.status in FINISHED else end.outcome.verdict
    return EndOfAttempt(end.job.id, status, end.outcome.error)
