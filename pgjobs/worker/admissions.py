"""The admissions that a worker sends with what it records: beside a claim, or alone."""

from collections.abc import Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.errors import LockNotAvailable

from ..base.database_errors import is_lost
from ..queue import admitting, claiming
from ..queue.claiming import Claimed, Success
from .upkeep.chore import Effects, attempt, postpone

if TYPE_CHECKING:
    from .claimer import Claimer, Room


class Admissions:
    def __init__(self, claimer: "Claimer"):
        self.claimer = claimer
        self.connection = claimer.connection
        self.worker_id = claimer.worker_id
        self.in_flight = claimer.in_flight
        self.admitting = claimer.admitting
        self.apply = claimer.apply

    def with_claim(self, successes: Sequence[Success], **how: Any) -> Claimed:
        """Record successes, admit and claim, in one round trip."""
        position, sweeps = self.admitting.begin(monotonic())
        how["successes"] = successes
        try:
            claimed, admission = admitting.admit_and_claim(
                self.connection.together, self.worker_id, position, sweeps, **how
            )
        except psycopg.Error as error:
            if is_lost(error):
                raise
            # Raises the error again unless the admission was its cause:
            claimed = claiming.record_and_claim(self.connection, self.worker_id, **how)
            self.failed(error)
            return claimed
        self.apply(self.admitting.passed(admission, sweeps, monotonic()))
        return claimed

    def alone(self, room: "Room") -> None:
        """Record successes, admit, and claim what was admitted, in one statement."""
        claimer = self.claimer
        position, sweeps = self.admitting.begin(monotonic())
        try:
            admission = admitting.record_and_admit(
                self.connection.execute,
                self.worker_id,
                position,
                sweeps,
                successes=room.successes,
                claims=room.slots > 0,
                limit=room.slots,
                queues=claimer.options.queues,
                excluded=claimer.options.excluded,
            )
        except psycopg.Error as error:
            if is_lost(error):
                raise
            self.failed(error)
            if error.sqlstate is None:  # the driver cannot read what was claimed
                self.apply(Effects(in_doubt=True))
            claimer.recorder.record_successes(room.successes)
            return
        claimer.begin(admission.claimed)
        statuses = dict.fromkeys(admission.recorded, "SUCCESSFUL")
        claimer.recorder.close(room.successes, statuses)
        # The next pass fetches other jobs if this line has filled all slots, or if
        # nothing runs any more: the last jobs may have enqueued others.
        if 0 < room.slots == len(admission.claimed) or not self.in_flight.jobs:
            claimer.rule.wake()
        self.apply(self.admitting.passed(admission, sweeps, monotonic()))

    def failed(self, error: psycopg.Error) -> None:
        if isinstance(error, LockNotAvailable):  # a row was held for too long
            self.admitting.deferred(monotonic())
        else:
            postpone(self.admitting, error)

    def sweep_before_end(self) -> None:
        """Before a drain ends, find the jobs that wait for nothing any more."""
        claimer = self.claimer
        if not (claimer.rule.is_empty and self.in_flight.is_empty):
            return
        self.admitting.begin_again()
        while not self.admitting.backoff.is_waiting(monotonic()):
            effects = attempt(self.admitting, self.connection)
            self.apply(effects)
            if effects.old_ready or self.admitting.is_at_beginning:
                break
        is_over = claimer.capacity.lifetime.is_over
        for chore in claimer.upkeep.due(monotonic(), is_over):
            self.apply(attempt(chore, self.connection))
