"""Warns of sessions that hold for long what workers need for moments."""

import logging
from time import monotonic

from ...worker.connections.connection import OwnConnection
from ...worker.slots.atomic import warn_of_long_transactions
from ...worker.upkeep.admission import Admitting
from ...worker.upkeep.chore import NOTHING, Chore, Effects
from .held_locks import HeldLock, held_locks

logger = logging.getLogger("pgjobs.worker")

LOOK_SECONDS = 20.0
TRANSACTION_SECONDS = 5.0  # between two looks at atomic jobs
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
        warn_of_long_transactions()
        self.done(monotonic())
        return NOTHING


CHORES = (LongTransactionWarning, HeldLockWarning)
