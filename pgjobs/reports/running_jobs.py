"""What workers run at this moment."""

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from .reading import rows_of

MOST_JOBS = 3  # of a worker


class RunningNow(NamedTuple):
    id: int
    task: str
    since: datetime | None  # None if SQL has written the row so


def running_jobs(database: str, workers: Iterable[int]) -> dict[int, list[RunningNow]]:
    """Return some jobs of each worker: those that began first."""
    found: dict[int, list[RunningNow]] = {}
    limits = {"workers": list(workers), "most": MOST_JOBS}
    for worker, *job in rows_of(database, "running_jobs", limits):
        found.setdefault(worker, []).append(RunningNow(*job))
    return found
