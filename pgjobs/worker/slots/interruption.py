"""Ending a running body from outside: once at most, and never after its end."""

import asyncio
import ctypes
from collections.abc import Callable
from threading import get_ident
from time import sleep
from typing import Protocol, TypeVar

from ...exceptions import Interruption
from .forks import NoSecondWorker

R = TypeVar("R")

SETTLE_SECONDS = 0.0001


class Stopper(Protocol):
    """Ends one body. The first call counts, whatever its reason."""

    def stop(self, cause: type[Interruption]) -> None: ...


class ThreadStopper:
    """Raises in the thread that runs a body, at its next bytecode.

    Body and stopper compete for one ticket. If the body takes it when it ends, nothing
    is raised any more. If the stopper takes it, the end of the body waits until the
    exception was raised or can be taken back. So the exception never hits what the
    thread does next, and there is never a second one. Locks are no way: the exception
    could hit their holder.
    """

    def __init__(self) -> None:
        self.ticket = [True]
        self.thread_id: int | None = None
        self.cause: type[Interruption] | None = None
        self.is_raised = False
        self.is_closed = False

    def stop(self, cause: type[Interruption]) -> None:
        try:
            self.ticket.pop()
        except IndexError:
            return  # the body has ended, or was stopped already
        self.cause = cause
        if self.thread_id is not None:
            raise_in(self.thread_id, cause)
        self.is_raised = True

    def open(self) -> None:
        """Begin the body; raises what it was stopped for before."""
        self.thread_id = get_ident()
        if self.cause is not None:
            raise self.cause

    def close(self) -> None:
        """End the body: nothing is raised in this thread any more.

        The exception may still hit this function itself. Then call it again.
        """
        if self.is_closed:
            return
        try:
            self.ticket.pop()
        except IndexError:
            while not self.is_raised:
                sleep(SETTLE_SECONDS)
            raise_in(get_ident(), None)
        self.is_closed = True


def run_stoppable(stopper: ThreadStopper, body: Callable[[], R]) -> R:
    """Return what the body returns, or raise what ended it.

    A body that has returned counts as not stopped, however late the stop came.
    """
    returned: list[R] = []
    try:
        try:
            stopper.open()
            with NoSecondWorker():
                returned.append(body())
        finally:
            stopper.close()
    except BaseException:
        stopper.close()  # close() itself was hit, which cannot happen twice
        if not returned:
            raise
    return returned[0]


def raise_in(thread_id: int, cause: type[Interruption] | None) -> None:
    """Raise in a thread before its next bytecode. None takes that back."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread_id), ctypes.py_object(cause) if cause else None
    )


class CoroutineStopper:
    """Cancels the asyncio task of a body. Call all but `stop` in its event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.task: asyncio.Task | None = None
        self.cause: type[Interruption] | None = None
        self.is_closed = False

    def stop(self, cause: type[Interruption]) -> None:
        self.loop.call_soon_threadsafe(self.cancel, cause)

    def cancel(self, cause: type[Interruption]) -> None:
        if self.cause is None and not self.is_closed:
            self.cause = cause
            if self.task is not None:
                self.task.cancel()

    def open(self) -> None:
        """Begin the body; raises what it was stopped for before."""
        self.task = asyncio.current_task()
        if self.cause is not None:
            raise self.cause

    def close(self) -> None:
        self.is_closed = True
