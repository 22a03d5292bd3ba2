"""What a worker holds: its jobs, and outcomes that are not stored yet."""

from collections.abc import Iterable, Sequence
from time import monotonic

from ..queue.claiming import ClaimedJob
from ..queue.recording import Completed, Outcome, Success, Unsuccessful, release
from .observer import AttemptEnd

FAILED_OVER = "Released: another server took over; what it has done may be lost."


class InFlight:
    """Jobs in flight by lease token; an outcome stays until it is closed."""

    def __init__(self) -> None:
        self.jobs: dict[int, ClaimedJob] = {}
        self.claimed_at: dict[int, float] = {}  # monotonic times
        self.ended_at: dict[int, float] = {}
        self.keyed: set[int] = set()  # tokens of jobs for whose end others may wait
        self.unrecorded: list[Outcome] = []
        # The tokens of outcomes that cannot be stored now: another transaction holds
        # the row of their job, or the statement fails on them.
        self.locked: set[int] = set()
        self.failing: set[int] = set()
        # The tokens of jobs that ran when another server took over.
        self.doubted: set[int] = set()

    def __len__(self) -> int:
        return len(self.jobs)

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

    def claim(self, jobs: Iterable[ClaimedJob]) -> None:
        now = monotonic()
        for job in jobs:
            self.jobs[job.lease_token] = job
            self.claimed_at[job.lease_token] = now
            if job.is_keyed:
                self.keyed.add(job.lease_token)

    def put(self, outcomes: Iterable[Outcome]) -> None:
        now = monotonic()
        for outcome in outcomes:
            self.ended_at[outcome.lease_token] = now
            self.unrecorded.append(self.credible(outcome) if self.doubted else outcome)

    def doubt_all(self) -> None:
        """Let all jobs run again that an asynchronous standby may know only in part.

        The data that a body has committed may be lost although its job is not, and so
        may the request that made it stop. Atomic jobs are stored whole, or not at all.
        A job that may not run again after a crash does not run again after this.
        """
        self.doubted |= {
            token for token, job in self.jobs.items() if job.max_crashes > 1
        }
        self.unrecorded = [self.credible(each) for each in self.unrecorded]

    def credible(self, outcome: Outcome) -> Outcome:
        """Return the outcome, or a release in its place if its job is doubted."""
        job = self.jobs.get(outcome.lease_token)
        if job is None or outcome.lease_token not in self.doubted:
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
        if not (kept := self.kept):
            return self.unrecorded
        return [each for each in self.unrecorded if each.lease_token not in kept]

    @property
    def successes(self) -> list[Success]:
        return [each for each in self.recordable if isinstance(each, Success)]

    def has_keys(self, outcomes: Iterable[Outcome]) -> bool:
        """Whether other jobs may wait for the end of one of these jobs."""
        return bool(self.keyed) and any(
            each.lease_token in self.keyed for each in outcomes
        )

    @property
    def completed(self) -> list[Completed]:
        return [each for each in self.unrecorded if isinstance(each, Completed)]

    @property
    def unsuccessful(self) -> list[Unsuccessful]:
        return [each for each in self.recordable if isinstance(each, Unsuccessful)]

    @property
    def still_running(self) -> list[ClaimedJob]:
        done = {outcome.lease_token for outcome in self.unrecorded}
        return [job for token, job in self.jobs.items() if token not in done]

    @property
    def runs_suspect(self) -> bool:
        """Whether the only job in flight is one that must run alone."""
        return len(self.jobs) == 1 and any(job.is_suspect for job in self.jobs.values())

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
        for noted in (self.keyed, self.locked, self.failing, self.doubted):
            if noted:  # in most passes all are empty
                noted.difference_update(each.lease_token for each in outcomes)
        self.unrecorded = [
            each for each in self.unrecorded if each.lease_token in self.ended_at
        ]
        return ends
