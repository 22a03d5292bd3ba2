"""Claiming: when a look at the queue may pay, where to look, and for how many jobs.

One statement records the successes and claims. An admission, where jobs may wait for
one, goes along in the same round trip.
"""

import logging
from collections.abc import Callable, Sequence
from math import inf
from time import monotonic, time
from typing import Any

import psycopg
from psycopg.errors import LockNotAvailable

from ..base.database_errors import is_lost, is_of_row, passes_by_itself, text_of
from ..exceptions import DatabaseLost
from ..queue import admitting, claiming
from ..queue.admitting import BEGINNING
from ..queue.claiming import HostUnits, Span
from ..queue.recording import Success
from ..queue.unclaimable import first_in_line, unclaimable
from .claim_cursors import Marks
from .connections.faults import Backoff
from .connections.heartbeat import Heartbeat
from .lifetime import Lifetime
from .poll_schedule import Outlook
from .recorder import Recorder
from .session import Session
from .upkeep.admission import Admitting
from .upkeep.batches import fail_culprit
from .upkeep.chore import Effects, attempt, postpone
from .upkeep.chores import Chores
from .upkeep.promotion import Promotion

logger = logging.getLogger("pgjobs.worker")

FIRST_PAUSE = 0.1  # seconds, after the first claim that failed; it doubles
LONGEST_PAUSE = 5.0
DRAIN_PATIENCE = 600.0  # for so long a drain waits for claims that do not fail


