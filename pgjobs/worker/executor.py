"""The slots: threads that take claimed jobs and leave outcomes."""

import threading
from collections import deque
from collections.abc import Callable
from contextvars import copy_context
from queue import Empty, SimpleQueue

from django.db import connections

from ..context import RunningJob
from ..models.work import ClaimedJob, Outcome
from .execution import execute


class Executor:
    """Runs jobs on a fixed number of threads.

    Outcomes and reports wait in inboxes that the loop empties; `ring` wakes it.
    """

    def __init__(self, slots: int, ring: Callable[[], None]):
        self.ring = ring
        self.jobs: SimpleQueue[ClaimedJob | None] = SimpleQueue()
        self.outcomes: deque[Outcome] = deque()
        self.reporting: dict[int, RunningJob] = {}  # by lease token
        self.threads = [
            threading.Thread(target=self.work, name=f"pgjobs-slot-{n}", daemon=True)
            for n in range(1, slots + 1)
        ]

    def start(self) -> None:
        for thread in self.threads:
            thread.start()

    def submit(self, job: ClaimedJob) -> None:
        self.jobs.put(job)

    def work(self) -> None:
        """Run jobs one after the other; the body of every slot's thread."""
        while (job := self.jobs.get()) is not None:
            # A context of its own: the language or time zone that a job activates
            # ends with it.
            self.outcomes.append(copy_context().run(execute, job, self))
            self.ring()
        connections.close_all()

    def reported(self, job: RunningJob) -> None:
        """Note that a running job has something to report."""
        self.reporting[job.lease_token] = job
        self.ring()

    def take_outcomes(self) -> list[Outcome]:
        outcomes = []
        while self.outcomes:
            outcomes.append(self.outcomes.popleft())
        return outcomes

    def take_reports(self) -> list[tuple[RunningJob, dict]]:
        reports = []
        while self.reporting:
            _, job = self.reporting.popitem()
            if report := job.take_report():
                reports.append((job, report))
        return reports

    def withdraw(self) -> list[ClaimedJob]:
        """Return the jobs that no thread has begun, and run them no more."""
        jobs: list[ClaimedJob] = []
        while True:
            try:
                job = self.jobs.get_nowait()
            except Empty:
                return jobs
            if job is not None:
                jobs.append(job)

    def stop(self) -> None:
        """End the threads; they must have no jobs any more."""
        for _ in self.threads:
            self.jobs.put(None)
        for thread in self.threads:
            thread.join()
