"""Claiming: when a look at the queue may pay, where to look, and for how many jobs.

One statement records the successes and claims. Where jobs may wait for an admission, it
runs in the same round trip.
"""

import logging
from collections.abc import Callable, Sequence
from math import inf
from time import monotonic, sleep, time
from typing import Any

import psycopg
from psycopg.errors import LockNotAvailable

from ..base.database_errors import is_lost, is_of_row, passes_by_itself, text_of
from ..exceptions import DatabaseLost
from ..queue import admitting, claiming
from ..queue.admitting import BEGINNING
from ..queue.claiming import Ahead, Claimed, ClaimedJob, HostUnits
from ..queue.looks import Look
from ..queue.recording import Success
from . import unclaimable
from .claim_cursors import ClaimCursors
from .connections.faults import Backoff
from .connections.heartbeat import Heartbeat
from .lifetime import Lifetime
from .poll_schedule import PollSchedule
from .prefetching import Prefetching
from .recorder import Recorder
from .session import Session
from .upkeep.admission import Admitting
from .upkeep.chore import Effects, attempt, postpone
from .upkeep.chores import Chores
from .upkeep.promotion import Promotion

logger = logging.getLogger("pgjobs.worker")

FIRST_PAUSE = 0.1  # seconds after the first claim that failed; each next pause doubles
LONGEST_PAUSE = 5.0
MOST_KEPT = 100  # outcomes that a worker keeps beside its slots
DRAIN_PATIENCE = 600.0  # seconds; a drain whose claims fail for longer gives up