class Claimer:
    def __init__(
        self,
        session: Session,
        recorder: Recorder,
        *,
        lifetime: Lifetime,
        heartbeat: Heartbeat,
        outlook: Outlook,
        marks: Marks,
        admitting: Admitting,
        upkeep: Chores,
        note: Callable[[Effects], None],
    ):
        self.connection = session.connection
        self.worker_id = session.id
        self.options = session.options
        self.recorder = recorder
        self.in_flight = recorder.in_flight
        self.executor = recorder.executor
        self.lifetime = lifetime
        self.heartbeat = heartbeat
        self.outlook = outlook
        self.marks = marks
        self.admitting = admitting
        self.upkeep = upkeep
        self.note = note  # takes what a step has changed
        self.promotion = Promotion()
        self.backoff = Backoff(FIRST_PAUSE, LONGEST_PAUSE)
        self.last_claim_at: float | None = None
        self.units = None
        if (units := session.options.units) is not None:
            self.units = HostUnits(session.row["host"], units)

    # When

    def heard_of_queue(self, queue_name: str) -> None:
        """Take what was notified of a queue that may have new jobs."""
        if self.options.serves(queue_name):
            self.marks.hear(queue_name)
            self.outlook.expect_jobs()

    def missed_notifications(self, _: str) -> None:
        self.outlook.expect_jobs()
        self.admitting.expect()
        if len(self.in_flight):
            self.upkeep.cancel_requests.expect()

    def take_note(self, effects: Effects) -> None:
        """Note what makes a look or a promotion pay."""
        if effects.ready or effects.old_ready:
            self.outlook.expect_jobs()
        if effects.old_ready:
            self.marks.doubt()
        if effects.scheduled:
            self.outlook.expect_due()

    @property
    def wants_to_look(self) -> bool:
        is_idle = not len(self.in_flight)
        return self.outlook.deserves_look(is_idle) and self.room() > 0

    @property
    def next_event(self) -> float:
        """Return when the next look is due (monotonic time)."""
        if self.backoff.since is not None:
            return self.backoff.retry_at
        return self.outlook.next_look if self.room() else inf

    def room(self, being_recorded: int = 0) -> int:
        """Return how many jobs may be claimed, once some outcomes are recorded."""
        held = len(self.in_flight) - being_recorded
        # Outcomes that cannot be stored take no slot, up to as many as there are.
        held -= min(len(self.in_flight.failing), self.options.slots)
        if self.lifetime.is_over or self.heartbeat.is_silent:
            return 0
        if self.backoff.is_waiting(monotonic()):
            return 0
        if held and self.in_flight.runs_suspect:
            return 0
        free = self.options.slots + self.options.prefetch - held
        if self.options.max_jobs is not None:
            free = min(free, self.options.max_jobs - self.lifetime.claimed)
        return max(free, 0)

    # What is recorded on the way

    @property
    def share(self) -> int:
        """How many of the jobs that the worker may hold are recorded at once."""
        slots = self.options.slots
        return max((slots + self.options.prefetch) // 2, slots)

    def share_of(self, successes: Sequence[Success]) -> Sequence[Success]:
        """Return those to record now.

        To record all that the worker may hold would leave the slots nothing to run
        until the claim has brought others.
        """
        if not self.room(len(successes)):
            return successes
        return successes[: self.share]

    # The claim

    def run(self, is_wanted: bool) -> None:
        """Record successes and claim; a claim that fails stops nothing else.

        `is_wanted`: even if there is nothing to record and no reason to look.
        """
        now = monotonic()
        successes = self.share_of(self.in_flight.successes)
        if self.backoff.is_waiting(now):
            if successes:
                self.recorder.record_successes(successes)
            if self.admitting.is_due(now):
                self.note(attempt(self.admitting, self.connection))
        elif is_wanted or successes or self.wants_to_look or self.admitting.is_due(now):
            try:
                self.record_and_claim(successes)
            except psycopg.Error as error:
                if is_lost(error):
                    raise
                self.failed(successes, error)
            else:
                self.passed()

    def record_and_claim(self, successes: Sequence[Success]) -> None:
        if self.outlook.is_poll_due:  # a worker may be unable to listen
            self.admitting.expect()
        promoted = self.outlook.is_promotion_due and self.promote()
        limit = self.room(len(successes))
        looks_back = limit > 0 and self.marks.must_look_back
        if looks_back:
            self.look_back()
        spans = self.where_to_look(limit)
        brought = self.take_turn(successes, limit, spans)
        if brought.claimed:
            self.in_flight.claim(brought.claimed)
            self.executor.submit(brought.claimed)
            self.lifetime.claimed += len(brought.claimed)
            self.last_claim_at = time()
        self.recorder.close(successes, dict.fromkeys(brought.recorded, "SUCCESSFUL"))
        if brought.met_expired:
            self.note(Effects(expired=True))
        if limit and spans is None and self.units is None:
            self.marks.looked_everywhere(brought.seconds, len(brought.claimed))
        self.marks.reached(brought.claimed)
        if limit:
            is_partial = spans is not None and not looks_back
            look_back_at = self.marks.look_back_at if is_partial else None
            if self.promotion.backoff.is_waiting(monotonic()):
                brought = brought._replace(next_due=None)  # the promotion asks itself
            self.outlook.plan(brought, limit, promoted, look_back_at)
        self.upkeep.new_queues.meet({job.queue_name for job in brought.claimed})

    def take_turn(
        self, successes: Sequence[Success], limit: int, spans: Sequence[Span] | None
    ) -> claiming.Turn:
        """Record successes and claim; in between admit, if jobs may wait for that."""
        how: dict[str, Any] = {
            "successes": successes,
            "limit": limit,
            "queues": self.options.queues,
            "excluded": self.options.excluded,
            "is_idle": len(self.in_flight) == len(successes),
            "units": self.units,
            "spans": spans,
            "skips_expired": self.cannot_expire,
        }
        now = monotonic()
        is_wanted = self.admitting.is_due(now) or self.in_flight.has_keys(successes)
        if not is_wanted or self.admitting.is_failing(now):
            brought = claiming.turn(self.connection.execute, self.worker_id, **how)
            if brought.holds_back:  # since the job was claimed
                self.admitting.expect()
            return brought
        position, sweeps = self.admitting.begin(now)
        try:
            brought, admission = admitting.admitting_turn(
                self.connection.together, self.worker_id, position, sweeps, **how
            )
        except psycopg.Error as error:
            if is_lost(error):
                raise
            # Raises it again if it was not the admission's:
            brought = claiming.turn(self.connection.execute, self.worker_id, **how)
            postpone(self.admitting, error)
            return brought
        self.note(self.admitting.passed(admission, sweeps, monotonic()))
        return brought

    @property
    def cannot_expire(self) -> bool:
        """Whether expired jobs cannot be cancelled, and so are in the way."""
        return self.upkeep.expiry.backoff.since is not None

    def where_to_look(self, limit: int) -> Sequence[Span] | None:
        """Return the parts of the queues to look at for jobs; None: all of them."""
        # A job that must run alone may stand anywhere.
        if not limit or self.outlook.waits_for_idle or self.cannot_expire:
            return None
        return self.marks.spans

    def look_back(self) -> None:
        """Look for jobs before the marks; the next look begins at them."""
        try:
            found = claiming.look_back(self.connection.execute, self.marks.turns)
        except psycopg.Error as error:
            if is_lost(error):
                raise
            logger.error("Looking back failed, without it: %s", text_of(error))
            return self.marks.forget()
        self.marks.looked_back(*found)

    def promote(self) -> bool:
        """Promote all jobs whose time has come; return whether that worked."""
        has_more = True
        while has_more:
            if self.promotion.backoff.is_waiting(monotonic()):
                return False
            self.note(attempt(self.promotion, self.connection))
            has_more = self.promotion.was_full
        self.marks.doubt()
        return self.promotion.backoff.since is None

    def look_for_forgotten(self) -> None:
        """Before a drain ends, see whether something waits for nothing."""
        self.admitting.position = BEGINNING
        while not self.admitting.is_failing(monotonic()):
            effects = attempt(self.admitting, self.connection)
            self.note(effects)
            if effects.old_ready or self.admitting.position == BEGINNING:
                break
        if self.upkeep.dependencies.is_due(monotonic()):
            self.note(attempt(self.upkeep.dependencies, self.connection))

    # A claim that fails

    def failed(self, successes: Sequence[Success], error: psycopg.Error) -> None:
        """Record without claiming; find the job that cannot be claimed, or wait."""
        if error.sqlstate is None:  # the driver cannot read what was claimed
            self.note(Effects(in_doubt=True))
        if successes and isinstance(error, LockNotAvailable):
            self.recorder.skip_locked()
        elif successes:
            self.recorder.record_successes(successes)
        elif not (is_of_row(error) and self.fail_unclaimable()):
            self.postpone(error)

    def postpone(self, error: psycopg.Error) -> None:
        is_first = self.backoff.since is None
        now = monotonic()
        pause = self.backoff.failed(now)
        level = logging.WARNING if passes_by_itself(error) else logging.ERROR
        logger.log(
            level if is_first else logging.DEBUG,  # once is enough
            "Claiming failed, trying again in %.1f s: %s",
            pause,
            text_of(error),
        )
        since = self.backoff.since
        if self.options.drain and since is not None and now - since > DRAIN_PATIENCE:
            raise DatabaseLost from error

    def fail_unclaimable(self) -> bool:
        """End the jobs FAILED that make a claim fail; return whether there are any."""
        limit = self.options.slots + self.options.prefetch
        queues, excluded = self.options.queues, self.options.excluded
        found = False
        try:
            ids = first_in_line(self.connection.execute, limit, queues, excluded)
            for id, error in unclaimable(self.connection, self.worker_id, ids):
                if fail_culprit(self.connection, id, "claim", error):
                    self.note(Effects(waiting=True, finished=[id]))
                    found = True
        except psycopg.Error as error:
            if is_lost(error):
                raise
            logger.error("Finding what cannot be claimed failed: %s", text_of(error))
        return found

    def passed(self) -> None:
        if self.backoff.since is not None:
            seconds = monotonic() - self.backoff.since
            logger.warning("Claiming works again after %.1f s", seconds)
            self.backoff.passed()
            self.upkeep.recovered()  # from what may have been the same fault
            self.admitting.recovered()
