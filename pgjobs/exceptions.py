"""Everything that pgjobs raises, and what a task may raise to steer its job."""

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.core.exceptions import ImproperlyConfigured

if TYPE_CHECKING:
    from .models import Job


class InvalidTask(ImproperlyConfigured, ValueError):
    """The declaration of a task, or an option given to it, cannot work.

    It is a ValueError, as InvalidArguments and InvalidEvent are. So one `except`
    catches all mistakes of a caller.
    """


class InvalidArguments(ValueError):
    """The arguments do not fit the task.

    `faults`: {parameter: what is wrong with its argument}.
    """

    def __init__(self, task_name: str, faults: dict[str, str]):
        self.task_name = task_name
        self.faults = faults
        listed = "; ".join(f"{name}: {fault}" for name, fault in faults.items())
        super().__init__(f"Invalid arguments for {task_name}: {listed}.")


class InvalidEvent(ValueError):
    """The name, payload or another argument of an event cannot be published."""


class AmbiguousDatabase(InvalidTask):
    """It is not clear which of several databases a job or an event belongs to."""


class AlreadyEnqueued(Exception):
    """Another job holds the unique key.

    `job`: that job.
    """

    def __init__(self, job: "Job"):
        self.job = job
        super().__init__(
            f"Job {job.pk} ({job.task}) already holds the unique key "
            f"{job.unique_key!r}."
        )


class EncryptionError(ImproperlyConfigured):
    """A value cannot be encrypted or opened: a key is missing, or it was changed."""


class UnknownTask(LookupError):
    """No task of that name is registered in this process."""

    def __init__(self, name: str, meant: str | None = None):
        self.name, self.meant = name, meant
        cure = f" Did you mean '{meant}'?" if meant else ""
        super().__init__(f"No task registered as '{name}'.{cure}")


class JobFailed(Exception):
    """The job that was waited for ended FAILED."""


class JobCancelled(Exception):
    """The job that was waited for ended CANCELLED."""


class ResultGone(Exception):
    """The job that was waited for has ended, and its row is gone: `keep="failed"`."""


class WorkerLost(Exception):
    """The worker died under the job; results of `django.tasks` show it so."""


class MemoryLimitExceeded(Exception):
    """The process of an isolated job took more bytes than its task allows."""

    def __init__(self, taken: int, limit: int):
        self.taken, self.limit = taken, limit
        super().__init__(f"took {taken / 1e6:.0f} MB of {limit / 1e6:.0f} MB")


class RemoteError(Exception):
    """What an isolated task has raised in its process, as texts."""

    def __init__(self, class_path: str, text: str, traceback: str):
        self.class_path, self.text, self.traceback = class_path, text, traceback
        super().__init__(text)


class LeaseLost(Exception):
    """The job no longer belongs to its worker: it was rescued, ended or deleted."""

    def __init__(self, id: int):
        self.id = id
        super().__init__(f"Job {id} is not this worker's any more; its end is void.")


class DatabaseLost(Exception):
    """The worker could not reach its database for so long that it ends."""


class Interruption(BaseException):
    """Raised by the worker inside a running task to end it.

    It is a BaseException and no Exception, so that `except Exception` in a task does
    not catch it by accident.
    """

    default = ""

    def __str__(self) -> str:
        return super().__str__() or self.default


class TaskTimeout(Interruption):
    """The task ran longer than its time limit. The attempt has failed."""

    default = "The time limit is over."


class TaskCancelled(Interruption):
    """The running job was asked to stop. It ends CANCELLED."""

    default = "The job was asked to stop."


class Suspended(BaseException):
    """Raised by a call that sleeps or waits: the task goes on later, from its top.

    It is a BaseException and no Exception, so that `except Exception` in a task does
    not catch it by accident. Let it through.

    - `statement`: the name of the statement that stores it.
    - `stores`: what that statement is given.
    """

    def __init__(self, reason: str, statement: str, stores: dict[str, Any]) -> None:
        self.statement = statement
        self.stores = stores
        super().__init__(reason)


class ControlFlow(Exception):
    """Base of what a task raises to decide how its job goes on."""


class Retry(ControlFlow):
    """Raised by a task: this attempt has failed, try again (within max_attempts).

    - `after`: seconds or a timedelta to wait. None asks the task's backoff.
    - `reason`: a text for people, which the job shows.

    Raises ValueError if `after` is no duration.
    """

    def __init__(
        self, after: float | timedelta | None = None, reason: str = ""
    ) -> None:
        self.after = None if after is None else non_negative_seconds("after", after)
        self.reason = reason
        super().__init__(reason or "The task asked to be retried.")


class Fail(ControlFlow):
    """Raised by a task: the job has failed for good, whatever attempts are left.

    `reason`: a text for people, which the job shows.
    """

    def __init__(self, reason: str = "") -> None:
        self.reason = reason
        super().__init__(reason or "The task gave up.")


class InvalidStep(Fail):
    """A step was called in a way that cannot work, or its result cannot be stored.

    The job fails for good, because another attempt could repeat an unmarked step.
    """


class Snooze(ControlFlow):
    """Raised by a task: run the job again after `delay`; nothing has failed.

    `delay`: seconds or a timedelta. Raises ValueError if it is no duration.
    """

    verdict = "SNOOZE"  # of the worker

    def __init__(self, delay: float | timedelta) -> None:
        self.delay = non_negative_seconds("delay", delay)
        super().__init__(f"The task snoozed for {self.delay:g} s.")


class Cancel(ControlFlow):
    """Raised by a task: the job is not needed any more. It ends CANCELLED.

    `reason`: a text for people, which the job shows.
    """

    def __init__(self, reason: str = "") -> None:
        self.reason = reason
        super().__init__(reason or "The task cancelled itself.")


# A hundred years. PostgreSQL's intervals overflow not far beyond.
LONGEST_DELAY = timedelta(days=365 * 100).total_seconds()


def non_negative_seconds(name: str, value: float | timedelta) -> float:
    """Return a duration as seconds; raise ValueError for anything else."""
    if isinstance(value, timedelta):
        value = value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{name} must be seconds or a timedelta, got {value!r}.")
    if not 0 <= value <= LONGEST_DELAY:  # also refuses NaN
        raise ValueError(f"{name} must be between 0 s and 100 years, got {value!r}.")
    return float(value)
