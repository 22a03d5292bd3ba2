"""`enqueued`, `assert_enqueued` and `refute_enqueued`: what is in the queue."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from ..models import Job
from ..models.job_choices import QUEUED
from ..tasks.task import Task
from .differences import missing_text, unwanted_text
from .expectations import TOLERANCE, Expected, expected_job
from .seen import seen_jobs

AnyTask = Task[Any, Any, Any] | str | None


def enqueued(
    task: AnyTask = None,
    /,
    *args: Any,
    queue_name: str | None = None,
    run_after: datetime | timedelta | None = None,
    tolerance: float | timedelta = TOLERANCE,
    priority: int | None = None,
    arguments: Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> list[Job]:
    """Return the jobs in the queue that are like this, in the order of their ids.

    In the queue are jobs that are READY, SCHEDULED or WAITING. A project with queues in
    several databases has the jobs of all of them here.

    - `task`: or its name; by default any. Of its arguments name those that matter, in
      `arguments` if they are called like an option here. `unittest.mock.ANY` fits all.
    - `args`, `kwargs`: the same, as in the call of `enqueue`.
    - `queue_name`, `priority`: by default any.
    - `run_after`: a moment, or a timedelta from when the job was enqueued. The job's
      may differ from it by `tolerance`, in seconds or as a timedelta.

    Raises InvalidArguments for arguments that the task cannot have, InvalidTask for an
    unknown task, and ValueError for a `run_after` that is no moment.
    """
    expected = expected_job(
        task,
        args,
        kwargs,
        arguments,
        queue_name=queue_name,
        run_after=run_after,
        tolerance=tolerance,
        priority=priority,
    )
    return fitting(expected)


def assert_enqueued(
    task: AnyTask = None,
    /,
    *args: Any,
    queue_name: str | None = None,
    run_after: datetime | timedelta | None = None,
    tolerance: float | timedelta = TOLERANCE,
    priority: int | None = None,
    count: int | None = None,
    arguments: Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> Job:
    """Raise AssertionError unless the queue has a job like this; return the first one.

    `count`: the exact number of such jobs. See `enqueued` for the rest. Raises
    ValueError for a `count` below 1.
    """
    __tracebackhide__ = True  # pytest shows the line of the test
    if count is not None and count < 1:
        raise ValueError(f"count must be at least 1, got {count!r}: refute_enqueued().")
    expected = expected_job(
        task,
        args,
        kwargs,
        arguments,
        queue_name=queue_name,
        run_after=run_after,
        tolerance=tolerance,
        priority=priority,
    )
    jobs = fitting(expected)
    if not jobs or count not in (None, len(jobs)):
        raise AssertionError(missing_text(expected, jobs, count))
    return jobs[0]


def refute_enqueued(
    task: AnyTask = None,
    /,
    *args: Any,
    queue_name: str | None = None,
    run_after: datetime | timedelta | None = None,
    tolerance: float | timedelta = TOLERANCE,
    priority: int | None = None,
    arguments: Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> None:
    """Raise AssertionError if the queue has a job like this.

    Without arguments, any job is one too many. See `enqueued` for what is compared.
    """
    __tracebackhide__ = True
    expected = expected_job(
        task,
        args,
        kwargs,
        arguments,
        queue_name=queue_name,
        run_after=run_after,
        tolerance=tolerance,
        priority=priority,
    )
    if jobs := fitting(expected):
        raise AssertionError(unwanted_text(expected, jobs))


def fitting(expected: Expected) -> list[Job]:
    return [job for job in seen_jobs(QUEUED) if expected.fits(job)]
