"""What a process that is forked must not share with the one that it comes from."""

import os
import signal
import threading
from collections.abc import Callable, Iterable
from typing import Any
from weakref import WeakKeyDictionary

# By its owner, what returns the descriptors of a file that is this process's alone.
private: WeakKeyDictionary[Any, Callable[[Any], Iterable[int]]] = WeakKeyDictionary()
# The signals that this process handles for itself alone.
own_signals: set[signal.Signals] = set()


class OfThread(threading.local):
    mask: set[int] | None = None  # the signals that it blocked before it forks


of_thread = OfThread()


def keep_private(
    owner: Any, descriptors: Callable[[Any], Iterable[int]] = lambda it: [it.fileno()]
) -> None:
    """Give no forked process the files of `owner`, for as long as it lives."""
    private[owner] = descriptors


def hold_signals() -> None:
    """Let signals to the child wait until it has handlers of its own."""
    if own_signals:
        of_thread.mask = signal.pthread_sigmask(signal.SIG_BLOCK, own_signals)


def release_signals() -> None:
    mask, of_thread.mask = of_thread.mask, None
    if mask is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def part() -> None:
    """Leave the other process what belongs to it. Runs first thing in a forked one.

    A session whose socket a child has inherited outlives its process, with its locks.
    A child that wrote to a pipe would speak in the name of the other process, and one
    that handled its signals could not be ended by them.
    """
    for number in own_signals:
        signal.signal(number, signal.SIG_DFL)
    if own_signals:
        signal.set_wakeup_fd(-1)
        own_signals.clear()
    release_signals()
    # Not closed: whatever still writes to them would write to other files.
    nothing = os.open(os.devnull, os.O_RDWR)
    for owner, descriptors in list(private.items()):
        for descriptor in open_ones(owner, descriptors):
            os.dup2(nothing, descriptor, inheritable=False)
    os.close(nothing)


def open_ones(owner: Any, descriptors: Callable[[Any], Iterable[int]]) -> list[int]:
    try:
        return [each for each in descriptors(owner) if each >= 0]
    except Exception:  # noqa: BLE001  (a connection that is closed)
        return []


os.register_at_fork(
    before=hold_signals, after_in_parent=release_signals, after_in_child=part
)
