"""The job that runs here: what `current_job()` returns inside a task."""

import sys
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from datetime import datetime
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from django.utils import timezone

from ..base.plain_json import shortened
from ..base.texts import storable
from ..exceptions import Suspended, TaskCancelled
from ..features import entries
from . import tables

if TYPE_CHECKING:
    from ..models import Batch

R = TypeVar("R")

LONGEST_MESSAGE = 500
LONGEST_LINE = 2_000
PROGRESS = ("done", "total", "message")
MOST_LINES = 1_000  # kept between two writes; older ones are dropped


class ReportHost(Protocol):
    """The executor, as a running job sees it."""

    def reported(self, job: Any) -> None: ...

    def still_owned(self, job: Any) -> bool: ...


class PublishedEvent(NamedTuple):
    """The event that a job delivers.

    - `id`, `name`, `published_at`: as the event has them.
    - `payload`: a dict, as it was published.
    - `aggregate_id`, `correlation_id`: texts that the publisher gave, or None.
    """

    id: int
    name: str
    payload: dict[str, Any]
    published_at: datetime
    aggregate_id: str | None
    correlation_id: str | None


class OwnRunningJob:
    """The running job, but for what features add to it."""

    def __init__(
        self,
        *,
        id: int,
        task_name: str,
        queue_name: str,
        attempt: int,
        max_attempts: int,
        life: int,
        lease_token: int,
        enqueued_at: datetime,
        host: ReportHost,
        meta: dict[str, Any] | None = None,
        resumed: str | None = None,
    ):
        self.id = id
        self.task_name = task_name
        self.queue_name = queue_name
        self.attempt = attempt
        self.max_attempts = max_attempts
        self.life = life
        self.lease_token = lease_token
        self.enqueued_at = enqueued_at
        self.meta = meta or {}  # what the job took along from where it was enqueued
        self.resumed = resumed  # what it did before, as the claim of a feature says
        self.keeps_level: int | None = None  # from which on log records are kept
        # Masks what the job's sensitive arguments are in texts that it writes.
        self.hide: Callable[[str], str] = str
        self.cancel_requested = False  # whether the job was asked to stop
        # Raised by a call that suspends the job. Whoever swallows it gets it again.
        self.suspended: Suspended | None = None
        self._host = host
        # Transactions that were open before the job began. In a test there may be some.
        self.outer_blocks = 0
        self._lock = Lock()
        self._progress: dict[str, Any] | None = None
        self._lines: list[str] = []

    @cached_property
    def key(self) -> str:
        """Return a key for idempotent calls: the same for all attempts of one life.

        A life that kept steps of another one has its key, too: one query.
        """
        return f"{self.id}:{self.first_life if self.life > 1 else 1}"

    @property
    def first_life(self) -> int:
        """The life whose steps this one has kept, or itself: of a feature."""
        return self.life

    def progress(
        self, done: float, total: float | None = None, message: str = ""
    ) -> None:
        """Show how far the job is, at once, also inside a transaction.

        - `done`, `total`: numbers; without a total no percentage is shown.
        - `message`: a text for people.

        Writes are throttled. Of several calls in a row the last one is stored. Raises
        ValueError for amounts that are no finite numbers.
        """
        check_amount("done", done)
        if total is not None:
            check_amount("total", total)
        with self._lock:
            self._progress = {
                "done": done,
                "total": total,
                "message": storable(self.hide(str(message)), LONGEST_MESSAGE),
            }
        self._host.reported(self)

    def log(self, text: str) -> None:
        """Add a line to the job's log, which its page in the admin shows.

        `text`: one line. A long one is cut, and of many the latest are kept.
        """
        now = timezone.now().isoformat(sep=" ", timespec="milliseconds")
        line = f"{now} {storable(self.hide(str(text)), LONGEST_LINE)}"
        with self._lock:
            self._lines.append(line)
            del self._lines[:-MOST_LINES]
        self._host.reported(self)

    def check_cancelled(self) -> None:
        """Raise TaskCancelled if the job was asked to stop."""
        if self.cancel_requested:
            raise TaskCancelled

    def still_owned(self) -> bool:
        """Ask the database whether the job is still this worker's: one query.

        It returns False if the worker was taken for dead, or the job was ended or
        deleted. Then whatever this attempt still does is void.
        """
        return self._host.still_owned(self)

    def step(
        self,
        name: str,
        function: Callable[..., R],
        /,
        *args: Any,
        atomic: bool = False,
        **kwargs: Any,
    ) -> R:
        """Call the `function`, once in this life of the job; return its result.

        Later attempts get the stored result, which must be JSON.

        - `name`: each call in a job needs another one.
        - `args`, `kwargs`: the arguments of the function.
        - `atomic`: what the function does in the queue's database commits together with
          the mark that the step is done. Without it, a crash between the two makes the
          next attempt repeat the step.

        Raises InvalidStep, and LeaseLost if the job no longer belongs to this worker.
        """
        return self.steps.run(name, function, args, kwargs, atomic)

    async def astep(
        self,
        name: str,
        function: Callable[..., Awaitable[R]] | Callable[..., R],
        /,
        *args: Any,
        atomic: bool = False,
        **kwargs: Any,
    ) -> R:
        """Call or await the function, once in this life of the job; see `step`.

        Returns its result.
        """
        return await self.steps.arun(name, function, args, kwargs, atomic)

    @cached_property
    def seconds_left(self) -> float | None:
        """The seconds in which the whole job must end, if a feature bounds its life."""
        return None

    @cached_property
    def batch(self) -> "Batch | None":
        """Return the batch that the job belongs to, or None: one query.

        `task.using(batch=current_job().batch)` adds jobs to it.
        """
        return tables.Batch.objects.filter(jobs=self.id).first()

    @cached_property
    def steps(self) -> Any:
        """What the feature of this name makes for `step` and `astep`."""
        return dict(entries("running_job", "PARTS"))["steps"](self)

    def ends(self) -> None:
        """Let the steps, if the job has looked at them, say what is left of them."""
        if "steps" in vars(self):
            self.steps.log_unasked()

    @cached_property
    def event(self) -> PublishedEvent | None:
        """The event that the job delivers: one query at the first use."""
        return self.event_with(deliveries=self.id)

    def event_with(self, **conditions: Any) -> PublishedEvent | None:
        """Return the event of which this is true, if there is one."""
        events = tables.Event.objects.filter(**conditions)
        row = events.values_list(*PublishedEvent._fields).first()
        return row and PublishedEvent._make(row)

    def take_report(self) -> dict[str, Any] | None:
        """Return what was reported since the last call, for the worker to store."""
        with self._lock:
            progress, self._progress = self._progress, None
            lines, self._lines = self._lines, []
        if progress is None and not lines:
            return None
        return {
            "id": self.id,
            "lease_token": self.lease_token,
            **(progress or {}),
            "log": "".join(f"{line}\n" for line in lines),
        }

    def put_back(self, report: dict[str, Any]) -> None:
        """Take back a report that could not be stored; the next one contains it."""
        with self._lock:
            if self._progress is None and "done" in report:
                self._progress = {key: report[key] for key in PROGRESS}
            self._lines[:0] = report["log"].split("\n")[:-1]
            del self._lines[:-MOST_LINES]
        self._host.reported(self)


if TYPE_CHECKING:
    from ..signatures import RunningJobMethods
else:
    added = tuple(entries("running_job", "METHODS"))
    RunningJobMethods = type("RunningJobMethods", added, {})


class RunningJob(RunningJobMethods, OwnRunningJob):
    """The running job, as its own code sees it; `current_job()` returns it.

    - `id`, `task_name`, `queue_name`, `enqueued_at`: as the job has them.
    - `attempt`: the number of this attempt, from 1 on.
    - `max_attempts`: how many attempts may fail.
    - `life`: 1, and one more after each retry by an operator.
    - `meta`: what the job took along from where it was enqueued, a dict.
    - `cancel_requested`: whether the job was asked to stop.
    """


current: ContextVar[RunningJob] = ContextVar("pgjobs_current_job")


def current_job() -> RunningJob:
    """Return the job that runs here; raise RuntimeError outside of a job."""
    try:
        return current.get()
    except LookupError:
        raise RuntimeError(
            "current_job() was called outside of a job. A task that is called as a "
            "plain function has none."
        ) from None


def check_amount(name: str, value) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not 0 <= value <= sys.float_info.max:  # also refuses NaN
        raise ValueError(
            f"{name} must be a number of at least 0, got {shortened(value)}."
        )
