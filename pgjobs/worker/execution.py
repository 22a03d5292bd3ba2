"""One execution of one job: everything that can happen becomes an outcome."""

import asyncio
import contextlib
import logging
import traceback
from types import TracebackType

from django.conf import settings as django_settings
from django.db import connections, reset_queries

from .. import signals
from ..arguments import Stored
from ..context import ReportDesk, RunningJob, current
from ..exceptions import (
    Cancel,
    Fail,
    InvalidArguments,
    InvalidTask,
    Retry,
    Snooze,
    UnknownTask,
    non_negative_seconds,
)
from ..models import Job
from ..models.transitions import result_text
from ..models.work import ClaimedJob, Outcome, Setback, Success
from ..tasks import Options, Task, registry
from ..texts import storable

logger = logging.getLogger("pgjobs.job")

LONGEST_REASON = 1_000
LONGEST_MESSAGE = 10_000
LONGEST_TRACEBACK = 32_000
UNKNOWN_TASK_DELAY = 10.0  # seconds until a worker looks again whether it knows it


def execute(job: ClaimedJob, desk: ReportDesk) -> Outcome:
    """Run the job here and now; never raises."""
    running = RunningJob(
        id=job.id,
        task_name=job.task,
        queue_name=job.queue_name,
        attempt=job.attempt,
        max_attempts=job.max_attempts,
        life=job.life,
        lease_token=job.lease_token,
        enqueued_at=job.enqueued_at,
        desk=desk,
    )
    reset = current.set(running)
    try:
        return outcome_of(job)
    except BaseException as error:  # noqa: BLE001  (a slot without thread is lost)
        return setback(job, "FAIL", describe(error), error)
    finally:
        current.reset(reset)
        clean_connections()


def outcome_of(job: ClaimedJob) -> Outcome:
    try:
        task = registry.get(job.task)
    except UnknownTask as error:
        return setback(job, "UNKNOWN", str(error), delay=UNKNOWN_TASK_DELAY)
    try:
        args, kwargs = task.signature.load(Stored(job.args, job.kwargs))
    except (InvalidArguments, InvalidTask) as error:
        return setback(job, "FAIL", str(error), error)
    try:
        started(job)
        return_value = call(task, args, kwargs)
    except BaseException as error:  # noqa: BLE001  (SystemExit, too, is a failed job)
        return setback_of(job, task.options, error)
    try:
        return Success(job.id, job.lease_token, result_text(return_value))
    except BaseException as error:  # noqa: BLE001  (a result's own methods run here)
        why = str(error) if isinstance(error, ValueError) else describe(error)
        return setback(job, "FAIL", f"The result cannot be stored: {why}.", error)


def call(task: Task, args: tuple, kwargs: dict):
    if task.is_async:
        return asyncio.run(task.function(*args, **kwargs))
    return task.function(*args, **kwargs)


def started(job: ClaimedJob) -> None:
    if logger.isEnabledFor(logging.INFO):
        logger.info(
            "Job id=%s task=%s attempt=%s started",
            job.id,
            job.task,
            job.attempt,
            extra={"job_id": job.id, "task": job.task, "queue": job.queue_name},
        )
    if signals.job_started.has_listeners(Job):
        instance = Job.objects.filter(pk=job.id).first()
        if instance is not None:
            signals.send(signals.job_started, Job, job=instance)


def setback_of(job: ClaimedJob, options: Options, error: BaseException) -> Setback:
    """Return what the error that ended the attempt means for the job."""
    match error:
        case Snooze():
            return setback(job, "SNOOZE", str(error), delay=error.delay)
        case Cancel():
            return setback(job, "CANCEL", str(error))
        case Fail():
            return setback(job, "FAIL", str(error), error)
        case Retry():
            delay = error.after
            if delay is None:
                delay = backoff_of(job, options)
            return setback(job, "RETRY", str(error), error, delay=delay)
    if not options.retries(error):
        return setback(job, "FAIL", describe(error), error)
    return setback(job, "RETRY", describe(error), error, backoff_of(job, options))


def backoff_of(job: ClaimedJob, options: Options) -> float:
    """Return the seconds to wait before the next attempt."""
    failures = job.failures + 1
    try:
        return non_negative_seconds("backoff", options.backoff(failures))
    except BaseException:
        logger.exception("Backoff of task=%s failed, using the default", job.task)
        return Options().backoff(failures)


def setback(
    job: ClaimedJob,
    verdict: str,
    reason: str,
    error: BaseException | None = None,
    delay: float = 0.0,
) -> Setback:
    return Setback(
        id=job.id,
        lease_token=job.lease_token,
        verdict=verdict,
        reason=storable(reason, LONGEST_REASON),
        delay=non_negative_seconds("delay", delay),
        exception_class="" if error is None else class_path(error),
        message=storable(reason, LONGEST_MESSAGE),
        traceback="" if error is None else traceback_text(error),
    )


def describe(error: BaseException) -> str:
    """Return class and message of an error, whatever its `__str__` does."""
    try:
        message = str(error)
    except BaseException as broken:  # noqa: BLE001  (storing an error cannot fail)
        message = f"<its message raises {type(broken).__name__}>"
    name = type(error).__name__
    return f"{name}: {message}" if message else name


def class_path(error: BaseException) -> str:
    cls = type(error)
    module = "" if cls.__module__ == "builtins" else f"{cls.__module__}."
    return storable(f"{module}{cls.__qualname__}", LONGEST_REASON)


def traceback_text(error: BaseException) -> str:
    """Return the traceback from the task's own frame on, bounded."""
    try:
        lines = traceback.format_exception(
            type(error), error, own_frames(error.__traceback__), limit=-100
        )
        return storable("".join(lines), LONGEST_TRACEBACK)
    except BaseException as broken:  # noqa: BLE001  (storing an error cannot fail)
        return f"<the traceback cannot be formatted: {type(broken).__name__}>"


def own_frames(frames: TracebackType | None) -> TracebackType | None:
    """Leave out the frames of this module: the task's author looks for his own."""
    while frames and frames.tb_next and frames.tb_frame.f_code.co_filename == __file__:
        frames = frames.tb_next
    return frames


def clean_connections() -> None:
    """Leave this thread's database connections fit for the next job."""
    if django_settings.DEBUG:
        reset_queries()
    for connection in connections.all(initialized_only=True):
        if connection.connection is None:
            continue
        try:
            left_open = connection.in_atomic_block or not connection.get_autocommit()
            if left_open:
                drop(connection)
            else:
                connection.close_if_unusable_or_obsolete()
        except Exception:
            logger.exception("Connection alias=%s is dropped", connection.alias)
            drop(connection)


def drop(connection) -> None:
    """Forget a connection whose job left a transaction open, and what it did there."""
    del connections[connection.alias]
    with contextlib.suppress(Exception):
        connection.connection.close()
