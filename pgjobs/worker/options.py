import os
import socket
from dataclasses import dataclass, field
from typing import Literal

from ..conf import settings

MOST_PREFETCHED = 500  # jobs that `--prefetch auto` may hold beyond the slots


def default_name() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"


@dataclass(frozen=True, kw_only=True)
class WorkerOptions:
    """How one worker runs. Durations are in seconds; None means no limit."""

    database: str = field(default_factory=lambda: settings.DATABASE)
    name: str = field(default_factory=default_name)
    queues: tuple[str, ...] | None = None  # None means all
    excluded: tuple[str, ...] = ()
    slots: int = field(default_factory=lambda: settings.CONCURRENCY)
    # Process units that the jobs of all workers of this host may take together.
    units: int | None = field(default_factory=lambda: settings.PROCESS_UNITS)
    isolated: int | None = None  # processes of isolated jobs; None: one for each core
    # Jobs claimed beyond the slots, at most. `Capacity` decides how many.
    prefetch: int | Literal["auto"] = 0
    poll: float = field(default_factory=lambda: settings.POLL_INTERVAL)
    grace: float = 30.0
    drain: bool = False
    max_jobs: int | None = None
    max_time: float | None = None
    max_memory: int | None = None  # bytes
    is_replaced: bool = False  # a supervisor starts another process after this one
    listen: bool = True

    @property
    def most_prefetched(self) -> int:
        return MOST_PREFETCHED if self.prefetch == "auto" else self.prefetch
