"""Ends a process that does not end by itself."""

import logging
import os
import sys
import threading
from math import inf
from time import monotonic

logger = logging.getLogger("pgjobs.worker")

# For the last jobs to be released, and for the worker to leave. Less than a supervisor
# waits before it kills.
LAST_SECONDS = 4.0
WORDS_SECONDS = 0.5  # for the log: whatever hangs may hold its lock


class LastResort:
    """Ends the process at a given time, whatever hangs in it: a thread that waits."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.at = inf  # monotonic time
        self.code = 0
        self.thread: threading.Thread | None = None

    def end_within(self, seconds: float, code: int) -> None:
        """End the process after that time with this code; an earlier end stays."""
        with self.changed:
            self.at, self.code = min(self.at, monotonic() + seconds), code
            if self.thread is None:
                self.thread = threading.Thread(
                    target=self.wait, name="pgjobs-last-resort", daemon=True
                )
                self.thread.start()
            self.changed.notify()

    def lift(self) -> None:
        """Let the process live."""
        with self.changed:
            self.at = inf

    def wait(self) -> None:
        with self.changed:
            while (left := self.at - monotonic()) > 0:
                self.changed.wait(min(left, threading.TIMEOUT_MAX))
        words = threading.Thread(target=say_so, args=[self.code], daemon=True)
        try:
            words.start()
            words.join(WORDS_SECONDS)
        except RuntimeError:
            pass  # Python ends already, and starts no thread any more
        end_process(self.code)


def say_so(code: int) -> None:
    logger.error(
        "The worker does not end by itself and is ended: exit code %s. Threads: %s",
        code,
        ", ".join(thread.name for thread in threading.enumerate()),
    )


def end_process(code: int) -> None:
    """End this process at once, and the daemonic children that Python would end."""
    if multiprocessing := sys.modules.get("multiprocessing"):
        for child in multiprocessing.active_children():
            if child.daemon:
                child.terminate()
    os._exit(code)
