"""Warns of sessions that hold for long what workers need for moments."""

import logging
from time import monotonic

from ...base.texts import in_a_log
from ...worker.connections.connection import OwnConnection
from ...worker.job_log import described
from ...worker.slots.atomic import open_since
from ...worker.upkeep.admission import Admitting
from ...worker.upkeep.chore import NOTHING, Chore, Effects
from .held_locks import HeldLock, held_locks

logger = logging.getLogger("pgjobs.worker")
job_logger = logging.getLogger("pgjobs.job")

LOOK_SECONDS = 20.0
TRANSACTION_SECONDS = 5.0  # between two looks at atomic jobs
LONG_SECONDS = 60.0  # a transaction that is open for longer gets a warning
PATIENCE = 10.0  # seconds, while no admission of this worker gets its lock


class HeldLockWarning(Chore):
    """Names, once, each session that holds such a lock at two looks in a row."""

    name = "held_locks"
    takes = ("admitting",)
    for_all = True

    def __init__(self, admitting: Admitting):
        super().__init__(LOOK_SECONDS)
        self.admitting = admitting
        self.seen: set[tuple[int, str]] = set()
        self.named: set[tuple[int, str]] = set()

    def rest(self) -> None:
        super().rest()
        self.seen = set()  # its next look may be hours later

    def run(self, connection: OwnConnection) -> Effects:
        now = monotonic()
        held = {each.key: each for each in held_locks(connection.execute)}
        is_kept_out = self.admitting.is_kept_out(PATIENCE, now)
        for key, lock in held.items():
            is_known = key in self.seen or (is_kept_out and lock.kind == "admission")
            if is_known and key not in self.named:
                self.named.add(key)
                warn_of(lock)
        self.named &= held.keys()
        self.seen = set(held)
        self.done(now)
        return NOTHING


def warn_of(lock: HeldLock) -> None:
    logger.warning(
        "A session pid=%s role=%s application=%s holds the advisory lock of %s, which "
        "stand still: end it with pg_terminate_backend(%s) if it is not yours",
        lock.pid,
        lock.role,
        lock.application,
        lock.kind,
        lock.pid,
    )


class LongTransactionWarning(Chore):
    """Warns of atomic jobs that have been in their transaction for long."""

    name = "long_transactions"

    def __init__(self) -> None:
        super().__init__(TRANSACTION_SECONDS)

    def run(self, connection: OwnConnection) -> Effects:
        warn_of_long_transactions(now := monotonic())
        self.done(now)
        return NOTHING


def warn_of_long_transactions(now: float) -> None:
    """Log, once for each, the atomic jobs that have run for long."""
    for token, (job, since) in list(open_since.items()):
        seconds = now - since
        if seconds < LONG_SECONDS:
            continue
        open_since.pop(token, None)
        job_logger.warning(
            "Job id=%s task=%s has been in its transaction for %.0f s: VACUUM can "
            "remove nothing that died since. Split it, or use steps",
            job.id,
            in_a_log(job.task),
            seconds,
            extra=described(job),
        )


CHORES = (LongTransactionWarning, HeldLockWarning)
