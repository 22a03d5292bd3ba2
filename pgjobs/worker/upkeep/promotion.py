"""Makes scheduled jobs READY when their time has come; the claim asks for it."""

from math import inf

from ...queue import upkeep
from ...queue.statements import Execute
from ...queue.upkeep import Batch
from .batches import BatchChore
from .chore import Effects


class Promotion(BatchChore):
    name = "promote"

    def __init__(self) -> None:
        super().__init__(interval=inf)

    def do(self, execute: Execute, batch: Batch) -> tuple[Effects, int]:
        number, must_admit = upkeep.promote(execute, batch)
        return Effects(old_ready=number > 0, waiting=must_admit), number

    def suspects(self, execute: Execute, batch: Batch) -> list[int]:
        return upkeep.suspects(execute, "promotion", batch)
