"""Claiming: one statement records the successes and claims jobs for the free slots.

Where jobs may wait for an admission, it runs in the same round trip. What a pass may
record and claim is one value, made at its start.

With `--prefetch N` the worker holds as many jobs as its slots will begin within
`PREFETCH_SECONDS`, by how long the latest runs took, and at most N beyond the slots. So
no job waits long in a worker while another one is free. Where the measure was wrong,
the jobs go back (`stopping.py`).
"""

import logging
import os
from collections import deque
from collections.abc import Callable, Sequence
from math import inf
from statistics import fmean
from time import monotonic, sleep
from typing import Any, NamedTuple

import psycopg

from ..base.database_errors import is_lost, is_of_row, passes_by_itself, text_of
from ..features import entries
from ..queue import claiming
from ..queue.claiming import Claimed, ClaimedJob, Fetch, HostUnits, Success
from ..queue.recording import deleting
from ..tasks.registry import registry
from . import row_by_row
from .admissions import Admissions
from .connections.backoff import Backoff
from .connections.heartbeat import Heartbeat
from .fetch_rule import FIRST_PAUSE, MOMENT, FetchRule
from .in_flight import InFlight
from .options import WorkerOptions
from .recorder import Recorder
from .session import Session
from .slots.executor import Executor
from .stopping import Lifetime
from .upkeep.admission import Admitting
from .upkeep.chore import Effects, attempt
from .upkeep.chores import Chores

logger = logging.getLogger("pgjobs.worker")

PREFETCH_SECONDS = 0.005  # in which the slots begin all jobs that wait for them
SHARE = 0.02  # of the latest run in the average


class Room(NamedTuple):
    is_idle: bool  # the worker holds no jobs once it has recorded what it is to record
    slots: int  # jobs that may begin at once
    prefetched: int  # jobs that may wait in the worker until a slot is free
    successes: Sequence[Success] = ()  # to record
    admits: bool = False  # an admission is due, or follows what is recorded
    may_end: bool = False  # the worker ends if there is nothing to claim


