"""What the end of an attempt means for its job: verdicts, reasons and tracebacks."""

import logging
import os
import sys
import threading
import traceback
from collections.abc import Callable, Iterable
from functools import partial
from types import FrameType, TracebackType
from typing import Any

from ... import features
from ...base.texts import in_a_log, storable
from ...exceptions import (
    Cancel,
    Fail,
    Retry,
    Snooze,
    Suspended,
    TaskCancelled,
    non_negative_seconds,
)
from ...features import modules
from ...queue.claiming import ClaimedJob
from ...queue.recording import Unsuccessful
from ...tasks.options import Options

logger = logging.getLogger("pgjobs.job")

Hide = Callable[[str], str]

LONGEST_CLASS = 1_000
LONGEST_REASON = 1_000
LONGEST_MESSAGE = 10_000
LONGEST_TRACEBACK = 32_000
OWN_DIRECTORY = os.path.dirname(__file__)
# Of what it calls for a task of a feature, as for one of django.tasks.
FEATURES = os.path.dirname(features.__file__)


def outcome_of(
    job: ClaimedJob, options: Options, error: BaseException, hide: Hide = str
) -> Unsuccessful:
    """Return what the error that ended the attempt means for the job."""
    ended = partial(unsuccessful, job, hide=hide)
    match error:
        case Snooze():
            return ended(error.verdict, str(error), delay=error.delay)
        case Cancel() | TaskCancelled():
            return ended("CANCEL", str(error))
        case Suspended():
            suspended = ended("SUSPEND", str(error))
            return suspended._replace(statement=error.statement, stores=error.stores)
        case Fail():
            return ended("FAIL", str(error), error)
        case Retry() if error.after is not None:
            return ended("RETRY", str(error), error, error.after)
    is_asked = isinstance(error, Retry)
    reason = str(error) if is_asked else describe(error)
    goes_on = is_asked or options.retries(error)
    delay = backoff_of(job, options, error) if goes_on else None
    if delay is None:
        return ended("FAIL", reason, error)
    return ended("RETRY", reason, error, delay)


def backoff_of(job: ClaimedJob, options: Options, error: BaseException) -> float | None:
    """Return the seconds to wait before the next attempt; None if there is none."""
    try:
        return options.wait_after(job, error)
    except BaseException:
        logger.exception(
            "Backoff of task=%s failed, using the default", in_a_log(job.task)
        )
        return Options().backoff(job.failures + 1)


def unsuccessful(
    job: ClaimedJob,
    verdict: str,
    reason: str,
    error: BaseException | None = None,
    delay: float = 0.0,
    hide: Hide = str,
) -> Unsuccessful:
    """Return an outcome. `hide` masks what its texts quote, before they are cut."""
    reason = hide(reason)
    return Unsuccessful(
        id=job.id,
        lease_token=job.lease_token,
        verdict=verdict,
        reason=storable(reason, LONGEST_REASON),
        delay=non_negative_seconds("delay", delay),
        exception_class="" if error is None else class_path(error),
        message=storable(reason, LONGEST_MESSAGE),
        traceback="" if error is None else traceback_text(error, hide),
        error=error,
        **({} if error is None else details_of(job.task, error, reason)),
    )


def details_of(task: str, error: BaseException, message: str) -> dict[str, Any]:
    """Return what features say of a failure: further fields of its outcome."""
    extras = (module.details_of(task, error, message) for module in modules("failure"))
    return {name: value for extra in extras for name, value in extra._asdict().items()}


def class_path(error: BaseException) -> str:
    cls = type(error)
    module = "" if cls.__module__ == "builtins" else f"{cls.__module__}."
    return storable(f"{module}{cls.__qualname__}", LONGEST_CLASS)


def describe(error: BaseException) -> str:
    """Return class and message of an error, whatever its `__str__` does."""
    try:
        message = str(error)
    except BaseException as broken:  # noqa: BLE001  (storing an error cannot fail)
        message = f"<its message raises {type(broken).__name__}>"
    name = type(error).__name__
    return f"{name}: {message}" if message else name


def traceback_text(error: BaseException, hide: Hide = str) -> str:
    """Return the traceback from the task's own frame on, bounded."""
    try:
        lines = traceback.format_exception(
            type(error), error, own_frames(error.__traceback__), limit=-100
        )
        return storable(hide("".join(lines)), LONGEST_TRACEBACK)
    except BaseException as broken:  # noqa: BLE001  (storing an error cannot fail)
        return f"<the traceback cannot be formatted: {type(broken).__name__}>"


def own_frames(frames: TracebackType | None) -> TracebackType | None:
    """Skip the worker's frames: the task's author looks for their own."""
    while frames and frames.tb_next and is_worker_code(frames.tb_frame):
        frames = frames.tb_next
    return frames


def is_worker_code(frame: FrameType) -> bool:
    directory = os.path.dirname(frame.f_code.co_filename)
    return directory == OWN_DIRECTORY or os.path.dirname(directory) == FEATURES


def thread_stack(thread: threading.Thread | None) -> str:
    """Return where a thread is at the moment, outermost first."""
    frame = None if thread is None else sys._current_frames().get(thread.ident or 0)
    if frame is None:
        return ""
    frames = (caller for caller, _ in reversed(list(traceback.walk_stack(frame))))
    return stack_text(frames)


def coroutine_stack(coroutine) -> str:
    """Return where a coroutine waits, outermost first."""
    frames = []
    while (frame := getattr(coroutine, "cr_frame", None)) is not None:
        frames.append(frame)
        coroutine = coroutine.cr_await
    return stack_text(frames)


def stack_text(frames: Iterable[FrameType]) -> str:
    """Return the frames that are not the worker's own as text, bounded."""
    lines = traceback.StackSummary.extract(
        ((frame, frame.f_lineno) for frame in frames if not is_worker_code(frame)),
        limit=-100,
    ).format()
    return storable("".join(lines), LONGEST_TRACEBACK)
