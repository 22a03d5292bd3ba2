"""The books of a worker: the jobs that it holds, and outcomes not yet stored."""

from collections.abc import Iterable, Sequence

from ..models.work import ClaimedJob, Outcome, Setback, Success


class Ledger:
    """Jobs in flight by lease token; an outcome stays until it is settled."""

    def __init__(self) -> None:
        self.in_flight: dict[int, ClaimedJob] = {}
        self.unrecorded: list[Outcome] = []
        self.locked: set[int] = set()  # tokens of outcomes that cannot be stored now

    def __len__(self) -> int:
        return len(self.in_flight)

    @property
    def is_empty(self) -> bool:
        return not self.in_flight and not self.unrecorded

    def claim(self, job: ClaimedJob) -> None:
        self.in_flight[job.lease_token] = job

    def put(self, outcomes: Iterable[Outcome]) -> None:
        self.unrecorded += outcomes

    @property
    def recordable(self) -> list[Outcome]:
        if not self.locked:
            return self.unrecorded
        return [each for each in self.unrecorded if each.lease_token not in self.locked]

    @property
    def successes(self) -> list[Success]:
        return [each for each in self.recordable if isinstance(each, Success)]

    @property
    def setbacks(self) -> list[Setback]:
        return [each for each in self.recordable if isinstance(each, Setback)]

    @property
    def still_running(self) -> list[ClaimedJob]:
        done = {outcome.lease_token for outcome in self.unrecorded}
        return [job for token, job in self.in_flight.items() if token not in done]

    @property
    def runs_suspect(self) -> bool:
        """Whether the only job in flight is one that must be alone."""
        return len(self.in_flight) == 1 and any(
            job.is_suspect for job in self.in_flight.values()
        )

    def settle(self, outcomes: Sequence[Outcome]) -> list[ClaimedJob]:
        """Forget outcomes that are stored or void; return their jobs."""
        settled = dict.fromkeys(outcome.lease_token for outcome in outcomes)
        self.unrecorded = [
            each for each in self.unrecorded if each.lease_token not in settled
        ]
        jobs = (self.in_flight.pop(token, None) for token in settled)
        return [job for job in jobs if job is not None]
