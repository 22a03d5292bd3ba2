"""What every worker does for all: rescue, prune, and look after its own claims."""

import logging
import random
from collections.abc import Iterable
from time import monotonic

from ...conf import settings
from ...queue import events as outbox
from ...queue import recording, upkeep
from ...queue.recording import Unsuccessful
from ...queue.statements import Execute
from ...queue.upkeep import Rescued
from ..job_log import described
from ..options import WorkerOptions

logger = logging.getLogger("pgjobs.worker")

PRUNE_SECONDS = 60.0
EXPIRE_SECONDS = 5.0
DELIVER_LATE_SECONDS = 5.0
WEIGH_SECONDS = 10.0
RESCUE_PER_HEARTBEAT = 0.4  # often enough to rescue within two heartbeats
DOUBT_SECONDS = 120.0  # for so long a claim whose answer was lost may still commit


class Chore:
    """Something to be done every now and then, not by all workers at the same time."""

    def __init__(self, interval: float):
        self.interval = interval
        self.due = monotonic() + random.uniform(0, interval)
        self.is_put_off = False

    def is_due(self) -> bool:
        return monotonic() >= self.due

    def done(self, again_at_once: bool = False) -> None:
        wait = 0 if again_at_once else self.interval * random.uniform(0.8, 1)
        self.due = monotonic() + wait
        self.is_put_off = False

    def note(self, there_is_something: bool) -> None:
        """Note whether there is anything to do; before long somebody looks again."""
        if not there_is_something:
            self.due = monotonic() + 2 * self.interval
        elif self.is_put_off:
            self.due = 0.0
        self.is_put_off = not there_is_something


class Maintenance:
    def __init__(self, worker_id: int):
        self.worker_id = worker_id
        self.rescuing = Chore(settings.HEARTBEAT_INTERVAL * RESCUE_PER_HEARTBEAT)
        self.expiring = Chore(EXPIRE_SECONDS)
        self.delivering = Chore(DELIVER_LATE_SECONDS)
        self.pruning = Chore(PRUNE_SECONDS)
        self.weighing = Chore(WEIGH_SECONDS)
        self.known_too_heavy: set[int] = set()  # ids of jobs
        self.in_doubt_until = 0.0

    @property
    def due(self) -> float:
        chores = (self.rescuing, self.expiring, self.delivering, self.pruning)
        return min(chore.due for chore in chores)

    def doubt(self) -> None:
        """Note that the connection broke, perhaps under a claim."""
        self.in_doubt_until = monotonic() + DOUBT_SECONDS

    def look(self, execute: Execute, for_jobs: bool) -> upkeep.Chores | None:
        """Ask, if it is time, what there is to do; do then only that.

        `for_jobs`: also whether there are READY jobs.
        """
        if not self.rescuing.is_due():
            return None
        chores = upkeep.chores(execute, self.worker_id, for_jobs)
        if not (chores.rescue or monotonic() < self.in_doubt_until):
            self.rescuing.done()
        self.expiring.note(chores.expire)
        self.delivering.note(chores.deliver_late)
        return chores

    def run(
        self, execute: Execute, held: Iterable[int]
    ) -> tuple[list[Rescued], list[Unsuccessful]]:
        """Do what is due; return what was rescued, and own jobs to be released.

        `held`: the lease tokens that the worker knows of.
        """
        rescued: list[Rescued] = []
        orphans: list[Unsuccessful] = []
        if self.rescuing.is_due():
            rescued = upkeep.rescue(execute, self.worker_id)
            self.rescuing.done(again_at_once=len(rescued) == upkeep.BATCH)
            for job in rescued:
                logger.log(
                    logging.ERROR if job.status == "FAILED" else logging.WARNING,
                    "Job id=%s task=%s lost its worker (crash %s), now %s",
                    job.id,
                    job.task,
                    job.crashes,
                    job.status,
                    extra=described(job),
                )
            if monotonic() < self.in_doubt_until:
                orphans = recording.orphans(execute, self.worker_id, held)
        if self.pruning.is_due():
            pruned = upkeep.prune(execute, settings.RETENTION)
            events = outbox.prune(execute, settings.EVENT_RETENTION)
            upkeep.forget_rates(execute)
            full = max(pruned, events) >= upkeep.BATCH
            self.pruning.done(again_at_once=full)
            if pruned or events:
                logger.info("Pruned jobs=%s events=%s", pruned, events)
        return rescued, orphans

    def warn_of_too_heavy(self, execute: Execute, options: WorkerOptions) -> None:
        """Say, once, which jobs the worker will never have the process units for."""
        if options.units is None or not self.weighing.is_due():
            return
        jobs = upkeep.too_heavy(
            execute, options.units, options.queues, options.excluded
        )
        self.weighing.done()
        for job in jobs:
            if job.id not in self.known_too_heavy:
                logger.warning(
                    "Job id=%s task=%s takes units=%s and never runs here, where there "
                    "are units=%s",
                    job.id,
                    job.task,
                    job.units,
                    options.units,
                    extra=described(job),
                )
        self.known_too_heavy = {job.id for job in jobs}

    def expire(self, execute: Execute) -> list[int]:
        """Cancel, if it is time, jobs that were not started in time; return their ids.

        Claims do so with those that they meet; these may be in queues without workers.
        """
        if not self.expiring.is_due():
            return []
        expired = upkeep.expire(execute)
        self.expiring.done(again_at_once=len(expired) == upkeep.BATCH)
        return expired

    def deliver_late(self, execute: Execute) -> int:
        """Deliver, if it is time, events that have found a subscriber since."""
        if not self.delivering.is_due():
            return 0
        delivered = outbox.deliver_late(execute, settings.UNHANDLED_EVENT_GRACE)
        self.delivering.done(again_at_once=delivered == outbox.BATCH)
        if delivered:
            logger.info("Delivered events=%s late", delivered)
        return delivered
