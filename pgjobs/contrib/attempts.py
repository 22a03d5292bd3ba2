"""Middleware for telemetry: it watches each attempt. What it raises is only logged."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ..exceptions import Cancel, Interruption, Snooze, TaskTimeout
from ..queue.sending import tried
from ..tasks.middleware import Middleware
from ..tasks.running_job import RunningJob

# Called with what ended the attempt, or None.
Finish = Callable[[BaseException | None], None]
Start = Callable[[RunningJob], Finish]


def watching(start: Start) -> Middleware:
    """Return middleware that calls `start`, and then what that returns."""

    @contextmanager
    def watch(job: RunningJob) -> Iterator[None]:
        finish = tried(start, job)
        try:
            yield
        except BaseException as error:
            if finish:
                tried(finish, error)
            raise
        if finish:
            tried(finish, None)

    return watch


def is_failure(error: BaseException | None) -> bool:
    """Whether an attempt failed, rather than being put off or cancelled."""
    if error is None or isinstance(error, Snooze | Cancel):
        return False
    return isinstance(error, TaskTimeout) or not isinstance(error, Interruption)
