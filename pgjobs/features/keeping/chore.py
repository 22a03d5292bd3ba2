"""Deletes successes that something needed when they ended, once nothing does."""

import logging
from functools import partial

from ...queue import upkeep
from ...queue.references import NONE
from ...queue.slices import Position, Slice, read_slice
from ...queue.statements import Execute
from ...queue.upkeep import Batch
from ...sql import statement
from ...worker.upkeep.batches import BatchChore
from ...worker.upkeep.chore import NOTHING, Effects
from ...worker.upkeep.pruning import PRUNE_SECONDS, PRUNED_AT_ONCE, Walk

logger = logging.getLogger("pgjobs.worker")


class PruneSuccesses(BatchChore):
    name = "prune_successes"
    for_all = True
    fails_culprits = False

    def __init__(self) -> None:
        super().__init__(PRUNE_SECONDS)
        self.walk = Walk()

    def do(self, execute: Execute, batch: Batch) -> tuple[Effects, int]:
        limited = batch._replace(limit=min(batch.size, PRUNED_AT_ONCE))
        prune = partial(prune_successes, execute, batch=limited)
        number, goes_on = self.walk.run(prune)
        if number:
            logger.info("Pruned successes=%s", number)
        return NOTHING, batch.size if goes_on else 0

    def candidates(self, execute: Execute, batch: Batch) -> list[int]:
        ids_in_order: dict[int, None] = {}
        for position in self.walk.positions:
            parameters = position._asdict()
            ids = upkeep.candidates(execute, "pruning_successes", batch, **parameters)
            ids_in_order |= dict.fromkeys(ids)
        return list(ids_in_order)


def prune_successes(execute: Execute, position: Position, batch: Batch) -> Slice:
    """Look at a batch of stored successes; delete those that nothing needs any more."""
    parameters = {**position._asdict(), **batch.parameters()}
    return read_slice(execute(sparing_referred(execute), parameters), position)


def sparing_referred(execute: Execute) -> str:
    """Return the statement that spares rows to which any foreign key refers.

    Other pruning deletes those whose constraint deletes or changes what refers to them.
    """
    referring = execute(statement("all_references"), {"table": "pgjobs_job"})
    conditions = [
        f"EXISTS (SELECT FROM {table} AS referring WHERE referring.{column} = job.id)"
        for table, column in referring
    ]
    text = statement("prune_successes")
    if not conditions:
        return text
    return text.replace(NONE, f"({' OR '.join(conditions)})".replace("%", "%%"))


CHORES = (PruneSuccesses,)
