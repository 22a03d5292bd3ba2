"""Tells the worker's running jobs that they are asked to stop."""

from collections import deque
from collections.abc import Callable, Iterable
from math import inf

from ...queue import recording
from ..connections.connection import OwnConnection
from .chore import NOTHING, Chore, Effects

CANCEL = "cancel"  # what the worker's own channel says when a job is to stop


class CancelRequests(Chore):
    """A notification is a hint, after which the worker asks which jobs are meant."""

    name = "cancel_requests"

    def __init__(self, worker_id: int, cancel: Callable[[int], None]):
        super().__init__()
        self.worker_id = worker_id
        self.cancel = cancel  # takes the lease token of a job
        self.asked: deque[int] = deque()  # lease tokens

    def hear(self, payload: str) -> None:
        """Take a notification; the echo of a heartbeat says nothing."""
        if payload == CANCEL:
            self.expect()

    def ask(self, lease_tokens: Iterable[int]) -> None:
        """Note that these jobs are to stop; from any thread."""
        self.asked.extend(lease_tokens)

    def pass_on(self) -> None:
        while self.asked:
            self.cancel(self.asked.popleft())

    def run(self, connection: OwnConnection) -> Effects:
        self.ask(recording.cancel_requests(connection.execute, self.worker_id))
        self.due = inf
        self.pass_on()
        return NOTHING
