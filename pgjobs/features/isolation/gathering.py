"""How many isolated jobs a worker runs at the same time: `runjobs --isolated`.

The claim counts them by their rows. While the bound is reached, it passes over all of
them. The row of a plain INSERT does not say that its task is isolated: one that is too
many goes back at once, and says so from then on.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...queue.claiming import ClaimedJob, Fetch
from ...queue.recording import Outcome, release
from ...tasks.registry import registry
from .bound import most_processes

if TYPE_CHECKING:
    from ...worker.claimer import Claimer, Room

TOO_MANY = "Put back: its worker runs as many isolated jobs as it may."


class Bound:
    """Counts the isolated jobs of a worker."""

    def __init__(self, claimer: "Claimer"):
        self.most = most_processes(claimer.options.slots, claimer.options.isolated)
        self.in_flight = claimer.in_flight
        self.rule = claimer.rule
        self.tokens: set[int] = set()  # of the isolated jobs in flight
        self.left = self.most  # so many more may begin
        self.has_passed_over = False  # the latest fetch, because of the bound

    def count(self, room: "Room") -> None:
        """Count anew as a pass begins."""
        if self.tokens:
            self.tokens &= self.in_flight.jobs.keys()
            self.tokens.difference_update(each.lease_token for each in room.successes)
            self.left = self.most - len(self.tokens)
        if self.has_passed_over != (self.left == 0):
            self.rule.wake()

    def narrowed(self, fetch: Fetch) -> Fetch:
        """Return the fetch that brings no more isolated jobs than may begin."""
        self.has_passed_over = self.left == 0
        return fetch._replace(isolated=self.left)

    def begin(self, jobs: Sequence[ClaimedJob]) -> Sequence[ClaimedJob]:
        """Count jobs that were claimed; return those of them that are too many."""
        begun, others = jobs[: self.left], jobs[self.left :]
        self.tokens.update(job.lease_token for job in begun)
        self.left -= len(begun)
        return others


def gathered(claimer: "Claimer", jobs: Sequence[ClaimedJob]) -> Sequence[ClaimedJob]:
    """Return the jobs without the isolated ones that may not begin; put these back."""
    (bound,) = (each for each in claimer.bounds if isinstance(each, Bound))
    names = {job.task for job in jobs}
    own = {name for name in names if registry.has_own_process(name)}
    isolated = [job for job in jobs if job.task in own] if own else []
    others = bound.begin(isolated)
    if isolated and not bound.left:
        claimer.recorder.executor.ring()  # the next fetch goes past them
    if not others:
        return jobs
    # They end before they begin: what stores an outcome lets none of them get lost.
    claimer.in_flight.claim(others)
    claimer.in_flight.put(put_back(job) for job in others)
    tokens = {job.lease_token for job in others}
    return [job for job in jobs if job.lease_token not in tokens]


def put_back(job: ClaimedJob) -> Outcome:
    outcome = release(job, TOO_MANY, has_begun=False)
    return outcome._replace(statement="put_back")


BOUNDS = (Bound,)
