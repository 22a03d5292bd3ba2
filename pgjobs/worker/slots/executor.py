"""The slots: where claimed jobs run, each on a thread or on the event loop."""

import logging
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from time import monotonic
from typing import Any

from ...conf import settings
from ...exceptions import TaskTimeout
from ...queue import recording
from ...queue.claiming import ClaimedJob
from ...queue.recording import Outcome, Unsuccessful, release
from ...tasks.registry import registry
from ...tasks.running_job import RunningJob
from ...tasks.task import Task
from ..job_log import log
from .deadlines import Deadlines
from .event_loop import EventLoop
from .execution import CoroutineExecution, Execution, ThreadExecution
from .surroundings import Surroundings
from .threads import BorrowedThread, Threads


class Executor(Surroundings):
    """Runs up to `slots` jobs at a time; other jobs wait.

    Outcomes and reports wait until the loop takes them. `ring` wakes the loop.
    """

    database: str

    def __init__(self, slots: int, ring: Callable[[], None], database: str):
        super().__init__()
        self.database = database
        self.slots = slots
        self.ring = ring
        self.default_limit = settings.TIMEOUT  # read once, because each job asks for it
        self.lock = threading.Lock()
        self.running: dict[int, Execution] = {}  # by lease token, as the other dicts
        self.waiting: OrderedDict[int, tuple[ClaimedJob, Task | None]] = OrderedDict()
        self.outcomes: deque[Outcome] = deque()
        self.reporting: dict[int, RunningJob] = {}
        # How long each job took, in seconds, if that is asked for.
        self.runs: deque[float] | None = None
        self.deadlines = Deadlines()
        self.threads = Threads()
        self.event_loop: EventLoop | None = None
        self.row: dict[str, Any] = {}  # of the worker: its signs of life store it
        self.beside: list[Any] = []  # what features close when the worker ends
        self.submitted = 0  # jobs
        self.given_up = 0  # jobs whose code runs on although they have ended

    # Running

    def submit(self, jobs: Sequence[ClaimedJob]) -> None:
        """Run jobs in the free slots, and the others as soon as slots are free."""
        # To look up a name may take time, so no lock is held.
        tasks = {name: registry.find(name) for name in {job.task for job in jobs}}
        self.submitted += len(jobs)
        with self.lock:
            for job in jobs:
                self.waiting[job.lease_token] = job, tasks[job.task]
        self.fill_slots()

    def next_execution(self) -> Execution | None:
        """Give a slot to the job that has waited longest, if any waits."""
        if not self.waiting or len(self.running) >= self.slots:
            return None
        token, (job, task) = self.waiting.popitem(last=False)
        kind: Any = CoroutineExecution if task and task.is_async else ThreadExecution
        if job.call:
            kind = job.call.kind(kind)
        elif task and task.options.execution:
            kind = task.options.execution
        more: tuple = ()
        if issubclass(kind, CoroutineExecution):
            if self.event_loop is None:
                self.event_loop = EventLoop(self.deadlines, self.ended, self.blocked)
            more = self.event_loop, BorrowedThread(self.threads)
        execution = kind(job, task, self, self.default_limit, *more)
        self.running[token] = execution
        return execution

    def begin(self, execution: Execution) -> None:
        if isinstance(execution, CoroutineExecution):
            execution.event_loop.start(execution)
        elif isinstance(execution, ThreadExecution):
            self.threads.put(partial(self.run, execution))

    def began(self, execution: Execution) -> None:
        """Start the time limit: the task's own code begins."""
        if execution.limit is not None:
            time_out = partial(self.time_out, execution)
            self.deadlines.set(execution, execution.limit, time_out)

    def run(self, execution: ThreadExecution) -> None:
        """Run the job on this thread, then the jobs that have waited for its slot."""
        following: Execution | None = execution
        while isinstance(following, ThreadExecution):
            execution, outcome = following, following.run()
            with self.lock:
                following = self.vacate(execution, outcome)
                if not isinstance(following, ThreadExecution):
                    self.threads.free()  # before another job can take the slot
            self.free_deadline(execution)
        if following:
            self.begin(following)

    def ended(self, execution: CoroutineExecution, outcome: Outcome) -> None:
        """Handle the end of a coroutine; called once its thread is given back."""
        with self.lock:
            following = self.vacate(execution, outcome)
        self.free_deadline(execution)
        if following:
            self.begin(following)

    def vacate(self, execution: Execution, outcome: Outcome) -> Execution | None:
        """Put the outcome down, unless the job was given up before.

        Returns the job that takes its slot, if any waits.
        """
        if self.running.pop(execution.job.lease_token, None) is None:
            log(logging.WARNING, execution.job, "ended long after it was given up")
            return None
        self.outcomes.extend(execution.each(outcome))
        if self.runs is not None and execution.begun_at is not None:
            self.runs.append(monotonic() - execution.begun_at)
        return self.next_execution()

    def free_deadline(self, execution: Execution) -> None:
        if execution.limit is not None:
            self.deadlines.lift(execution)
        self.ring()

    # Stopping what runs

    def cancel(self, lease_token: int) -> None:
        """Ask a job to stop. A job that no slot has begun ends at once."""
        with self.lock:
            execution = self.running.get(lease_token)
            calls = [job.call for job, _ in self.waiting.values()]
            calls += [each.job.call for each in self.running.values()]
            if any(call and call.cancel(lease_token) for call in calls):
                return
            waiting = self.waiting.pop(lease_token, None)
        if execution:
            execution.cancel()
        elif waiting:
            job, _ = waiting
            reason = "Cancelled before it began."
            self.outcomes.append(
                Unsuccessful(job.id, lease_token, "CANCEL", reason, message=reason)
            )

    def time_out(self, execution: Execution) -> None:
        """Stop an attempt after its time limit; give it up if it does not stop."""
        execution.stop(TaskTimeout)
        give_up = partial(self.give_up, execution)
        self.deadlines.set(execution, settings.TIMEOUT_GRACE, give_up)

    def give_up(self, execution: Execution) -> None:
        """End an attempt whose code runs on. Whatever the code still does is void.

        The slot gets a new thread. The old thread cannot be ended, so the worker has to
        be replaced when it is idle.
        """
        with self.lock:
            if self.running.pop(execution.job.lease_token, None) is None:
                return  # it has just ended
            self.given_up += 1
        log(logging.ERROR, execution.job, "is given up: it does not stop")
        self.threads.replace(execution.thread)
        self.outcomes.extend(execution.each(execution.given_up()))
        if isinstance(execution, CoroutineExecution) and execution.is_blocking:
            self.abandon(execution)
        self.fill_slots()

    def blocked(self, execution: CoroutineExecution) -> None:
        """Abandon the event loop if the job that blocks it was given up."""
        if execution.job.lease_token not in self.running:
            self.abandon(execution)
            self.fill_slots()

    def abandon(self, blocking: CoroutineExecution) -> None:
        """Release the jobs of a blocked event loop; later jobs get a new loop."""
        with self.lock:
            if self.event_loop is blocking.event_loop:
                self.event_loop = None
            neighbours = [
                execution
                for execution in self.running.values()
                if isinstance(execution, CoroutineExecution)
                and execution.event_loop is blocking.event_loop
            ]
            for neighbour in neighbours:
                del self.running[neighbour.job.lease_token]
        blocking.event_loop.abandon()
        for neighbour in neighbours:
            self.deadlines.lift(neighbour)
            self.threads.replace(neighbour.thread)
            reason = f"Released: job {blocking.job.id} blocks the event loop."
            self.outcomes.extend(neighbour.each(release(neighbour.job, reason)))

    def fill_slots(self) -> None:
        """Begin waiting jobs in the free slots."""
        while True:
            with self.lock:
                execution = self.next_execution()
            if execution is None:
                return self.ring()
            self.begin(execution)

    def withdraw(self) -> list[ClaimedJob]:
        """Return the jobs that no slot has begun; they will not run here."""
        with self.lock:
            jobs = [job for job, _ in self.waiting.values()]
            self.waiting.clear()
        together = [job.call.members if job.call else [job] for job in jobs]
        return list(chain.from_iterable(together))

    def first_waiting(self) -> ClaimedJob | None:
        """Return the job that has waited longest for a slot, if any waits."""
        with self.lock:
            return next((job for job, _ in self.waiting.values()), None)

    def running_for(self, seconds: float) -> int:
        """Return how many jobs run for so long already."""
        before = monotonic() - seconds
        with self.lock:
            began = [execution.begun_at for execution in self.running.values()]
        return sum(at is not None and at < before for at in began)

    # Reports

    def reported(self, job: RunningJob) -> None:
        """Remember that a running job has something to report."""
        self.reporting[job.lease_token] = job
        self.ring()

    def still_owned(self, job: RunningJob) -> bool:
        return recording.still_owned(self.database, job.id, job.lease_token)

    # For the loop

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
        """End the threads, which must run no jobs any more."""
        if self.event_loop is not None:
            self.event_loop.stop()
        self.deadlines.stop()
        self.threads.stop()
