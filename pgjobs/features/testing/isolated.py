"""`run_jobs(isolated=True)`: isolated tasks run in processes, as a worker's do."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connections

from ...exceptions import Fail, Interruption, JobFailed, MemoryLimitExceeded, Retry
from ...queue.claiming import ClaimedJob
from ...queue.recording import Outcome, Unsuccessful
from ...tasks.registry import registry
from ...worker.slots.executor import Executor
from ...worker.slots.outcomes import class_path
from ..isolation.execution import IsolatedExecution

# Of what a task raises to decide about its job.
ON_PURPOSE = {class_path(error) for error in (Retry(), Fail(""))}
CHOSEN = ("SNOOZE", "CANCEL", "SUSPEND", "RELEASE")  # verdicts that are no error


class CalledExecution(IsolatedExecution):
    """A job in a child that its caller waits for."""

    def unexpected(self, outcome: Outcome) -> BaseException | None:
        """Return the error of a job that neither succeeded nor chose its end."""
        if not isinstance(outcome, Unsuccessful) or outcome.verdict in CHOSEN:
            return None
        if outcome.exception_class in ON_PURPOSE:
            return None
        if isinstance(outcome.error, MemoryLimitExceeded | Interruption):
            return outcome.error
        return outcome.error or JobFailed(
            f"Job {self.job.id} ({self.job.task}): {outcome.reason}"
        )


class Children(Executor):
    """The host of isolated jobs that run one after the other."""

    def __init__(self, database: str):
        super().__init__(1, lambda: None, database)

    def execution(self, job: ClaimedJob) -> CalledExecution | None:
        """Return the execution of a job whose task is isolated."""
        task = registry.find(job.task)
        if task is None or not task.options.isolated:
            return None
        return CalledExecution(job, task, self, self.default_limit)


@contextmanager
def children(isolated: bool, database: str) -> Iterator[Children | None]:
    """Provide processes for isolated jobs, if they are wanted, and end them.

    Raises RuntimeError in a transaction, of which other processes see nothing.
    """
    if not isolated:
        yield None
        return
    if connections[database].in_atomic_block:
        raise RuntimeError(
            "run_jobs(isolated=True) was called in a transaction, of which processes "
            "of isolated tasks see nothing. Use TransactionTestCase, or "
            "@pytest.mark.django_db(transaction=True)."
        )
    host = Children(database)
    try:
        yield host
    finally:
        for each in host.beside:
            each.close()
        host.stop()
