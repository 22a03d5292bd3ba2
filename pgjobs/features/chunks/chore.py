"""Ends the waits of `chunk_wait` where nobody wants to wait for others."""

from collections.abc import Iterable, Sequence
from math import inf
from time import monotonic

from ...queue.statements import Execute
from ...sql import statement
from ...tasks.registry import registry
from ...worker.connections.connection import OwnConnection
from ...worker.observer import WorkerObserver
from ...worker.options import WorkerOptions
from ...worker.upkeep.chore import Chore, Effects
from ..desk.counting import counted_by

MOST_AT_ONCE = 1_000


class EndWaits(Chore):
    """Only in a worker that drains the queue: it takes the members at once."""

    name = "end_waits"
    takes = ("options", "observers")
    makes_jobs = True

    def __init__(self, options: WorkerOptions, observers: Sequence[WorkerObserver]):
        super().__init__()
        self.options = options
        self.counted = counted_by(observers)
        self.ended = -1  # attempts, when it last looked
        if options.drain:
            self.expect()

    def run(self, connection: OwnConnection) -> Effects:
        number = end_waits(
            connection.execute, self.options.queues, self.options.excluded
        )
        self.done(monotonic(), again_at_once=number == MOST_AT_ONCE)
        return Effects(old_ready=number > 0)

    def is_expecting(self, now: float) -> bool:
        """Look once more when all jobs have ended: they may have enqueued others."""
        if self.options.drain and self.ended != (ended := self.counted.number_ended):
            self.ended = ended
            self.due = 0.0
        return self.due < inf and self.backoff.since is None


def end_waits(
    execute: Execute, queues: Iterable[str] | None, excluded: Iterable[str] = ()
) -> int:
    """Make members READY whose wait for others is not over; return how many.

    `queues`, `excluded`: as a worker has them.
    """
    tasks = registry.derived(names_of_chunks)
    if not tasks:
        return 0
    rows = execute(
        statement("end_waits"),
        {
            "tasks": list(tasks),
            "queues": None if queues is None else list(queues),
            "excluded": list(excluded),
            "limit": MOST_AT_ONCE,
        },
    )
    return len(rows)


def names_of_chunks() -> frozenset[str]:
    """Return the names of the tasks with `chunk_wait`."""
    return frozenset(
        name
        for task in registry.tasks.values()
        if task.options.chunk_wait is not None
        for name in task.names
    )


CHORES = (EndWaits,)
