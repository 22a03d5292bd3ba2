"""One child, as its worker sees it: a keeper, two pipes to it, and one to its child."""

import logging
import os
import select
import signal
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from math import inf
from pathlib import Path
from time import monotonic
from typing import Any

from ...base.forks import keep_private
from ...worker.process.supervisor import stopping_signals_blocked
from .frames import Frames, Garbled
from .mark import Mark, shared_file
from .output import Output

logger = logging.getLogger("pgjobs.worker")

KEEPER = Path(__file__).with_name("keeper.py")
START_SECONDS = 120.0  # for Django and the project to be imported
LOOK_SECONDS = 0.5  # at the latest it is seen that a child was killed
KEEPER_SECONDS = 3.0  # for a keeper to kill, before the worker does so by itself
KEPT_LINES = 20  # of what a child says while it starts


class CannotStart(Exception):
    """A child has not become ready."""


class ChildProcess:
    """Starts anew, and knows nothing of this process but what `hello` says.

    One thread attends to it at a time; orders may come from any.
    """

    def __init__(self, hello: dict[str, Any]):
        self.control, control = socket.socketpair()
        near, far = socket.socketpair()
        mark = shared_file()
        self.taken = Mark(mark)  # by its lease token: the job that it has begun
        self.frames = Frames(near)
        self.outputs = [Output(1), Output(2)]
        self.pid = 0  # of the child, once it is there
        self.status: int | None = None  # that it has ended with
        self.memory = 0  # bytes, by which it went beyond its limit
        self.has_ended = False  # and all that it had started, too
        self.kill_at = inf  # when the worker kills by itself (monotonic time)
        self.is_killed = False
        self.reports = b""
        self.jobs = 0  # that it has run
        self.idle_since = monotonic()
        self.size = self.first_size = 0  # bytes, when it was idle last, and first
        self.said: deque[str] = deque(maxlen=KEPT_LINES)
        for owner in (self.control, near):
            keep_private(owner)
        with control, far:
            ends = [output.write_end for output in self.outputs]
            try:
                self.keeper = start_keeper(
                    [control.fileno(), far.fileno(), mark, *ends]
                )
            finally:
                os.close(mark)
        for output in self.outputs:
            output.close_far_end()
        self.poll = select.poll()
        for end in (self.control, near):
            self.poll.register(end, select.POLLIN)
        self.hello = hello

    def start(self) -> None:
        """Wait until it is ready; raises CannotStart."""
        with suppress(OSError):
            self.frames.send(self.hello)
        until = monotonic() + START_SECONDS
        for frame in self.heard(until):
            if frame[0] == "ready":
                self.size = self.first_size = int(frame[1])
                return
            raise CannotStart(str(frame[-1]))
        why = (
            f"It ended with {described(self.status)}" if self.has_ended else "It hangs"
        )
        self.kill_now()
        raise CannotStart("\n".join([f"{why}.", *self.said]))

    def order(self, line: str) -> None:
        """Tell the keeper something; if it is gone, so is the child."""
        with suppress(OSError):
            self.control.send(f"{line}\n".encode(), socket.MSG_DONTWAIT)

    def kill(self) -> None:
        """Have it killed, with all that it has started; from any thread."""
        self.is_killed = True
        self.kill_at = min(self.kill_at, monotonic() + KEEPER_SECONDS)
        self.order("kill")

    def heard(self, until: float = inf) -> Iterator[list]:
        """Yield what the child sends, until it is gone or the time is over.

        Raises Garbled if other code has written to the pipe.
        """
        while True:
            while (frame := self.frames.take()) is not None:
                yield frame
            if self.has_ended or monotonic() >= until:
                return
            self.wait(until)

    def wait(self, until: float) -> None:
        seconds = min(until - monotonic(), LOOK_SECONDS)
        for descriptor, _ in self.poll.poll(max(seconds, 0) * 1000):
            if descriptor == self.control.fileno():
                self.hear_keeper()
            elif not self.frames.fill():
                # The child has closed it, or is gone.
                self.poll.unregister(self.frames.socket)
                self.kill()
        if self.kill_at <= monotonic() and not self.has_ended:
            self.kill_group()
        if self.has_ended:
            while self.frames.fill():  # what it sent before it ended
                pass

    def hear_keeper(self) -> None:
        try:
            data = self.control.recv(4096)
        except OSError:
            data = b""
        *lines, self.reports = (self.reports + data).split(b"\n")
        for line in lines:
            what, _, value = line.decode().partition(" ")
            if what == "pid":
                self.pid = int(value)
            elif what == "memory":
                self.memory = int(value)
            elif what == "ended":
                self.status = None if value == "None" else int(value)
        if not data:
            self.bury()

    def bury(self) -> None:
        """Reap the keeper: with it all have ended."""
        self.has_ended = True
        if self.keeper.wait() != 0:
            self.kill_group()  # it was killed, so others may be left

    def kill_group(self) -> None:
        """Kill without the keeper, which does not answer or is gone."""
        if self.pid:
            with suppress(OSError):
                os.killpg(self.pid, signal.SIGKILL)
        self.keeper.kill()
        self.keeper.wait()
        self.has_ended = True

    def kill_now(self) -> None:
        """Kill, and wait until nothing of it is left."""
        if not self.has_ended:
            self.kill()
            self.wait_for_end()

    def wait_for_end(self) -> None:
        try:
            for _ in self.heard(monotonic() + 2 * KEEPER_SECONDS):
                pass
        except Garbled:
            self.frames.received.clear()
            self.wait_for_end()

    def close(self) -> None:
        """Close this end of everything; it must be gone."""
        for output in self.outputs:
            output.close()
        self.control.close()
        self.frames.socket.close()
        self.taken.close()


def start_keeper(descriptors: list[int]) -> subprocess.Popen:
    flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    command = [sys.executable, *flags, "-P", str(KEEPER), *map(str, descriptors)]
    with stopping_signals_blocked():
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            pass_fds=descriptors,
            process_group=0,
        )


def described(status: int | None) -> str:
    """Return how a process has ended, for people."""
    if status is None:
        return "no status"
    if status >= 0:
        return f"exit code {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = "unknown"
    return f"signal {-status} ({name})"
