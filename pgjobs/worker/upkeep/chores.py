"""A worker's chores, and their list. A new chore is a class, and an entry here.

A chore of a feature is an entry in its feature's `chore` module.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from math import inf
from time import monotonic

from ...features import entries
from ...queue import recording, upkeep
from ...queue.statements import Execute
from ...queue.upkeep import Batch
from ..connections.connection import OwnConnection
from . import pruning
from .admission import Admitting
from .batches import BatchChore
from .chore import NOTHING, Chore, Effects, Upkeep, WorkerContext, when
from .promotion import Promotion
from .pruning import Prune
from .rescue import ReleaseOrphans, Rescue
from .survey import Survey, View

logger = logging.getLogger("pgjobs.worker")

CANCEL = "cancel"  # the payload on the worker's own channel when a job must stop
EXPIRE_SECONDS = 5.0
LOOK_SECONDS = 30.0  # between two looks for queues without workers


class CancelRequests(Chore):
    """Passes requests to stop on to the worker's running jobs.

    After a notification the worker asks the database which jobs are meant.
    """

    name = "cancel_requests"
    takes = ("id", "held_ids", "cancel")

    def __init__(
        self,
        worker_id: int,
        held_ids: Callable[[], list[int]],
        cancel: Callable[[int], None],
    ):
        super().__init__()
        self.worker_id = worker_id
        self.held_ids = held_ids  # returns the ids of the worker's jobs
        self.cancel = cancel  # called with the lease token of a job
        self.asked: deque[int] = deque()  # lease tokens

    def hear(self, payload: str) -> None:
        """Take a notification on the worker's own channel."""
        if payload == CANCEL:
            self.expect()

    def ask(self, lease_tokens: Iterable[int]) -> None:
        """Remember that these jobs are to stop; from any thread."""
        self.asked.extend(lease_tokens)

    def cancel_asked(self) -> None:
        while self.asked:
            self.cancel(self.asked.popleft())

    def run(self, connection: OwnConnection) -> Effects:
        execute, held = connection.execute, self.held_ids()
        self.ask(recording.cancel_requests(execute, self.worker_id, held))
        self.due = inf
        self.cancel_asked()
        return NOTHING


class Expiry(BatchChore):
    """Cancels jobs that were not started in time.

    Claims report the expired jobs that they meet. Others may be in queues without
    workers.
    """

    name = "expire"
    asks = when(
        "EXISTS (SELECT FROM pgjobs_job WHERE expires_at <= statement_timestamp()"
        " AND attempts = 0 AND finished_at IS NULL)"
    )
    woken_by = "expired"

    def __init__(self) -> None:
        super().__init__(EXPIRE_SECONDS)

    def do(self, execute: Execute, batch: Batch) -> tuple[Effects, int]:
        ids = upkeep.expire(execute, batch)
        if ids:
            logger.info("Cancelled jobs=%s that were not started in time", len(ids))
        # Jobs behind these may be claimed now.
        return Effects(ready=bool(ids), finished=ids), len(ids)

    def candidates(self, execute: Execute, batch: Batch) -> list[int]:
        return upkeep.candidates(execute, "expiry", batch)


class NewQueues(Chore):
    """Makes the rows of queues from which it claims, by which operators pause them."""

    name = "make_queues"

    def __init__(self) -> None:
        super().__init__()
        self.known: set[str] = set()
        self.new: set[str] = set()

    def meet(self, names: Iterable[str]) -> None:
        self.new |= set(names) - self.known
        if self.new:
            self.expect()

    def run(self, connection: OwnConnection) -> Effects:
        upkeep.make_queues(connection.execute, self.new)
        self.known |= self.new
        self.new = set()
        self.due = inf
        return NOTHING


class WaitingQueues(Chore):
    """Makes the rows of queues that have jobs but no worker, for operators, too."""

    name = "make_waiting_queues"
    for_all = True

    def __init__(self) -> None:
        super().__init__(LOOK_SECONDS)
        self.names = upkeep.Names()

    def run(self, connection: OwnConnection) -> Effects:
        names = upkeep.make_waiting_queues(connection.execute, self.names)
        has_more = any(names)
        self.names = names if has_more else upkeep.Names()
        self.done(monotonic(), again_at_once=has_more)
        return NOTHING


Entry = type[Chore] | Prune
CORE: tuple[Entry, ...] = (
    Expiry,
    Rescue,
    ReleaseOrphans,
    WaitingQueues,
    *pruning.CHORES,
)


def listed() -> Iterator[Entry]:
    """Yield the chores of the core and of the features, in their order."""
    yield from CORE
    yield from entries("chore", "CHORES")


@cache
def questions() -> dict[str, str]:
    """Return what the survey asks, by the names of the chores."""
    asked = {entry.name: entry.asks for entry in listed() if entry.asks}
    return {Admitting.name: Admitting.asks, **asked}


class Chores(Upkeep):
    """All chores. Those have a name here that the worker itself speaks of."""

    def __init__(self, worker: WorkerContext, view: View):
        chores = {entry.name: entry.made_for(worker) for entry in listed()}
        self.cancel_requests = CancelRequests.made_for(worker)
        self.new_queues = NewQueues()
        self.promotion = Promotion()
        self.expiry = chores["expire"]
        self.survey = Survey(
            worker.id,
            questions(),
            asking={Admitting.name: worker.admitting.sweeping, **chores},
            for_all=[chore for chore in chores.values() if chore.for_all or chore.asks],
            view=view,
        )
        super().__init__(
            self.cancel_requests,
            self.promotion,
            self.new_queues,
            self.survey,
            *chores.values(),
        )
