"""Ending a running body: from outside, or with a process that it forks.

From outside it is ended once at most, and never after its end.
"""

import asyncio
import ctypes
import os
import sys
import threading
import traceback
from collections.abc import Callable
from threading import get_ident
from time import sleep
from typing import Protocol, TypeVar

from ...exceptions import Interruption

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


# A process that a body forks runs the body and nothing else

forks = 0  # how often the process was forked since it started


class OfThread(threading.local):
    loop: asyncio.AbstractEventLoop | None = None  # the worker's, on its own thread


of_thread = OfThread()


def remember_fork() -> None:
    """Count it; let the child's copy of an event loop do nothing but end the process.

    It turns when the coroutine that has forked awaits something. It would wait for
    ever, or run the other coroutines of the worker a second time.
    """
    global forks
    forks += 1
    if of_thread.loop:
        message = "A forked process cannot await on the event loop of its worker."
        of_thread.loop.call_soon(end_process, RuntimeError(message))


os.register_at_fork(after_in_child=remember_fork)


class NoSecondWorker:
    """Runs a block of the job's code; a process that the block forks ends with it.

    The child has a copy of the worker's thread and connections. If it went on, it would
    run jobs and write to the database in the worker's name.
    """

    def __enter__(self) -> None:
        self.forks = forks  # os.getpid() would be a system call for each job

    def __exit__(self, kind, error: BaseException | None, frames) -> None:
        if forks != self.forks:
            end_process(error)


def end_process(error: BaseException | None) -> None:
    """End a forked process as Python would, but touch nothing that it inherited."""
    status = 0
    if isinstance(error, SystemExit) and (error.code is None or error.code == 0):
        pass
    elif isinstance(error, SystemExit) and isinstance(error.code, int):
        status = error.code & 0xFF
    elif error is not None:
        traceback.print_exception(error)
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
