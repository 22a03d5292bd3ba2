"""Announces ends beside the loop, which must not wait for receivers."""

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import inf
from time import monotonic
from typing import Any, NamedTuple

from django.db import connections
from django.dispatch import Signal

from ... import signals
from ...conf import FINISHED
from ...models.job import Job
from ...models.worker import Worker
from ...queue.acts import announce_finished
from ...queue.recording import Unsuccessful, deleting
from ...tasks.registry import registry
from ..observer import AttemptEnd
from ..slots.cleaning import clean_connections

logger = logging.getLogger("pgjobs.worker")

# How long the thread keeps its connection to the database without a call.
IDLE_SECONDS = 1.0
# Seconds after which a worker that stops gives up on a call, and one that starts warns.
LONGEST_CALL = 30.0
# Receivers that are slower than the jobs do not fill the memory: each call that waits
# holds an exception, perhaps, with all its frames.
MOST_WAITING = 10_000
LATE_SECONDS = 30.0  # for which a call may wait until the worker warns
WARNING_INTERVAL = 60.0
TICK = 0.1  # seconds after which a wait looks whether it must end


class EndOfAttempt(NamedTuple):
    """What receivers of signals hear of the end of an attempt."""

    id: int  # of the job
    end: str  # a key of `signals.OF_ENDS`, or a word for which no signal is sent
    error: BaseException | None = None
    row: str | None = None  # JSON; of a job whose row may be gone


class Announcer:
    """A thread that starts with the first job whose end must be announced."""

    def __init__(self, database: str):
        self.database = database
        self.changed = threading.Condition()
        # With the time (monotonic) at which each was put; the oldest first.
        self.calls: deque[tuple[float, Callable[[], None]]] = deque()
        self.rows: dict[int, str] = {}  # JSON by id, of jobs whose rows may be deleted
        self.dropped = 0  # calls, since the last warning
        self.warn_at = -inf
        self.is_stopping = False
        self.thread: threading.Thread | None = None
        self.done = 0  # calls

    def finished(self, ids: Sequence[int]) -> None:
        """Announce jobs that have ended without an attempt of this worker."""
        if ids and (signals.is_heard(Job) or signals.end_listeners):
            for id in ids:  # a row that cannot be read harms itself alone
                self.put(partial(announce_finished, Job, self.database, [id]))

    def ended(self, ends: Sequence[AttemptEnd]) -> None:
        """Announce attempts whose ends this worker has recorded."""
        for call in announcements(self.database, ends, self.rows):
            self.put(call)

    def announce_worker(self, signal: Signal, row: dict[str, Any]) -> None:
        """Announce the worker itself, by what it has put into its row."""
        if signal.has_listeners(Worker):
            known = {field.name for field in Worker._meta.concrete_fields}
            worker = Worker(**{name: row[name] for name in known & row.keys()})
            self.put(partial(signals.send, signal, Worker, worker=worker))

    def put(self, call: Callable[[], None]) -> None:
        now = monotonic()
        with self.changed:
            if len(self.calls) >= MOST_WAITING:
                self.calls.popleft()
                self.dropped += 1
            self.calls.append((now, call))
            self.changed.notify()
            waited = now - self.calls[0][0]
        if self.thread is None:
            self.thread = threading.Thread(
                target=self.run, name="pgjobs-announcer", daemon=True
            )
            self.thread.start()
        if (waited > LATE_SECONDS or self.dropped) and now >= self.warn_at:
            self.warn(waited, now)

    def warn(self, waited: float, now: float) -> None:
        """Say that receivers are slower than the jobs; not too often."""
        self.warn_at = now + WARNING_INTERVAL
        logger.warning(
            "Receivers of signals are late: waiting=%s for %.0f s, dropped=%s",
            len(self.calls),
            waited,
            self.dropped,
        )
        self.dropped = 0

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
        with self.changed:
            if not self.changed.wait_for(self.is_wanted, IDLE_SECONDS):
                connections.close_all()  # it is one more than the slots need
                self.changed.wait_for(self.is_wanted)
            return self.calls.popleft()[1] if self.calls else None

    def is_wanted(self) -> bool:
        return bool(self.calls) or self.is_stopping

    def wait(self, must_end: Callable[[], bool]) -> None:
        """Return when all that was put so far is announced, or at once if it must."""
        if self.thread is None:
            return
        announced = threading.Event()
        self.put(announced.set)
        warn_at = monotonic() + LONGEST_CALL
        while not announced.wait(TICK) and not must_end():
            if monotonic() >= warn_at:
                warn_at += LONGEST_CALL
                logger.warning("A receiver of worker_started keeps the worker waiting")

    def stop(self, ends_at: Callable[[], float]) -> bool:
        """Send what is left, then end; return whether all was sent.

        `ends_at` returns until when (monotonic time); a signal may bring that forward.
        A call that does not end for long is given up before: its connection may have
        gone silent.
        """
        if self.thread is None:
            return True
        with self.changed:
            self.is_stopping = True
            self.changed.notify()
        done, given_up_at = -1, inf
        while self.thread.is_alive() and monotonic() < min(ends_at(), given_up_at):
            if done != self.done:
                done, given_up_at = self.done, monotonic() + LONGEST_CALL
            self.thread.join(TICK)
        return self.is_done()

    def is_done(self) -> bool:
        """Whether the thread has ended. If not, it sends nothing more but this call."""
        if self.thread is None or not self.thread.is_alive():
            return True
        with self.changed:
            unsent = len(self.calls)
            self.calls.clear()
        logger.warning("A receiver of a signal is stuck, or slow: unsent=%s", unsent)
        return False


def announcements(
    database: str, ends: Sequence[AttemptEnd], rows: dict[int, str] | None = None
) -> Iterator[Callable[[], None]]:
    """Yield the calls that announce ends of attempts; take rows of deleted jobs."""
    if signals.is_heard(Job):  # asked once for all, because most projects have none
        for end in map(end_of_attempt, ends):
            if rows:
                end = end._replace(row=rows.pop(end.id, None))
            if signals.is_heard(Job, end.end):
                yield partial(send, database, end)
    own = registry.declared()  # the listeners hear of the tasks of other sources
    last = [e for e in ends if e.job.task not in own and e.status in FINISHED]
    for listener in signals.end_listeners if last else ():
        if of_interest := listener.of_interest(last):
            yield partial(listener.ended_here, database, of_interest)


def send(database: str, ended: EndOfAttempt) -> None:
    job = Job.objects.using(database).filter(pk=ended.id).first()
    if job is None and ended.row is not None:
        job = deleting().job_of(database, ended.row)
    if job is not None:
        signals.send_end(ended.end, Job, job, ended.error)


def end_of_attempt(end: AttemptEnd) -> EndOfAttempt:
    """Return what receivers of signals hear of an end."""
    if end.status is None or not isinstance(end.outcome, Unsuccessful):
        return EndOfAttempt(end.job.id, end.status or "")
    status = end.status if end.status in FINISHED else end.outcome.verdict
    return EndOfAttempt(end.job.id, status, end.outcome.error)
