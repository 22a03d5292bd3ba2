"""Cancels jobs that were not started in time.

Claims report the expired jobs that they meet. Others may be in queues without workers.
"""

import logging

from ...queue import upkeep
from ...queue.statements import Execute
from ...queue.upkeep import Batch
from .batches import BatchChore
from .chore import Effects

logger = logging.getLogger("pgjobs.worker")

EXPIRE_SECONDS = 5.0


class Expiry(BatchChore):
    name = "expire"

    def __init__(self) -> None:
        super().__init__(EXPIRE_SECONDS)

    def do(self, execute: Execute, batch: Batch) -> tuple[Effects, int]:
        ids = upkeep.expire(execute, batch)
        if ids:
            logger.info("Cancelled jobs=%s that were not started in time", len(ids))
        return Effects(finished=ids), len(ids)

    def suspects(self, execute: Execute, batch: Batch) -> list[int]:
        return upkeep.suspects(execute, "expiry", batch)
