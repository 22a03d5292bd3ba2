"""What a pass may record and claim: one value, made at its start.

With `--prefetch N` the worker holds as many jobs as its slots will begin within
`PREFETCH_SECONDS`, by how long the latest runs took, and at most N beyond the slots. So
no job waits long in a worker while another one is free. Where the measure was wrong,
the jobs go back (`stopping.py`).
"""

from collections import deque
from collections.abc import Sequence
from time import monotonic
from typing import NamedTuple

from ..queue.claiming import Success
from .connections.heartbeat import Heartbeat
from .in_flight import InFlight
from .options import WorkerOptions
from .slots.executor import Executor
from .stopping import Lifetime
from .upkeep.admission import Admitting

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
        held = in_flight.slots_without(successes)
        slots = self.free_slots(held)
        admitting = self.admitting
        admits = now >= admitting.next_event or (
            in_flight.has_keys(successes) and not admitting.backoff.is_waiting(now)
        )
        return Room(
            not held,
            slots,
            self.to_prefetch(held, slots) if self.most and (slots or successes) else 0,
            successes,
            admits,
            self.lifetime.ends_when_idle and in_flight.is_stuck,
        )

    @property
    def has_room(self) -> bool:
        """Whether a job may begin at once."""
        return self.free_slots(self.in_flight.slots_without()) > 0

    def free_slots(self, held: int) -> int:
        """Return how many jobs may begin beside those that the worker holds."""
        if self.lifetime.is_over or monotonic() > self.heartbeat.silent_at:
            return 0
        taken = held - self.in_flight.without_slot
        if taken and self.in_flight.runs_last_chance:
            return 0
        return int(max(min(self.options.slots - taken, self.lifetime.left_to_claim), 0))

    # Prefetching

    def measure(self) -> None:
        """Take the latest runs into the average."""
        runs = self.executor.runs
        while runs:
            change = min(runs.popleft(), self.longest) - self.seconds
            self.seconds += SHARE * change

    def to_prefetch(self, held: int, slots: int) -> int:
        """Return how many jobs may be claimed beyond the free slots.

        A slot that runs a long job begins no other one.
        """
        self.measure()
        if self.seconds > PREFETCH_SECONDS:
            return 0
        held -= self.in_flight.without_slot
        long = self.executor.running_for(PREFETCH_SECONDS)
        soon = (self.options.slots - long) * PREFETCH_SECONDS / self.seconds
        may_hold = min(soon, self.options.slots + self.most)
        left = self.lifetime.left_to_claim - slots
        number = min(may_hold - max(held, self.options.slots), left, self.bound)
        return max(int(number), 0)

    def brought(self, number: int) -> None:
        """Remember how many jobs a claim has prefetched; it was asked for some.

        The next one locks about as many rows, and some more: where a job that must
        begin at once ends each claim, those behind it would be locked in vain.
        """
        self.bound = max(number, 0) + self.options.slots
