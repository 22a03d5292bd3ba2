"""Warns, once, of jobs that take more process units than the worker's host has."""

import logging
from math import inf
from time import monotonic

from ...base.texts import in_a_log
from ...queue import upkeep
from ...queue.upkeep import HeavyJob
from ..connections.connection import OwnConnection
from ..job_log import described
from ..options import WorkerOptions
from .chore import NOTHING, Chore, Effects

logger = logging.getLogger("pgjobs.worker")

LOOK_SECONDS = 10.0


class HeavyJobWarning(Chore):
    name = "too_heavy"

    def __init__(self, options: WorkerOptions):
        super().__init__(inf if options.units is None else LOOK_SECONDS)
        self.options = options
        self.units = options.units or 0
        self.known: set[int] = set()  # the ids of jobs that were named in a warning

    def run(self, connection: OwnConnection) -> Effects:
        jobs = upkeep.too_heavy(
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
