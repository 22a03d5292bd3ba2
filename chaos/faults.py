"""Faults: what they act upon, which jobs they meet, and how each comes about.

A kind of fault is a function in `happenings/` that yields while the fault lasts. It
says whom it met: the jobs that were RUNNING there at that moment.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import psycopg

from .checker.evidence import EVERYBODY
from .fleet import Fleet
from .proxy import Network
from .server import Server
from .timeline import Planned

LONGEST_WAIT = 1.5  # seconds, for a worker that runs a job
RUNNING = """
SELECT worker.name, worker.pid, worker.id, job.id, job.lease_token
FROM pgjobs_worker AS worker LEFT JOIN pgjobs_job AS job
    ON job.worker_id = worker.id AND job.status = 'RUNNING'
WHERE worker.lease_until > clock_timestamp()
ORDER BY worker.name, job.id
"""


class Skipped(Exception):
    """This machine does not allow the fault, or there was nothing to meet."""


@dataclass
class Fault:
    """What happened, for the report and the checker."""

    kind: str
    began_at: float
    ended_at: float = 0.0
    target: str = EVERYBODY
    pids: list[int] = field(default_factory=list)
    met: list[tuple[int, int]] = field(default_factory=list)  # jobs, by id and token
    has_met_start: bool = False  # a process that had not registered yet
    skipped: str = ""


@dataclass
class Victim:
    """A worker process, with the jobs that it runs."""

    name: str
    pid: int
    jobs: list[tuple[int, int]]


@dataclass
class Stage:
    """What faults act upon."""

    server: Server
    network: Network
    fleet: Fleet

    def victims(self) -> list[Victim]:
        """Return the living workers, by name."""
        found: dict[str, Victim] = {}
        with self.server.connect() as connection:
            for name, pid, _, job, token in connection.execute(RUNNING):
                victim = found.setdefault(name, Victim(name, pid, []))
                if job is not None:
                    victim.jobs.append((job, token))
        return list(found.values())

    def running(self, queue: str | None = None) -> list[tuple[int, int]]:
        """Return the jobs that run, of one queue or of all."""
        query = (
            "SELECT id, lease_token FROM pgjobs_job"
            " WHERE status = 'RUNNING' AND queue_name = coalesce(%s, queue_name)"
        )
        with self.server.connect() as connection:
            return connection.execute(query, [queue]).fetchall()

    def victim(self, fault: Fault, draw: float) -> Victim:
        """Choose a worker, one that runs a job if there soon is one; note it."""
        deadline = time.monotonic() + LONGEST_WAIT
        while True:
            everyone = self.victims()
            working = [victim for victim in everyone if victim.jobs]
            if working or time.monotonic() > deadline:
                break
            time.sleep(0.01)
        candidates = working or everyone
        if not candidates:
            raise Skipped("no worker is alive")
        chosen = candidates[int(draw * len(candidates))]
        fault.target, fault.met = chosen.name, chosen.jobs
        fault.pids = [chosen.pid]
        return chosen

    def meet_all(self, fault: Fault) -> None:
        """Keep in the fault which workers there are, and all that they run."""
        everyone = self.victims()
        fault.pids = [victim.pid for victim in everyone]
        fault.met = [job for victim in everyone for job in victim.jobs]


Happening = Callable[[Stage, Fault, float], Iterator[None]]
FAULTS: dict[str, Callable] = {}


def fault(kind: str):
    """Register what a kind of fault does."""

    def register(happening: Happening):
        FAULTS[kind] = contextmanager(happening)
        return happening

    return register


def inflict(stage: Stage, planned: Planned) -> Fault:
    """Let one fault happen and end; return what it met."""
    happened = Fault(planned.kind, time.time())
    try:
        with FAULTS[planned.kind](stage, happened, planned.draw):
            time.sleep(planned.seconds)
    except Skipped as reason:
        happened.skipped = str(reason)
    except (psycopg.Error, OSError) as error:
        happened.skipped = f"{type(error).__name__}: {error}".strip()
    happened.ended_at = time.time()
    return happened
