"""The tasks of benchmarks/isolation.py."""

import ctypes
import os
import time
from pathlib import Path

from pgjobs import task


def note(path: str) -> None:
    """Store the time, by a clock that is the same for all processes."""
    if path:
        with open(path, "a") as file:
            os.write(file.fileno(), f"{time.monotonic()} {os.getpid()}\n".encode())


@task(name="benchmarks.in_thread")
def in_thread(path: str = "") -> None:
    note(path)


@task(name="benchmarks.in_process", isolated=True)
def in_process(path: str = "") -> None:
    note(path)


@task(name="benchmarks.held", isolated=True, timeout=1, max_attempts=1)
def held(path: str) -> None:
    """Hold the interpreter, as C code does, from a moment that is noted on."""
    Path(path).write_text(f"{time.monotonic()} {os.getpid()}\n")
    ctypes.PyDLL(None).sleep(60)
