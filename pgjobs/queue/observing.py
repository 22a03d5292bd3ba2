"""What other modules do around each insertion of jobs, such as tracing it."""

import logging
from collections.abc import Callable, Sequence
from typing import Any

from .new_job import NewJob

logger = logging.getLogger("pgjobs.telemetry")

# Called with the jobs that were inserted, or with the error that prevented it.
Finish = Callable[[Sequence[Any], BaseException | None], None]
Start = Callable[[Sequence[NewJob]], Finish]
observers: list[Start] = []


def observe_insert(
    new_jobs: Sequence[NewJob], insert: Callable[[], Sequence[Any]]
) -> Any:
    """Return what `insert` returns; whatever watches it changes nothing."""
    finishes = [
        finish for start in observers if (finish := call_safely(start, new_jobs))
    ]
    try:
        jobs = insert()
    except BaseException as error:
        for finish in reversed(finishes):
            call_safely(finish, (), error)
        raise
    for finish in reversed(finishes):
        call_safely(finish, jobs, None)
    return jobs


def call_safely(function: Callable, *arguments: Any) -> Any:
    """Call a function of telemetry; log what it raises, and return None then."""
    try:
        return function(*arguments)
    except Exception:
        name = f"{function.__module__}.{function.__qualname__}"
        logger.exception("Telemetry function=%s failed", name)
        return None