class Claimer:
    def __init__(
        self,
        session: Session,
        recorder: Recorder,
        *,
        lifetime: Lifetime,
        heartbeat: Heartbeat,
        poll_schedule: PollSchedule,
        cursors: ClaimCursors,
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
        self.poll_schedule = poll_schedule
        self.cursors = cursors
        self.admitting = admitting
        self.upkeep = upkeep
        self.note = note  # called with what a step has changed
        self.prefetching = Prefetching(session.options, self.executor, self.in_flight)
        self.promotion = Promotion()
        self.backoff = Backoff(FIRST_PAUSE, LONGEST_PAUSE)
        self.last_claim_at: float | None = None
        # Looks that a notification, or the poll, has asked an idle worker for.
        self.notify_wakeups = self.poll_wakeups = 0
        units = session.options.units
        self.units = None if units is None else HostUnits(session.row["host"], units)

    # When

    def take_note(self, effects: Effects) -> None:
        """Note effects after which a look, a promotion or an admission finds jobs."""
        if effects.ready or effects.old_ready:
            self.poll_schedule.wake()
        if effects.old_ready:
            self.cursors.invalidate()
        if effects.scheduled:
            self.poll_schedule.wake_for_promotion()
        if effects.waiting:
            self.admitting.expect()

    @property
    def wants_to_look(self) -> bool:
        is_idle = not len(self.in_flight)
        is_due = self.poll_schedule.deserves_look(is_idle, monotonic())
        return is_due and self.room() > 0

    @property
    def next_event(self) -> float:
        """Return when the next look is due (monotonic time)."""
        if self.backoff.since is not None:
            return self.backoff.retry_at
        return self.poll_schedule.next_look if self.room() else inf

    def room(self, being_recorded: int = 0) -> int:
        """Return how many jobs may be claimed, once some outcomes are recorded."""
        held = len(self.in_flight) - being_recorded
        # Outcomes that cannot be stored take no slot.
        held -= min(len(self.in_flight.kept), MOST_KEPT)
        if not self.may_claim(held):
            return 0
        free = self.options.slots + self.options.fixed_prefetch - held
        return int(max(min(free, self.lifetime.left_to_claim), 0))

    def may_claim(self, held: int) -> bool:
        """Whether a worker that holds `held` jobs may claim more."""
        must_not = self.lifetime.is_over or self.heartbeat.is_silent
        if must_not or self.backoff.is_waiting(monotonic()):
            return False
        return not (held and self.in_flight.runs_suspect)

    def ahead(self, limit: int, being_recorded: int) -> Ahead | None:
        """Return what may be claimed beyond `limit`, the number of free slots."""
        held = len(self.in_flight) - being_recorded
        may_look = self.poll_schedule.may_hold_more and not self.cursors.needs_slot
        if not (limit or may_look) or not self.may_claim(held):
            return None
        return self.prefetching.ahead(held, self.lifetime.left_to_claim - limit)

    # What is recorded on the way

    def share_of(self, successes: Sequence[Success]) -> Sequence[Success]:
        """Return those to record now.

        To record all that the worker may hold would leave the slots nothing to run
        until the claim has brought others.
        """
        if not self.room(len(successes)):
            return successes
        return successes[: self.prefetching.share]

    # The claim

    def run(self, is_wanted: bool) -> None:
        """Record successes and claim; a claim that fails stops nothing else.

        `is_wanted`: run the statement even if nothing asks for it.
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
        now = monotonic()
        if self.poll_schedule.is_poll_due(now):
            self.poll_wakeups += 1
            # A worker that cannot listen hears of no job that waits.
            self.admitting.expect()
        promoted = self.poll_schedule.is_promotion_due(now) and self.promote()
        limit = self.room(len(successes))
        if self.needs_no_look(successes, limit):
            self.record_and_admit(successes, limit)
            return
        ahead = self.ahead(limit, len(successes))
        look = self.where_to_look(limit, ahead.most if ahead else 0)
        claimed = self.claim(successes, limit, look, ahead)
        self.begin(claimed.jobs)
        self.recorder.close(successes, dict.fromkeys(claimed.recorded, "SUCCESSFUL"))
        if claimed.met_expired:
            self.note(Effects(expired=True))
        self.plan(look, claimed, limit, promoted)

    def begin(self, jobs: Sequence[ClaimedJob]) -> None:
        """Hand jobs that were claimed to the slots."""
        if jobs:
            was_idle = self.in_flight.is_empty
            self.in_flight.claim(jobs)
            self.executor.submit(jobs)
            if was_idle:
                # Let the slot's thread go first. Beside other jobs this costs switches.
                sleep(0)
            self.recorder.observer.claimed(jobs)
            self.recorder.figures.claimed(jobs)
            self.lifetime.claimed += len(jobs)
            self.last_claim_at = time()
            self.upkeep.new_queues.meet({job.queue_name for job in jobs})

    def where_to_look(self, limit: int, ahead: int) -> Look:
        may_end = self.lifetime.ends_when_idle and self.in_flight.is_stuck
        must_see_all = self.cannot_expire or self.poll_schedule.must_see_all(may_end)
        return self.cursors.next_look(limit, monotonic(), must_see_all, ahead)

    def plan(self, look: Look, claimed: Claimed, limit: int, promoted: bool) -> None:
        """Decide where and when to look next, after a look for `limit` jobs."""
        now = monotonic()
        self.cursors.looked(look, claimed, limit, now)
        if self.promotion.backoff.is_waiting(now):
            # The promotion itself asks when to go on.
            claimed, promoted = claimed._replace(next_due=None), True
        complete_at = self.cursors.complete_look_at(look)
        self.poll_schedule.plan(claimed, limit, promoted, now, complete_at)

    def claim(
        self,
        successes: Sequence[Success],
        limit: int,
        look: Look,
        ahead: Ahead | None = None,
    ) -> Claimed:
        """Record successes and claim; if jobs may wait, admit in between."""
        how: dict[str, Any] = {
            "successes": successes,
            "limit": limit,
            "look": look,
            "queues": self.options.queues,
            "excluded": self.options.excluded,
            "is_idle": len(self.in_flight) == len(successes),
            "units": self.units,
            "worker_name": self.options.name,
            "skips_expired": self.cannot_expire,
            "ahead": ahead,
        }
        if not self.wants_admission(successes):
            claimed = claiming.record_and_claim(self.connection, self.worker_id, **how)
            if claimed.has_keys:  # other jobs began to wait while these ran
                self.admitting.expect()
            return claimed
        position, sweeps = self.admitting.begin(monotonic())
        try:
            claimed, admission = admitting.admit_and_claim(
                self.connection.together, self.worker_id, position, sweeps, **how
            )
        except psycopg.Error as error:
            if is_lost(error):
                raise
            # Raises the error again unless the admission was its cause:
            claimed = claiming.record_and_claim(self.connection, self.worker_id, **how)
            self.failed_to_admit(error)
            return claimed
        self.note(self.admitting.passed(admission, sweeps, monotonic()))
        return claimed

    # An admission instead of a look

    def needs_no_look(self, successes: Sequence[Success], limit: int) -> bool:
        """Whether an admission is due, and nothing else is to be claimed.

        So a line whose jobs follow one another costs one statement for each, as long
        as the worker knows of no READY job. Units are counted only by a look.
        """
        has_failed = self.backoff.since or self.admitting.backoff.since
        if has_failed is not None or not self.wants_admission(successes):
            return False
        if not limit:
            return True
        schedule = self.poll_schedule
        is_idle = len(self.in_flight) == len(successes)
        return not (
            self.units
            or schedule.waits_for_idle
            or schedule.deserves_look(is_idle, monotonic())
        )

    def wants_admission(self, successes: Sequence[Success]) -> bool:
        now = monotonic()
        is_wanted = self.admitting.is_due(now) or self.in_flight.has_keys(successes)
        return is_wanted and not self.admitting.is_failing(now)

    def record_and_admit(self, successes: Sequence[Success], limit: int) -> None:
        """Record successes, admit, and claim what was admitted, in one statement."""
        position, sweeps = self.admitting.begin(monotonic())
        try:
            admission = admitting.record_and_admit(
                self.connection.execute,
                self.worker_id,
                position,
                sweeps,
                successes=successes,
                claims=limit > 0,
                limit=limit,
                queues=self.options.queues,
                excluded=self.options.excluded,
            )
        except psycopg.Error as error:
            if is_lost(error):
                raise
            self.failed_to_admit(error)
            if error.sqlstate is None:  # the driver cannot read what was claimed
                self.note(Effects(in_doubt=True))
            self.recorder.record_successes(successes)
            return
        self.begin(admission.claimed)
        self.recorder.close(successes, dict.fromkeys(admission.recorded, "SUCCESSFUL"))
        # The next pass looks for other jobs if this line has filled all slots, or if
        # nothing runs any more: the last jobs may have enqueued others.
        if 0 < limit == len(admission.claimed) or not len(self.in_flight):
            self.poll_schedule.wake()
        self.note(self.admitting.passed(admission, sweeps, monotonic()))

    def failed_to_admit(self, error: psycopg.Error) -> None:
        if isinstance(error, LockNotAvailable):  # a row was held for too long
            self.admitting.deferred(monotonic())
        else:
            postpone(self.admitting, error)

    @property
    def cannot_expire(self) -> bool:
        """Whether expired jobs are in the way because cancelling them fails."""
        return self.upkeep.expiry.backoff.since is not None

    def promote(self) -> bool:
        """Promote all jobs whose time has come; return whether that worked."""
        has_more = True
        while has_more:
            if self.promotion.backoff.is_waiting(monotonic()):
                return False
            self.note(attempt(self.promotion, self.connection))
            has_more = self.promotion.was_full
        self.cursors.invalidate()  # another worker may have promoted them
        return self.promotion.backoff.since is None

    def look_for_forgotten(self) -> None:
        """Before a drain ends, look for jobs that wait for nothing any more."""
        is_at_end = self.poll_schedule.is_empty and self.in_flight.is_empty
        if not (self.options.drain and is_at_end):
            return
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
        self.cursors.failed()
        was_ahead = self.prefetching.failed(error)
        if error.sqlstate is None:  # the driver cannot read what was claimed
            self.note(Effects(in_doubt=True))
        if successes:
            if not self.recorder.found_locked(successes, error):
                self.recorder.record_successes(successes)
        elif not was_ahead and not (is_of_row(error) and self.fail_unclaimable()):
            if not self.cursors.can_do_without(error, monotonic()):
                self.postpone(error)
            self.give_up_draining(error)

    def postpone(self, error: psycopg.Error) -> None:
        is_first = self.backoff.since is None
        pause = self.backoff.failed(monotonic())
        level = logging.WARNING if passes_by_itself(error) else logging.ERROR
        logger.log(
            level if is_first else logging.DEBUG,  # once is enough
            "Claiming failed, trying again in %.1f s: %s",
            pause,
            text_of(error),
        )

    def give_up_draining(self, error: psycopg.Error) -> None:
        """Raise DatabaseLost if the claims of a drain have failed for too long."""
        now = monotonic()
        lasts = max(self.backoff.lasts(now), self.cursors.backoff.lasts(now))
        if self.options.drain and lasts > DRAIN_PATIENCE:
            raise DatabaseLost from error

    def fail_unclaimable(self) -> bool:
        """Fail the jobs that make a claim raise; return whether there were any."""
        limit = self.options.slots + self.options.most_prefetched
        failed = unclaimable.fail(self.connection, self.worker_id, self.options, limit)
        for id in failed:
            self.note(Effects(waiting=True, finished=[id]))
        return bool(failed)

    def passed(self) -> None:
        self.prefetching.passed()
        if (since := self.backoff.since) is not None:
            logger.warning("Claiming works again after %.1f s", monotonic() - since)
            self.backoff.passed()
            self.upkeep.recovered()  # what failed there may have been the same fault
            self.admitting.recovered()