class Capacity:
    """Says how many jobs the worker has room for: in its slots, and beyond them."""

    def __init__(
        self,
        options: WorkerOptions,
        executor: Executor,
        in_flight: InFlight,
        *,
        lifetime: Lifetime,
        heartbeat: Heartbeat,
        admitting: Admitting,
    ):
        self.options = options
        self.executor = executor
        self.in_flight = in_flight
        self.lifetime = lifetime
        self.heartbeat = heartbeat
        self.admitting = admitting
        # Units are counted when jobs are claimed, so none may wait in a worker.
        self.most = options.most_prefetched if options.units is None else 0
        self.bound = self.most  # of the next claim: few of the jobs may wait here
        self.seconds = PREFETCH_SECONDS  # that a run takes on average
        self.processes = most_isolated(options)  # of isolated jobs, at a time
        # As which longer runs count: one long run keeps only its own slot.
        self.longest = PREFETCH_SECONDS / SHARE / options.slots
        if self.most:
            executor.runs = deque()

    def room(self, now: float) -> Room:
        """Return what the pass that begins may record and claim."""
        in_flight = self.in_flight
        successes = in_flight.recordable_as(Success) if in_flight.unrecorded else []
        if successes and not (self.lifetime.is_over or in_flight.companions):
            # To record all would leave the slots nothing to run until the claim has
            # brought others.
            successes = successes[: max(len(in_flight.jobs) // 2, self.options.slots)]
        taken = in_flight.slots_without(successes)
        slots = self.free_slots(taken)
        admitting = self.admitting
        admits = now >= admitting.next_event or (
            in_flight.has_keys(successes) and not admitting.backoff.is_waiting(now)
        )
        return Room(
            len(in_flight.jobs) == len(successes),
            slots,
            self.to_prefetch(taken, slots) if self.most and (slots or successes) else 0,
            successes,
            admits,
            self.lifetime.ends_when_idle and in_flight.is_stuck,
        )

    @property
    def has_room(self) -> bool:
        """Whether a job may begin at once."""
        return self.free_slots(self.in_flight.slots_without()) > 0

    def free_slots(self, taken: int) -> int:
        """Return how many jobs may begin beside those that take so many slots."""
        if self.lifetime.is_over or monotonic() > self.heartbeat.silent_at:
            return 0
        if taken and self.in_flight.runs_last_chance:
            return 0
        return int(max(min(self.options.slots - taken, self.lifetime.left_to_claim), 0))

    @property
    def free_processes(self) -> int:
        """Return how many isolated jobs may begin."""
        in_flight = self.in_flight
        return self.processes - len(in_flight.isolated - in_flight.ended_at.keys())

    # Prefetching

    def measure(self) -> None:
        """Take the runs since the last pass into the average, in whatever order."""
        if runs := self.executor.runs:
            latest = [min(runs.popleft(), self.longest) for _ in range(len(runs))]
            share = 1 - (1 - SHARE) ** len(latest)
            self.seconds += share * (fmean(latest) - self.seconds)

    def to_prefetch(self, taken: int, slots: int) -> int:
        """Return how many jobs may be claimed beyond the free slots.

        A slot that runs a long job begins no other one.
        """
        self.measure()
        if self.seconds > PREFETCH_SECONDS:
            return 0
        long = self.executor.running_for(PREFETCH_SECONDS)
        soon = (self.options.slots - long) * PREFETCH_SECONDS / self.seconds
        may_hold = min(soon, self.options.slots + self.most)
        left = self.lifetime.left_to_claim - slots
        number = min(may_hold - max(taken, self.options.slots), left, self.bound)
        return max(int(number), 0)

    def brought(self, asked: int, number: int) -> None:
        """Remember how many jobs a claim has prefetched.

        If it was asked for more, the next one locks about as many rows, and some more:
        where a job that must begin at once ends each claim, those behind it would be
        locked in vain.
        """
        if number < asked:
            self.bound = max(number, 0) + self.options.slots
        else:
            self.bound = max(asked + number, self.bound)


def most_isolated(options: WorkerOptions) -> int:
    """Return how many isolated jobs a worker runs at the same time.

    Rows may say that they are isolated although no task is so any more: a deploy has
    changed that. Their jobs run in the slots.
    """
    if not any("isolated" in task.options.own_keys for task in registry.all_tasks()):
        return options.slots
    cores = os.cpu_count() or 1
    return min(options.slots, cores if options.isolated is None else options.isolated)


class Claimer:
    def __init__(
        self,
        session: Session,
        recorder: Recorder,
        *,
        capacity: Capacity,
        admitting: Admitting,
        upkeep: Chores,
        apply: Callable[[Effects], None],
    ):
        self.connection = session.connection
        self.client: claiming.Client = self.connection  # or that of a feature
        self.worker_id = session.id
        self.options = session.options
        self.recorder = recorder
        self.in_flight = recorder.in_flight
        self.rule = FetchRule(self.options.poll, self.options.units is not None)
        self.capacity = capacity
        for rule_of in entries("passing", "RULES"):
            self.rule = rule_of(self)
        self.admitting = admitting
        self.upkeep = upkeep
        self.apply = apply  # called with what a step has changed
        self.backoff = Backoff(FIRST_PAUSE, MOMENT)
        units = session.options.units
        self.units = None if units is None else HostUnits(session.row["host"], units)
        self.serving: dict[str, Any] = {  # which jobs the worker may claim
            "queues": self.options.queues,
            "excluded": self.options.excluded,
            "units": self.units,
        }
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
        # Expired jobs are in the way if cancelling them fails.
        cannot_expire = self.upkeep.expiry.backoff.since is not None
        must_see_all = cannot_expire or (room.may_end and not self.rule.may_hold_more)
        fetch = self.rule.next_fetch(room.slots, now, must_see_all, room.prefetched)
        isolated = min(fetch.isolated, self.capacity.free_processes)
        return fetch._replace(isolated=isolated, skips_expired=cannot_expire)

    def record_and_claim(self, room: Room, fetch: Fetch) -> None:
        is_poll = monotonic() >= self.rule.poll_at
        claimed = self.claim(room, fetch)
        self.begin(claimed.jobs)
        if room.prefetched:
            self.capacity.brought(room.prefetched, len(claimed.jobs) - room.slots)
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
        self.rule.fetched(fetch, claimed, room.slots, now, self.capacity.free_processes)
        promotion = self.upkeep.promotion
        if claimed.next_due is not None or promotion.overdue.since is not None:
            promotion.expect_in(claimed.next_due, now)

    def begin(self, jobs: Sequence[ClaimedJob]) -> None:
        """Hand jobs that were claimed to the slots."""
        for name in {job.task for job in jobs}:
            task = registry.find(name)
            if task is not None and task.options.gathered is not None:
                jobs = task.options.gathered(self, jobs)  # the others have begun
                break
        if not jobs:
            return
        was_idle = self.in_flight.is_empty
        self.recorder.executor.submit(self.in_flight.claim(jobs))
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
            self.client, self.worker_id, successes=room.successes, **how
        )
        if claimed.has_keys:  # other jobs began to wait while these ran
            self.admitting.expect()
        return claimed

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
