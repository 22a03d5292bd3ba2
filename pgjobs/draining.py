"""`drain`: run what is READY in this process, then return."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from django.db import connections

from .conf import settings

if TYPE_CHECKING:
    from .worker.observer import AttemptEnd


def drain(
    *,
    queues: Sequence[str] | None = None,
    concurrency: int | None = None,
    database: str | None = None,
) -> int:
    """Run jobs until none is READY; return how many of them have ended.

    It also runs jobs that become READY meanwhile. It does not wait for jobs that are
    due later.

    - `queues`: names of queues. None, the default, means all.
    - `concurrency`: how many jobs run at a time. The default is PGJOBS["CONCURRENCY"].
    - `database`: the alias of the database. The default is PGJOBS["DATABASE"].

    Raises RuntimeError inside a transaction, and if the database is lost for good.
    Raises ImproperlyConfigured if PGJOBS["MODE"] wants no worker.
    """
    # Models cannot be imported before the apps are ready. This package must be.
    from .worker import ExitCode, Loop, WorkerOptions
    from .worker.observer import RunStats, WorkerObserver

    class Counting(WorkerObserver):
        def __init__(self) -> None:
            self.stats = RunStats()

        def recorded(self, ends: "Sequence[AttemptEnd]") -> None:
            self.stats.count_all(ends)

    database = database or settings.DATABASE
    if connections[database].in_atomic_block:
        raise RuntimeError(
            "drain() inside a transaction would not see what this has enqueued: other "
            "connections run the jobs. In a test, call pgjobs.testing.run_jobs(), "
            "which runs them on this connection. Or let the test commit: "
            "TransactionTestCase, or @pytest.mark.django_db(transaction=True)."
        )
    options = WorkerOptions(
        database=database,
        drain=True,
        queues=None if queues is None else tuple(queues),
        slots=settings.CONCURRENCY if concurrency is None else concurrency,
    )
    observer = Counting()
    if Loop(options, observer).run() == ExitCode.LOST:
        raise RuntimeError("The database was lost while draining.")
    return observer.stats.completed
