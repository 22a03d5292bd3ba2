"""What a child writes to its standard output and errors, C code and programs too."""

import os
import select
from collections.abc import Callable
from contextlib import suppress
from threading import Lock

from ...base.forks import keep_private

CHUNK = 65536
MOST_LINES = 200  # of one chunk; a flood must not keep the worker busy
LONGEST_LINE = 8_000  # bytes without an end, which then count as a line


class Output:
    """One of both, read by the worker at all times, so that it never fills up.

    While `keep` is set, it gets the lines. Otherwise they go where the worker's own
    go, and are dropped where nobody reads these.
    """

    def __init__(self, descriptor: int):
        self.descriptor = descriptor  # of the worker's own
        self.read_end, self.write_end = os.pipe()
        os.set_blocking(self.read_end, False)
        self.lock = Lock()
        self.keep: Callable[[str], None] | None = None
        self.rest = b""
        keep_private(self, lambda it: [it.read_end, it.write_end])

    def close_far_end(self) -> None:
        os.close(self.write_end)
        self.write_end = -1

    def close(self) -> None:
        self.drain()
        with self.lock:
            if self.read_end >= 0:
                os.close(self.read_end)
                self.read_end = -1

    def begin(self, keep: Callable[[str], None] | None) -> None:
        """Let the lines from now on go to a job, or to the worker's own output."""
        if keep is None and self.keep is None:
            return  # it goes there anyway, as soon as the pool reads it
        self.drain()
        with self.lock:
            if keep is None:
                self.take_rest()
            self.keep = keep

    def end(self) -> None:
        """Hand on what the job has written until now."""
        if self.keep is None:
            return
        self.drain()
        with self.lock:
            self.take_rest()
            self.keep = None

    def drain(self) -> None:
        """Read what is there, however much a program beside goes on to write."""
        for _ in range(CHUNK // 4096):
            if not self.read():
                return

    def read(self) -> bool:
        """Take a chunk; return whether there was one."""
        with self.lock:
            if self.read_end < 0:
                return False
            try:
                data = os.read(self.read_end, CHUNK)
            except OSError:
                return False
            if self.keep is None:
                self.forward(data)
            else:
                self.split(data)
            return bool(data)

    def forward(self, data: bytes) -> None:
        """Write to the worker's own output as much as it takes at once."""
        for start in range(0, len(data), select.PIPE_BUF):
            with suppress(OSError, ValueError):
                if select.select([], [self.descriptor], [], 0)[1]:
                    os.write(self.descriptor, data[start : start + select.PIPE_BUF])

    def split(self, data: bytes) -> None:
        *lines, self.rest = (self.rest + data).split(b"\n")
        if len(self.rest) > LONGEST_LINE:
            lines.append(self.rest)
            self.rest = b""
        if len(lines) > MOST_LINES:
            self.take(f"({len(lines) - MOST_LINES} lines are left out.)")
        for line in lines[-MOST_LINES:]:
            self.take(line.decode(errors="replace"))

    def take_rest(self) -> None:
        """Take what is no whole line: it is none of the next job's."""
        self.take(self.rest.decode(errors="replace"))
        self.rest = b""

    def take(self, line: str) -> None:
        if self.keep and line:
            self.keep(line)
