"""Prefetching by measure: how many jobs a worker may claim ahead of its slots.

With `--prefetch auto` the worker holds as many jobs as its slots will begin within
`AHEAD_SECONDS`, by what it has measured of each task. So no job waits long in a worker
while another worker is free. Where the measure was wrong, the jobs go back.
"""

import logging
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from math import inf
from time import monotonic

import psycopg

from ..base.database_errors import passes_by_itself, text_of
from ..queue.claiming import Ahead, ClaimedJob
from .connections.faults import Backoff
from .in_flight import InFlight
from .options import MOST_AHEAD, WorkerOptions
from .slots.executor import Executor
from .upkeep.chore import FIRST_PAUSE, LONGEST_PAUSE

logger = logging.getLogger("pgjobs.worker")

AHEAD_SECONDS = 0.005  # in which the slots begin all jobs that wait for them
LONGEST_WAIT = 0.1  # seconds until jobs that no slot has begun go back
SHARE = 0.02  # of the latest run in the average of its task
FEWEST_RUNS = 10  # before a task is known
LEAST_COST = 1e-5  # seconds of a slot
MOST_TASKS = 100  # known at a time


class Average:
    """How long the runs of a task take, the latest ones counting most."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.runs = 0

    def add(self, runs: int, seconds: float) -> None:
        """Take note of a number of runs, and of their seconds together."""
        self.runs += runs
        weight = max(1 - (1 - SHARE) ** runs, runs / self.runs)
        self.seconds += (seconds / runs - self.seconds) * weight

    @property
    def cost(self) -> float:
        """Return the seconds of a slot that a run takes; inf if it may be long."""
        if self.runs < FEWEST_RUNS or self.seconds > AHEAD_SECONDS:
            return inf
        return max(self.seconds, LEAST_COST)


class Averages:
    """The averages of the tasks that ran here last."""

    def __init__(self) -> None:
        self.by_task: dict[str, Average] = {}

    def add(self, runs: Iterable[tuple[str, float]]) -> None:
        """Take note of runs, each as its task and its seconds."""
        together: dict[str, list[float]] = {}
        for task, seconds in runs:
            together.setdefault(task, []).append(seconds)
        for task, each in together.items():
            average = self.by_task.pop(task, None) or Average()
            average.add(len(each), sum(each))
            self.by_task[task] = average  # the last one now
        while len(self.by_task) > MOST_TASKS:
            del self.by_task[next(iter(self.by_task))]

    def cost_of(self, task: str) -> float:
        average = self.by_task.get(task)
        return inf if average is None else average.cost

    def costs(self) -> dict[str, float]:
        """Return the cost of each task that is known to be short."""
        costs = {task: average.cost for task, average in self.by_task.items()}
        return {task: cost for task, cost in costs.items() if cost < inf}


class Prefetching:
    """What the worker may claim ahead of its slots, and when that has to go back."""

    def __init__(self, options: WorkerOptions, executor: Executor, in_flight: InFlight):
        self.slots = options.slots
        self.fixed = options.fixed_prefetch
        # Units are counted when jobs are claimed, so none may wait in a worker.
        self.is_on = options.prefetch == "auto" and options.units is None
        self.executor = executor
        self.in_flight = in_flight
        self.averages = Averages()
        self.runs: deque[tuple[str, float]] = deque()
        self.backoff = Backoff(FIRST_PAUSE, LONGEST_PAUSE)
        self.has_asked = False  # whether the latest claim was to claim ahead
        if self.is_on:
            executor.runs = self.runs

    def ahead(self, held: int, left: float) -> Ahead | None:
        """Return what may be claimed ahead.

        `held`: how many jobs the worker holds. `left`: how many it may still claim
        before it ends.
        """
        self.has_asked = False
        if not self.is_on or self.backoff.is_waiting(monotonic()):
            return None
        self.averages.add(self.take_runs())
        if not (costs := self.averages.costs()):
            return None
        seconds = self.seconds_left(monotonic())
        room = self.slots + MOST_AHEAD - held
        most = min(seconds / min(costs.values()), room, left)
        self.has_asked = most >= 1
        return Ahead(int(most), seconds, costs) if self.has_asked else None

    def failed(self, error: psycopg.Error) -> bool:
        """Note that a claim failed; return whether one that is not ahead may pass."""
        if not self.has_asked or passes_by_itself(error):
            return False
        pause = self.backoff.failed(monotonic())
        logger.error(
            "Claiming ahead failed, trying again in %.1f s: %s", pause, text_of(error)
        )
        return True

    def passed(self) -> None:
        """Note that a claim did not fail."""
        if self.has_asked:
            self.backoff.passed()

    @property
    def share(self) -> int:
        """How many of the jobs that the worker may hold are recorded at once."""
        may_hold = len(self.in_flight) if self.is_on else self.slots + self.fixed
        return max(may_hold // 2, self.slots)

    def take_runs(self) -> Iterator[tuple[str, float]]:
        while self.runs:
            yield self.runs.popleft()

    def seconds_left(self, now: float) -> float:
        """Return the time of the slots that no job has been promised.

        A slot that runs a long job, or a job that already took too long, has none.
        """
        running, waiting = self.executor.at_present()
        costs = [
            self.averages.cost_of(each.job.task)
            for each in running
            if each.begun_at is None or now - each.begun_at < AHEAD_SECONDS
        ]
        short = [cost for cost in costs if cost < inf]
        free = self.slots - len(running) + len(short)
        tasks = Counter(job.task for job in waiting)
        promised = sum(self.averages.cost_of(task) * n for task, n in tasks.items())
        return free * AHEAD_SECONDS - sum(short) - promised

    # What waits for too long

    @property
    def return_at(self) -> float:
        """Return when the jobs that wait have to go back (monotonic time)."""
        if not self.is_on or (job := self.executor.first_waiting()) is None:
            return inf
        return self.in_flight.claimed_at.get(job.lease_token, inf) + LONGEST_WAIT

    def overdue(self, now: float) -> list[ClaimedJob]:
        """Return the jobs that have to go back. They will not run here."""
        return self.executor.withdraw() if now >= self.return_at else []
