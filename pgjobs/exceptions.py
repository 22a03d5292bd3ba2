"""Everything that pgjobs raises, and what a task may raise to steer its job."""

from datetime import timedelta
from typing import TYPE_CHECKING

from django.core.exceptions import ImproperlyConfigured

if TYPE_CHECKING:
    from .models import Job


class InvalidTask(ImproperlyConfigured, ValueError):
    """The declaration of a task, or an option given to it, cannot work.

    A ValueError, too, as InvalidArguments and InvalidEvent are: one `except` catches
    what a caller got wrong.
    """


class InvalidArguments(ValueError):
    """The arguments do not fit the task; `faults` maps each parameter to why."""

    def __init__(self, task_name: str, faults: dict[str, str]):
        self.task_name = task_name
        self.faults = faults
        listed = "; ".join(f"{name}: {fault}" for name, fault in faults.items())
        super().__init__(f"Invalid arguments for {task_name}: {listed}.")


class InvalidEvent(ValueError):
    """An event cannot be published so."""


class AlreadyEnqueued(Exception):
    """Another job holds the unique key; `job` is that job."""

    def __init__(self, job: "Job"):
        self.job = job
        super().__init__(
            f"Job {job.pk} ({job.task}) already holds the unique key "
            f"{job.unique_key!r}."
        )


class UnknownTask(LookupError):
    """No task of that name is registered in this process."""

    def __init__(self, name: str):
        self.name = name
        super().__init__(f"No task registered as '{name}'.")


class JobFailed(Exception):
    """The job that was waited for ended FAILED."""


class JobCancelled(Exception):
    """The job that was waited for ended CANCELLED."""


class WorkerLost(Exception):
    """The worker died under the job; results of `django.tasks` show it so."""


class LeaseLost(Exception):
    """The job was taken from its worker: rescued, ended by hand or deleted."""

    def __init__(self, id: int):
        self.id = id
        super().__init__(f"Job {id} is not this worker's any more; its end is void.")


class DatabaseLost(Exception):
    """The worker could not reach its database for so long that it gives up."""


class Interruption(BaseException):
    """What the worker raises inside a running task to end it.

    No Exception, so that `except Exception` in a task does not swallow it by accident.
    """

    default = ""

    def __str__(self) -> str:
        return super().__str__() or self.default


class TaskTimeout(Interruption):
    """The task ran longer than its time limit; a failed attempt like any other."""

    default = "The time limit is over."


class TaskCancelled(Interruption):
    """The running job was asked to stop; it ends CANCELLED."""

    default = "The job was asked to stop."


class ControlFlow(Exception):
    """What a task raises to say how its job goes on, rather than that it broke."""


class Retry(ControlFlow):
    """Raised by a task: this attempt failed, try again (within max_attempts).

    `after`: seconds or a timedelta to wait; None asks the task's backoff.
    """

    def __init__(
        self, after: float | timedelta | None = None, reason: str = ""
    ) -> None:
        self.after = None if after is None else non_negative_seconds("after", after)
        self.reason = reason
        super().__init__(reason or "The task asked to be retried.")


class Fail(ControlFlow):
    """Raised by a task: the job has failed for good, whatever attempts are left."""

    def __init__(self, reason: str = "") -> None:
        self.reason = reason
        super().__init__(reason or "The task gave up.")


class InvalidStep(Fail):
    """A step cannot be called so, or its result cannot be stored.

    The job fails for good: another attempt could do again what is not marked.
    """


class Snooze(ControlFlow):
    """Raised by a task: run the job again after `delay`; nothing has failed.

    `delay`: seconds or a timedelta.
    """

    def __init__(self, delay: float | timedelta) -> None:
        self.delay = non_negative_seconds("delay", delay)
        super().__init__(f"The task snoozed for {self.delay:g} s.")


class Cancel(ControlFlow):
    """Raised by a task: the job is not needed any more; it ends CANCELLED."""

    def __init__(self, reason: str = "") -> None:
        self.reason = reason
        super().__init__(reason or "The task cancelled itself.")


# PostgreSQL's interval arithmetic overflows not far beyond, and no job waits so long.
LONGEST_DELAY = timedelta(days=365 * 100).total_seconds()


def non_negative_seconds(name: str, value: float | timedelta) -> float:
    """Return a duration as seconds; raise ValueError if it is none."""
    if isinstance(value, timedelta):
        value = value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{name} must be seconds or a timedelta, got {value!r}.")
    if not 0 <= value <= LONGEST_DELAY:  # also refuses NaN
        raise ValueError(f"{name} must be between 0 s and 100 years, got {value!r}.")
    return float(value)
