"""Warns, once, of jobs that take more process units than the worker's host has."""

import logging
from collections.abc import Iterable
from math import inf
from time import monotonic
from typing import NamedTuple

from ...base.texts import in_a_log
from ...queue.statements import Execute
from ...sql import statement
from ...worker.connections.connection import OwnConnection
from ...worker.job_log import described
from ...worker.options import WorkerOptions
from ...worker.upkeep.chore import NOTHING, Chore, Effects

logger = logging.getLogger("pgjobs.worker")

LOOK_SECONDS = 10.0
MOST_TOO_HEAVY = 100  # jobs that one warning names


class HeavyJob(NamedTuple):
    """A job that takes more process units than the worker's host has in total."""

    id: int
    task: str
    queue_name: str
    units: int


class HeavyJobWarning(Chore):
    name = "too_heavy"
    takes = ("options",)

    def __init__(self, options: WorkerOptions):
        super().__init__(inf if options.units is None else LOOK_SECONDS)
        self.options = options
        self.units = options.units or 0
        self.known: set[int] = set()  # the ids of jobs that were named in a warning

    def run(self, connection: OwnConnection) -> Effects:
        jobs = too_heavy(
            connection.execute, self.units, self.options.queues, self.options.excluded
        )
        self.done(monotonic())
        for job in jobs:
            if job.id not in self.known:
                self.warn_of(job)
        self.known = {job.id for job in jobs}
        return NOTHING

    def warn_of(self, job: HeavyJob) -> None:
        logger.warning(
            "Job id=%s task=%s takes units=%s and never runs here, where there "
            "are units=%s",
            job.id,
            in_a_log(job.task),
            job.units,
            self.units,
            extra=described(job),
        )


def too_heavy(
    execute: Execute, total: int, queues: Iterable[str] | None, excluded: Iterable[str]
) -> list[HeavyJob]:
    """Return some READY jobs of these queues that take more units than this total."""
    rows = execute(
        statement("too_heavy"),
        {
            "total": total,
            "queues": None if queues is None else list(queues),
            "excluded": list(excluded),
            "limit": MOST_TOO_HEAVY,
        },
    )
    return [HeavyJob._make(row) for row in rows]


CHORES = (HeavyJobWarning,)
