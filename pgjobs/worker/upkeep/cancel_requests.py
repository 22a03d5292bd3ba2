"""Passes requests to stop on to the worker's running jobs."""

from collections import deque
from collections.abc import Callable, Iterable
from math import inf

from ...queue import recording
from ..connections.connection import OwnConnection
from .chore import NOTHING, Chore, Effects

CANCEL = "cancel"  # the payload on the worker's own channel when a job must stop


class CancelRequests(Chore):
    """After a notification the worker asks the database which jobs are meant."""

    name = "cancel_requests"

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
        """Take a notification; ignore the echo of a heartbeat."""
        if payload == CANCEL:
            self.expect()

    def ask(self, lease_tokens: Iterable[int]) -> None:
        """Note that these jobs are to stop; from any thread."""
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
