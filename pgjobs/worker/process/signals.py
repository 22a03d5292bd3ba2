"""Signals to a worker, heard by a thread of their own."""

import os
import select
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ...base.forks import own_signals
from ..connections.bell import Bell

STOPPING_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class SignalWatch:
    """Calls `stop` at each of the stopping signals.

    Python calls a handler in the main thread, once what runs there returns to Python.
    That may be never: a name that is being resolved, a driver that waits. The number of
    the signal is in the pipe at once, and this thread reads it.
    """

    def __init__(self, stop: Callable[[], None]):
        self.stop = stop
        self.bell = Bell()
        self.is_over = False
        self.thread = threading.Thread(
            target=self.watch, name="pgjobs-signals", daemon=True
        )

    def watch(self) -> None:
        poll = select.poll()
        poll.register(self.bell.read_end, select.POLLIN)
        while not self.is_over:
            poll.poll()
            for number in os.read(self.bell.read_end, 4096):
                if number in STOPPING_SIGNALS:
                    self.stop()

    def close(self) -> None:
        self.is_over = True
        self.bell.ring()
        self.thread.join()
        self.bell.close()


@contextmanager
def stopping_on_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Let SIGTERM and SIGINT call `stop` on a thread, where Python allows it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    watch = SignalWatch(stop)
    watch.bell.hear_signals()
    before = {
        # The pipe gets the number only of a signal that has a handler.
        number: signal.signal(number, lambda *args: None)
        for number in STOPPING_SIGNALS
    }
    own_signals.update(STOPPING_SIGNALS)
    watch.thread.start()
    # A supervisor starts its workers with these blocked.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING_SIGNALS)
    try:
        yield
    finally:
        own_signals.clear()
        for number, handler in before.items():
            signal.signal(number, handler)
        watch.close()
