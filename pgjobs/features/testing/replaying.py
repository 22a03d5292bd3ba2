"""The replay guard: a task that has waited runs once more, and may change nothing.

A task that waits runs from its top again, and a crash repeats also what stands behind
its last wait. With all steps done, it must not write, enqueue or mail any more.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from django.core import mail
from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.test.testcases import _DatabaseFailure
from psycopg.errors import ReadOnlySqlTransaction

from ...conf import settings
from ...exceptions import ControlFlow, Suspended
from ...tasks.running_job import RunningJob
from ..steps.running_job import Steps, results_of
from .caller import CallerWorker
from .execution import CallerExecution, CommitHooks, Ended, savepoint

CURE = "It would happen again in each stretch, or after a crash. Put it into a step."


def replay_job(worker: CallerWorker, ended: CallerExecution) -> None:
    """Run a job that has waited once more; raise AssertionError for what it changes."""
    __tracebackhide__ = True
    # What made it is a call: a job that never sleeps, waits or goes on has none.
    if "waits" not in vars(ended.running):
        return
    execution = ReplayedExecution(ended.job, ended.task, worker)
    execution.run()
    error = execution.error
    faults = execution.faults
    if not faults and error is not None:
        if isinstance(error, ControlFlow | Suspended):
            return
        faults = [f"raises {type(error).__name__}: {error}"]
    if faults:
        raise AssertionError(
            f"Job {ended.job.id} ({ended.job.task}), run again with all its steps "
            f"done, {faults[0]}"
        ) from error


class ReplayedSteps(Steps):
    """The steps that the job has done. There are no others."""

    job: "ReplayedJob"

    def is_done(self, name: str) -> bool:
        if super().is_done(name):
            return True
        self.job.faults.append(
            f"calls {name!r}, which it had not done. Each stretch must come to the "
            "same steps and waits, by the same names."
        )
        raise AssertionError(self.job.faults[-1])


class ReplayedJob(RunningJob):
    """What `current_job()` returns in a replay."""

    faults: list[str]


class ReplayedExecution(CallerExecution):
    """An attempt of a job that has ended, which nothing claims and nothing records."""

    running: ReplayedJob
    running_class = ReplayedJob

    def __init__(self, *arguments: Any):
        super().__init__(*arguments)
        self.faults = self.running.faults = []
        self.running.steps = ReplayedSteps(self.running)

    def announce(self) -> None:
        """Send no signal: the job has ended."""

    def outcome(self) -> Ended:
        __tracebackhide__ = True
        database, job = settings.DATABASE, self.job
        self.running.steps.results = results_of(database, job.id, job.life)
        with guarded(self.faults):
            blocks = connections[database].atomic_blocks
            self.running.outer_blocks = len(blocks)
            hooks = CommitHooks()
            try:
                return super().outcome()
            finally:
                hooks.run()


@contextmanager
def guarded(faults: list[str]) -> Iterator[None]:
    """Let the block change no database, and add what it tried to the faults."""
    with ExitStack() as stack:
        for connection in usable_connections():
            stack.enter_context(read_only(connection))
            stack.enter_context(remembering(connection, faults))
        outbox = getattr(mail, "outbox", [])
        before = len(outbox)
        try:
            yield
        finally:
            faults += [
                f"sends the mail {each.subject!r}. {CURE}" for each in outbox[before:]
            ]
            del outbox[before:]


def usable_connections() -> list[BaseDatabaseWrapper]:
    """Return the connections to PostgreSQL that the test may use."""
    return [
        each
        for each in connections.all()
        if each.vendor == "postgresql"
        and not isinstance(each.connect, _DatabaseFailure)
    ]


@contextmanager
def read_only(connection: BaseDatabaseWrapper) -> Iterator[None]:
    """Let the server refuse what writes, in a block that is rolled back."""
    with savepoint(connection.alias):
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION READ ONLY")
        try:
            yield
        finally:
            transaction.set_rollback(True, using=connection.alias)


@contextmanager
def remembering(connection: BaseDatabaseWrapper, faults: list[str]) -> Iterator[None]:
    """Note what the server refuses, also where the block swallows the error.

    Each call of the driver goes through its `wait`: those of Django, of a raw cursor
    and of COPY.
    """
    raw = connection.connection

    def wait(generator: Any, *arguments: Any, **options: Any) -> Any:
        text = statement_of(generator)
        try:
            return type(raw).wait(raw, generator, *arguments, **options)
        except ReadOnlySqlTransaction as error:
            faults.append(fault(error, text, connection.alias))
            raise

    raw.wait = wait
    try:
        yield
    finally:
        del raw.wait


def statement_of(generator: Any) -> str:
    """Return the text of the statement that the driver is about to send."""
    frame = getattr(generator, "gi_frame", None)
    names = frame.f_locals if frame is not None else {}
    text = names.get("query") or names.get("statement") or ""
    return text.decode() if isinstance(text, bytes) else str(text)


def fault(error: ReadOnlySqlTransaction, text: str, alias: str) -> str:
    refused = error.diag.message_primary or ""
    why = CURE
    if "SELECT FOR" in refused:
        why = (
            "A locking read counts as a write: what it protects is a change, and that "
            "belongs into the same step."
        )
    return f"is refused a statement on {alias!r} ({refused}): {text.strip()}\n{why}"
