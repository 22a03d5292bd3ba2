"""The slots: where claimed jobs run, each on a thread or on the event loop."""

import logging
import threading
from collections import deque
from collections.abc import Callable
from functools import partial

from ..conf import settings
from ..context import RunningJob
from ..exceptions import TaskTimeout
from ..models import work
from ..models.work import ClaimedJob, Outcome, Setback, release
from .deadlines import Deadlines
from .event_loop import EventLoop
from .execution import CoroutineExecution, Execution, ThreadExecution, find_task
from .job_log import log
from .threads import BorrowedThread, Threads


class Executor:
    """Runs up to `slots` jobs at a time; others wait.

    Outcomes and reports wait in inboxes that the loop empties; `ring` wakes it.
    """

    def __init__(self, slots: int, ring: Callable[[], None], database: str):
        self.slots = slots
        self.ring = ring
        self.database = database
        self.lock = threading.Lock()
        self.running: dict[int, Execution] = {}  # by lease token, as all here
        self.waiting: dict[int, ClaimedJob] = {}
        self.outcomes: deque[Outcome] = deque()
        self.reporting: dict[int, RunningJob] = {}
        self.deadlines = Deadlines()
        self.threads = Threads()
        self.event_loop: EventLoop | None = None
        self.given_up = 0  # jobs whose code runs on although they have ended

    # Running

    def submit(self, job: ClaimedJob) -> None:
        """Run the job in a free slot, or as soon as there is one."""
        with self.lock:
            self.waiting[job.lease_token] = job
            execution = self.next_execution()
        if execution:
            self.begin(execution)

    def next_execution(self) -> Execution | None:
        """Give a slot to the job that has waited longest, if there is one."""
        if not self.waiting or len(self.running) >= self.slots:
            return None
        token = next(iter(self.waiting))
        execution = self.execution_of(self.waiting.pop(token))
        self.running[token] = execution
        return execution

    def execution_of(self, job: ClaimedJob) -> Execution:
        task = find_task(job.task)
        if task is None or not task.is_async:
            return ThreadExecution(job, task, self)
        if self.event_loop is None:
            self.event_loop = EventLoop(self.deadlines, self.ended)
        borrowed = BorrowedThread(self.threads)
        return CoroutineExecution(job, task, self, self.event_loop.loop, borrowed)

    def begin(self, execution: Execution) -> None:
        if execution.limit is not None:
            time_out = partial(self.time_out, execution)
            self.deadlines.set(execution, execution.limit, time_out)
        if isinstance(execution, CoroutineExecution):
            assert self.event_loop is not None
            self.event_loop.start(execution)
        elif isinstance(execution, ThreadExecution):
            self.threads.put(partial(self.run, execution))

    def run(self, execution: ThreadExecution) -> None:
        outcome = execution.run()
        self.threads.free()
        self.ended(execution, outcome)

    def ended(self, execution: Execution, outcome: Outcome) -> None:
        """Put the outcome down, unless the job was given up before."""
        with self.lock:
            if self.running.pop(execution.job.lease_token, None) is None:
                log(logging.WARNING, execution.job, "ended long after it was given up")
                return
            following = self.next_execution()
        if execution.limit is not None:
            self.deadlines.lift(execution)
        self.outcomes.append(outcome)
        if following:
            self.begin(following)
        self.ring()

    # Stopping what runs

    def cancel(self, lease_token: int) -> None:
        """Pass on that a job is to stop; what nothing has begun ends here."""
        with self.lock:
            execution = self.running.get(lease_token)
            job = self.waiting.pop(lease_token, None)
        if execution:
            execution.cancel()
        elif job:
            reason = "Cancelled before it began."
            self.outcomes.append(
                Setback(job.id, lease_token, "CANCEL", reason, message=reason)
            )

    def time_out(self, execution: Execution) -> None:
        """Stop an attempt whose time is over; give it up if it does not stop."""
        execution.stop(TaskTimeout)
        give_up = partial(self.give_up, execution)
        self.deadlines.set(execution, settings.TIMEOUT_GRACE, give_up)

    def give_up(self, execution: Execution) -> None:
        """End an attempt whose code runs on; what that still does is void.

        A thread cannot be ended, so the worker is to begin anew.
        """
        with self.lock:
            if self.running.pop(execution.job.lease_token, None) is None:
                return  # it has just ended
            self.given_up += 1
            neighbours = self.take_blocked_by(execution)
        log(logging.ERROR, execution.job, "is given up: it does not stop")
        if execution.thread is not None:
            self.threads.replace(execution.thread)
        self.outcomes.append(execution.given_up())
        for each in neighbours:
            reason = f"Released: job {execution.job.id} blocks the event loop."
            self.outcomes.append(release(each.job, reason))
        self.ring()

    def take_blocked_by(self, execution: Execution) -> list[Execution]:
        """Take away the jobs that cannot go on because this one blocks their loop."""
        if self.event_loop is None or not self.event_loop.is_blocked_by(execution):
            return []
        blocked: list[Execution] = [
            each
            for each in self.running.values()
            if isinstance(each, CoroutineExecution)
        ]
        for each in blocked:
            del self.running[each.job.lease_token]
        return blocked

    def withdraw(self) -> list[ClaimedJob]:
        """Return the jobs that no slot has begun, and run them no more."""
        with self.lock:
            jobs = list(self.waiting.values())
            self.waiting.clear()
        return jobs

    # What jobs say of themselves

    def reported(self, job: RunningJob) -> None:
        """Note that a running job has something to report."""
        self.reporting[job.lease_token] = job
        self.ring()

    def still_owned(self, job: RunningJob) -> bool:
        return work.still_owned(self.database, job.id, job.lease_token)

    # What the loop takes

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

    def stop(self) -> None:
        """End the threads; they must have no jobs any more."""
        if self.event_loop is not None:
            self.event_loop.stop()
        self.deadlines.stop()
        self.threads.stop()
