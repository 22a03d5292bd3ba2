"""What the jobs of every system do. Needs nothing but the standard library."""

import ctypes
import functools
import os
import time


def noop(number: int) -> None:
    """Do nothing: what remains is what the system itself costs."""


def stamp(number: int) -> None:
    """Store when the job started; the clock is the same for all processes."""
    started = time.monotonic()
    os.write(stamps(), f"{number} {started}\n".encode())


def hold(path: str) -> None:
    """Hold the interpreter, as C code does, and note since when, and the process."""
    with open(path, "w") as file:
        file.write(f"{time.monotonic()} {os.getpid()}\n")
    ctypes.PyDLL(None).sleep(60)


@functools.cache
def stamps() -> int:
    return os.open(os.environ["BENCHMARK_STAMPS"], os.O_WRONLY | os.O_APPEND)
