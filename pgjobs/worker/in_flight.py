"""What a worker holds: its jobs, and outcomes that are not stored yet."""

from collections.abc import Iterable, Sequence
from time import monotonic, time
from typing import TypeVar

from ..features import modules
from ..queue.claiming import ClaimedJob
from ..queue.recording import Completed, Outcome, Success, Unsuccessful, release
from .observer import AttemptEnd

T = TypeVar("T", Success, Completed, Unsuccessful)

MOST_KEPT = 100  # outcomes that a worker keeps beside its slots
FAILED_OVER = "Released: another server took over; what it has done may be lost."


class InFlight:
    """Jobs in flight by lease token; an outcome stays until it is closed."""

    def __init__(self) -> None:
        self.jobs: dict[int, ClaimedJob] = {}
        self.claimed_at: dict[int, float] = {}  # monotonic times
        self.ended_at: dict[int, float] = {}
        self.keyed: set[int] = set()  # tokens of jobs for whose end others may wait
        self.companions: set[int] = set()  # of those that share the slot of another job
        self.isolated: set[int] = set()  # of those that run in a process of their own
        # The tokens of jobs whose successes a feature deletes unless needed, and of
        # those that a statement may have deleted whose answer was lost.
        self.deletable: set[int] = set()
        self.in_doubt: set[int] = set()
        self.kinds = {kind for each in modules("successes") for kind in each.kinds()}
        self.unrecorded: list[Outcome] = []
        # The tokens of outcomes that cannot be stored now: another transaction holds
        # the row of their job, or the statement fails on them.
        self.locked: set[int] = set()
        self.failing: set[int] = set()
        # The tokens of jobs that ran when another server took over.
        self.failed_over: set[int] = set()
        self.last_claim_at: float | None = None  # seconds of the epoch

    def ids(self) -> list[int]:
        """Return the ids of the jobs; from any thread."""
        return [job.id for job in list(self.jobs.values())]

    @property
    def is_empty(self) -> bool:
        return not self.jobs and not self.unrecorded

    @property
    def is_stuck(self) -> bool:
        """Whether recording fails for each job that the worker still holds."""
        return self.jobs.keys() <= self.failing

    def claim(self, jobs: Sequence[ClaimedJob]) -> Sequence[ClaimedJob]:
        """Hold these jobs; return those that take a slot of their own."""
        self.last_claim_at, now = time(), monotonic()
        for job in jobs:
            self.jobs[job.lease_token] = job
            self.claimed_at[job.lease_token] = now
            if job.is_keyed:
                self.keyed.add(job.lease_token)
            if job.keep in self.kinds:
                self.deletable.add(job.lease_token)
        companions = self.companions
        if not companions:
            return jobs
        return [job for job in jobs if job.lease_token not in companions]

    def slots_without(self, outcomes: Sequence[Outcome] = ()) -> int:
        """Return how many slots are taken once these outcomes are stored."""
        if not (self.locked or self.failing):  # as in most passes
            if self.companions:
                outcomes = [e for e in outcomes if e.lease_token not in self.companions]
            return len(self.jobs) - len(self.companions) - len(outcomes)
        stored = {outcome.lease_token for outcome in outcomes}
        held = self.jobs.keys() - self.companions - stored
        # Jobs whose outcomes cannot be stored take no slot.
        return len(held) - min(len(self.kept - self.companions), MOST_KEPT)

    def put(self, outcomes: Iterable[Outcome]) -> None:
        now = monotonic()
        for outcome in outcomes:
            self.ended_at[outcome.lease_token] = now
            self.unrecorded.append(
                self.after_failover(outcome) if self.failed_over else outcome
            )

    def fail_over(self) -> None:
        """Let all jobs run again that an asynchronous standby may know only in part.

        The data that a body has committed may be lost although its job is not, and so
        may the request that made it stop. Atomic jobs are stored whole, or not at all.
        A job that may not run again after a crash does not run again after this.
        """
        self.failed_over |= {
            token for token, job in self.jobs.items() if job.max_crashes > 1
        }
        self.unrecorded = [self.after_failover(outcome) for outcome in self.unrecorded]

    def after_failover(self, outcome: Outcome) -> Outcome:
        """Return the outcome, or a release in its place if its job ran meanwhile."""
        job = self.jobs.get(outcome.lease_token)
        if job is None or outcome.lease_token not in self.failed_over:
            return outcome
        if isinstance(outcome, Unsuccessful) and outcome.verdict != "CANCEL":
            return outcome
        return outcome if isinstance(outcome, Completed) else release(job, FAILED_OVER)

    @property
    def kept(self) -> set[int]:
        """The tokens of outcomes that wait until they can be stored."""
        return self.locked | self.failing

    @property
    def recordable(self) -> list[Outcome]:
        if not (self.locked or self.failing):  # as in most passes
            return self.unrecorded
        kept = self.kept
        return [
            outcome for outcome in self.unrecorded if outcome.lease_token not in kept
        ]

    def recordable_as(self, kind: type[T]) -> list[T]:
        """Return the outcomes of one kind that can be stored now."""
        return [outcome for outcome in self.recordable if isinstance(outcome, kind)]

    def has_keys(self, outcomes: Iterable[Outcome]) -> bool:
        """Whether other jobs may wait for the end of one of these jobs."""
        return bool(self.keyed) and any(
            outcome.lease_token in self.keyed for outcome in outcomes
        )

    @property
    def still_running(self) -> list[ClaimedJob]:
        done = {outcome.lease_token for outcome in self.unrecorded}
        return [job for token, job in self.jobs.items() if token not in done]

    @property
    def runs_last_chance(self) -> bool:
        """Whether the only job in flight is one that must run alone."""
        return len(self.jobs) - len(self.companions) == 1 and any(
            job.is_last_chance and token not in self.isolated
            for token, job in self.jobs.items()
        )

    def close(
        self, outcomes: Sequence[Outcome], status_of: dict[int, str]
    ) -> list[AttemptEnd]:
        """Forget outcomes that are stored, or whose job belongs to another owner.

        `status_of`: the present status of their jobs, by lease token.
        """
        ends = []
        for outcome in outcomes:
            token = outcome.lease_token
            ended_at = self.ended_at.pop(token, 0.0)
            job = self.jobs.pop(token, None)
            if job is not None:
                seconds = ended_at - self.claimed_at.pop(token)
                ends.append(AttemptEnd(job, status_of.get(token), outcome, seconds))
        for tokens in (
            *(self.keyed, self.isolated, self.deletable, self.in_doubt),
            *(self.locked, self.failing, self.failed_over, self.companions),
        ):
            if tokens:  # in most passes all are empty
                tokens.difference_update(outcome.lease_token for outcome in outcomes)
        self.unrecorded = [
            outcome
            for outcome in self.unrecorded
            if outcome.lease_token in self.ended_at
        ]
        return ends
