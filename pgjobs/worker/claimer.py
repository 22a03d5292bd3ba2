"""Claiming: one statement records the successes and claims jobs for the free slots.

Where jobs may wait for an admission, it runs in the same round trip.
"""

import logging
from collections.abc import Callable, Sequence
from math import inf
from time import monotonic, sleep
from typing import Any

import psycopg

from ..base.database_errors import is_lost, is_of_row, passes_by_itself, text_of
from ..features import modules
from ..queue import claiming
from ..queue.claiming import Claimed, ClaimedJob, Fetch, HostUnits
from ..queue.recording import deleting
from . import row_by_row
from .admissions import Admissions
from .connections.backoff import Backoff
from .fetch_rule import FIRST_PAUSE, MOMENT, FetchRule
from .recorder import Recorder
from .room import Capacity, Room
from .session import Session
from .upkeep.admission import Admitting
from .upkeep.chore import Effects, attempt
from .upkeep.chores import Chores

logger = logging.getLogger("pgjobs.worker")


class Claimer:
    def __init__(
        self,
        session: Session,
        recorder: Recorder,
        *,
        rule: FetchRule,
        capacity: Capacity,
        admitting: Admitting,
        upkeep: Chores,
        apply: Callable[[Effects], None],
    ):
        self.connection = session.connection
        self.worker_id = session.id
        self.options = session.options
        self.recorder = recorder
        self.in_flight = recorder.in_flight
        self.rule = rule
        self.capacity = capacity
        self.admitting = admitting
        self.upkeep = upkeep
        self.apply = apply  # called with what a step has changed
        self.backoff = Backoff(FIRST_PAUSE, MOMENT)
        units = session.options.units
        self.units = None if units is None else HostUnits(session.row["host"], units)
        self.admissions = Admissions(self)

    # When

    def react_to(self, effects: Effects) -> None:
        """React to effects after which a fetch or an admission finds jobs."""
        if effects.old_ready:
            self.rule.rescan_soon(monotonic())
        elif effects.ready:
            self.rule.wake()
        if effects.waiting:
            self.admitting.expect()

    @property
    def next_event(self) -> float:
        """Return when the next fetch is due (monotonic time)."""
        if not self.capacity.has_room:
            return inf
        due = self.rule.due_for(is_idle=not self.in_flight.jobs)
        return max(due, self.backoff.retry_at)

    # The claim

    def run(self, room: Room, is_wanted: bool) -> None:
        """Record successes and claim; a claim that fails stops nothing else.

        `is_wanted`: run the statement even if nothing asks for it.
        """
        now = monotonic()
        if now < self.backoff.retry_at:
            if room.successes:
                self.recorder.record_successes(room.successes)
            if room.admits:
                self.apply(attempt(self.admitting, self.connection))
            return
        wants = room.slots > 0 and now >= self.rule.due_for(room.is_idle)
        if not (is_wanted or room.successes or wants or room.admits):
            return
        if self.in_flight.deletable:
            room = deleting().record_alone(self.recorder, room)
        if room.admits and not self.must_fetch(room, wants):
            self.admissions.alone(room)
            return
        if not (room.slots or self.rule.may_hold_more):
            room = room._replace(prefetched=0)
        fetch = self.next_fetch(room, now)
        try:
            self.record_and_claim(room, fetch)
        except psycopg.Error as error:
            if is_lost(error):
                raise
            self.failed(room, fetch, error)
        else:
            if (since := self.backoff.since) is not None:
                self.passed(since)

    def must_fetch(self, room: Room, wants: bool) -> bool:
        """Whether an admission that is due needs a fetch in the same round trip.

        A line whose jobs follow one another costs one statement for each, as long as
        the worker knows of no READY job. Units are counted only by a fetch.
        """
        has_failed = self.backoff.since or self.admitting.backoff.since
        is_asked = wants or self.units or self.rule.waits_for_idle
        return has_failed is not None or bool(room.slots and is_asked)

    def next_fetch(self, room: Room, now: float) -> Fetch:
        must_see_all = self.cannot_expire or (
            room.may_end and not self.rule.may_hold_more
        )
        return self.rule.next_fetch(room.slots, now, must_see_all, room.prefetched)

    def record_and_claim(self, room: Room, fetch: Fetch) -> None:
        is_poll = monotonic() >= self.rule.poll_at
        claimed = self.claim(room, fetch)
        self.begin(claimed.jobs)
        if room.prefetched:
            self.capacity.brought(len(claimed.jobs) - room.slots)
        if room.successes:
            statuses = dict.fromkeys(claimed.recorded, "SUCCESSFUL")
            self.recorder.close(room.successes, statuses)
        if claimed.met_expired:
            self.apply(Effects(expired=True))
        if is_poll:
            for observer in self.recorder.observers:
                observer.polled()
            # A worker that cannot listen hears of no job that waits.
            self.admitting.expect()
        now = monotonic()
        self.rule.fetched(fetch, claimed, room.slots, now)
        promotion = self.upkeep.promotion
        if claimed.next_due is not None or promotion.overdue.since is not None:
            promotion.expect_in(claimed.next_due, now)

    def begin(self, jobs: Sequence[ClaimedJob]) -> None:
        """Hand jobs that were claimed to the slots."""
        if jobs:
            for module in modules("gathering"):
                jobs = module.gathered(self, jobs)
            was_idle = self.in_flight.is_empty
            self.in_flight.claim(jobs)
            self.recorder.executor.submit(self.in_flight.take_slots(jobs))
            if was_idle:
                # Let the slot's thread go first. Beside other jobs this costs switches.
                sleep(0)
            for observer in self.recorder.observers:
                observer.claimed(jobs)
            names = {job.queue_name for job in jobs}
            if not names <= self.upkeep.new_queues.known:
                self.upkeep.new_queues.meet(names)

    def claim(self, room: Room, fetch: Fetch) -> Claimed:
        """Record successes and claim; if jobs may wait, admit in between."""
        how = {
            **self.serving,
            "limit": room.slots,
            "prefetched": room.prefetched,
            "fetch": fetch,
            "is_idle": room.is_idle,
            "worker_name": self.options.name,
        }
        if room.admits:
            return self.admissions.with_claim(room.successes, **how)
        record_and_claim = claiming.record_and_claim
        if self.in_flight.deletable:
            record_and_claim = deleting().recording_and_claiming(self.recorder)
        claimed = record_and_claim(
            self.connection, self.worker_id, successes=room.successes, **how
        )
        if claimed.has_keys:  # other jobs began to wait while these ran
            self.admitting.expect()
        return claimed

    @property
    def serving(self) -> dict[str, Any]:
        """Which jobs the worker may claim."""
        return {
            "queues": self.options.queues,
            "excluded": self.options.excluded,
            "units": self.units,
            "skips_expired": self.cannot_expire,
        }

    @property
    def cannot_expire(self) -> bool:
        """Whether expired jobs are in the way because cancelling them fails."""
        return self.upkeep.expiry.backoff.since is not None

    # A claim that fails

    def failed(self, room: Room, fetch: Fetch, error: psycopg.Error) -> None:
        """Record without claiming; find the job that cannot be claimed, or wait."""
        if error.sqlstate is None:  # the driver cannot read what was claimed
            self.apply(Effects(in_doubt=True))
        if room.successes:
            if not self.recorder.found_locked(room.successes, error):
                self.recorder.record_successes(room.successes)
        elif is_of_row(error) and self.claim_row_by_row(room, fetch):
            return
        elif not self.rule.can_do_without(fetch, error, monotonic()):
            self.postpone(error)

    def claim_row_by_row(self, room: Room, fetch: Fetch) -> bool:
        """Fail the jobs that make a claim raise; return whether it changed anything."""
        if not room.slots:
            return False
        failed, has_begun = row_by_row.claim(
            self.connection,
            self.worker_id,
            room.slots + room.prefetched,
            self.begin,
            fetch=fetch,
            is_idle=room.is_idle,
            **self.serving,
        )
        if failed:
            self.apply(Effects(waiting=True, finished=failed))
        return has_begun or bool(failed)

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

    def passed(self, since: float) -> None:
        logger.warning("Claiming works again after %.1f s", monotonic() - since)
        self.backoff.passed()
        self.upkeep.recovered()  # what failed there may have been the same fault
        self.admitting.recovered()
