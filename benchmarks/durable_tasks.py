"""The tasks of benchmarks/durable.py."""

import os
import time

from pgjobs import current_job, task


@task(name="benchmarks.plain")
def plain(path: str = ""):
    note(path)


@task(name="benchmarks.sleeping")
def sleeping(path: str = ""):
    current_job().sleep("a while", 1.0)
    note(path)


@task(name="benchmarks.answered")
def answered(path: str = ""):
    current_job().wait_for("go", str)
    note(path)


@task(name="benchmarks.told", waits_for=("benchmark.go",))
def told(aggregate_id: str, path: str = ""):
    current_job().wait_for_event("benchmark.go", aggregate_id=aggregate_id)
    note(path)


def note(path: str) -> None:
    """Store the time, by a clock that is the same for all processes."""
    if path:
        with open(path, "a") as file:
            os.write(file.fileno(), f"{time.monotonic()}\n".encode())
