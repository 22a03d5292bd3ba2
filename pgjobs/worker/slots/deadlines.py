"""Calls functions when their time has come, on one thread."""

import logging
import threading
from collections.abc import Callable, Hashable
from math import inf
from time import monotonic

logger = logging.getLogger("pgjobs.worker")


class Deadlines:
    """At most one deadline for each key. The thread starts with the first of them."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.due: dict[Hashable, tuple[float, Callable[[], None]]] = {}
        self.wakes_at = inf
        self.stopped = False
        self.thread: threading.Thread | None = None

    def set(self, key: Hashable, seconds: float, act: Callable[[], None]) -> None:
        """Call `act`, which must be quick, after `seconds`."""
        when = monotonic() + seconds
        with self.changed:
            self.due[key] = when, act
            if self.thread is None:
                self.thread = threading.Thread(
                    target=self.run, name="pgjobs-deadlines", daemon=True
                )
                self.thread.start()
            elif when < self.wakes_at:
                self.changed.notify()

    def lift(self, key: Hashable) -> None:
        """Forget the deadline of a key, if there is one."""
        with self.changed:
            self.due.pop(key, None)

    def run(self) -> None:
        while not self.stopped:
            for act in self.take_due():
                try:
                    act()
                except Exception:  # a dead thread would end all time limits
                    logger.exception("Deadline failed")

    def take_due(self) -> list[Callable[[], None]]:
        """Wait until a deadline is due; return what to call."""
        with self.changed:
            while not self.stopped:
                now = monotonic()
                keys = [key for key, (when, _) in self.due.items() if when <= now]
                if keys:
                    keys.sort(key=lambda key: self.due[key][0])
                    return [self.due.pop(key)[1] for key in keys]
                self.wakes_at = min(
                    (when for when, _ in self.due.values()), default=inf
                )
                longest = min(self.wakes_at - now, threading.TIMEOUT_MAX)
                self.changed.wait(longest)
        return []

    def stop(self) -> None:
        with self.changed:
            self.stopped = True
            self.changed.notify()
        if self.thread is not None:
            self.thread.join()
