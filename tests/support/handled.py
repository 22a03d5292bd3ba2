"""Imported as a task module: handlers of events, for workers in other processes."""

import os
import time
from pathlib import Path

from pgjobs import current_event, current_job, subscribe, task
from tests.tasks import kill_own_process, write


@subscribe("order.paid")
@task
def ship(path: str):
    note(path, "ship")


@subscribe("order.paid")
@task(backoff=lambda failures: 0)
def bill(path: str):
    """Take the worker's process along, the first time."""
    note(path, "bill")
    if not Path(f"{path}.died").exists():
        write(f"{path}.died", "x")
        kill_own_process.function()


@subscribe("order.*")
@task
async def audit(path: str):
    note(path, "audit")


@subscribe("counted", ordered_by="aggregate")
@task(backoff=lambda failures: 0)
def count(path: str):
    """Note what came, in two steps that others would come between."""
    before = Path(path).read_text() if Path(path).exists() else ""
    time.sleep(0.002)
    if current_job().attempt == 1 and current_event().id % 3 == 0:
        raise ValueError("not now")
    Path(path).write_text(f"{before}{current_event().correlation_id}\n")


def note(path: str, name: str) -> None:
    write(path, f"{name} {current_event().id} {os.getpid()}")
