"""Middleware for telemetry: it watches each attempt. What it raises is only logged."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ...exceptions import Cancel, Interruption, Snooze, Suspended, TaskTimeout
from ...queue.observing import call_safely
from ...tasks.middleware import Middleware
from ...tasks.running_job import RunningJob

# Called with what ended the attempt, or None.
Finish = Callable[[BaseException | None], None]
Start = Callable[[RunningJob], Finish]


def watching(start: Start) -> Middleware:
    """Return middleware that calls `start`, and then what that returns."""

    @contextmanager
    def watch(job: RunningJob) -> Iterator[None]:
        finish = call_safely(start, job)
        try:
            yield
        except BaseException as error:
            if finish:
                # An exception group may have what suspends the job.
                call_safely(finish, job.suspended or error)
            raise
        if finish:
            call_safely(finish, job.suspended)  # the task may have swallowed it

    return watch


def is_failure(error: BaseException | None) -> bool:
    """Whether an attempt failed, rather than being put off or cancelled."""
    if error is None or isinstance(error, Snooze | Cancel | Suspended):
        return False
    return isinstance(error, TaskTimeout) or not isinstance(error, Interruption)
