"""Sentry: one event for each job that failed, spans of queues, and cron monitors.

    sentry_sdk.init(dsn=..., integrations=[PgJobsIntegration()])

Or `install()`, before or after `sentry_sdk.init()`.
"""

import logging
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import cache, partial
from time import monotonic
from typing import Any, cast
from uuid import NAMESPACE_URL, uuid5

import sentry_sdk
from django.utils.text import slugify
from sentry_sdk.crons import capture_checkin
from sentry_sdk.integrations import Integration
from sentry_sdk.integrations.logging import ignore_logger
from sentry_sdk.scope import should_send_default_pii

from ... import signals
from ...base.moments import instant
from ...exceptions import RemoteError
from ...queue import meta, observing
from ...queue.new_job import NewJob
from ...tasks import middleware
from ...tasks.running_job import RunningJob
from ..schedules import declare as schedules
from .attempts import is_failure, watching
from .scrubbing import FILTERED, Scrubber

logger = logging.getLogger("pgjobs.sentry")

HEADERS = ("sentry-trace", "baggage")
LONGEST_HEADER = 1_000
LONGEST_SLUG = 50


class PgJobsIntegration(Integration):
    """What `sentry_sdk.init(integrations=[...])` takes."""

    identifier = "pgjobs"

    @staticmethod
    def setup_once() -> None:
        install()


def install() -> None:
    """Report to Sentry from now on, with whatever client is initialised by then."""
    if start_sending in observing.observers:
        return
    observing.observers.append(start_sending)
    meta.added.append(trace_headers)
    middleware.added.append(watch_attempt)
    signals.job_failed.connect(report_failure, dispatch_uid="pgjobs.sentry")
    # It logs the same failures with their exceptions.
    ignore_logger("pgjobs.job")


def uninstall() -> None:
    """Report no more."""
    if start_sending not in observing.observers:
        return
    observing.observers.remove(start_sending)
    meta.added.remove(trace_headers)
    middleware.added.remove(watch_attempt)
    signals.job_failed.disconnect(dispatch_uid="pgjobs.sentry")


# Enqueueing


def trace_headers() -> dict[str, str]:
    """Return the present trace as jobs take it along."""
    found = {
        "sentry-trace": sentry_sdk.get_traceparent(),
        "baggage": sentry_sdk.get_baggage(),
    }
    return {k: v for k, v in found.items() if v and len(v) <= LONGEST_HEADER}


def start_sending(new_jobs: Sequence[NewJob]) -> observing.Finish:
    queues = {job.queue_name for job in new_jobs}
    tasks = {job.task for job in new_jobs}
    name = tasks.pop() if len(tasks) == 1 else f"{len(new_jobs)} jobs"
    stack = ExitStack()
    span = stack.enter_context(sentry_sdk.start_span(op="queue.publish", name=name))
    if len(queues) == 1:
        span.set_data("messaging.destination.name", queues.pop())
    size = sum(len(job.args) + len(job.kwargs) for job in new_jobs)
    span.set_data("messaging.message.body.size", size)

    def finish(jobs: Sequence[Any], error: BaseException | None) -> None:
        if len(jobs) == 1 and jobs[0] is not None:
            span.set_data("messaging.message.id", str(jobs[0].pk))
        stack.__exit__(type(error) if error else None, error, None)

    return finish


# Running


def start_attempt(job: RunningJob):
    stack = ExitStack()
    scope = stack.enter_context(sentry_sdk.isolation_scope())
    scope.set_tags({"pgjobs.task": job.task_name, "pgjobs.queue": job.queue_name})
    scope.add_event_processor(scrubbing(partial(Scrubber.of_attempt, job)))
    transaction = sentry_sdk.continue_trace(
        headers_of(job.meta), op="queue.process", name=job.task_name, source="task"
    )
    span = stack.enter_context(sentry_sdk.start_transaction(transaction))
    span.set_data("messaging.message.id", str(job.id))
    span.set_data("messaging.destination.name", job.queue_name)
    span.set_data("messaging.message.retry.count", job.attempt - 1)
    begun = monotonic()
    if job.attempt == 1:
        check_in(job.meta, key_of(job.id, job.life), "in_progress")

    def finish(error: BaseException | None) -> None:
        if error is None:
            seconds = monotonic() - begun
            check_in(job.meta, key_of(job.id, job.life), "ok", seconds)
        span.set_status("internal_error" if is_failure(error) else "ok")
        stack.close()

    return finish


watch_attempt = watching(start_attempt)


def headers_of(meta: dict[str, Any] | None) -> dict[str, str]:
    """Return the trace that a job took along."""
    found = {name: (meta or {}).get(name) for name in HEADERS}
    return {name: value for name, value in found.items() if isinstance(value, str)}


# Failures


def report_failure(
    sender: type, job: Any, error: BaseException | None = None, **named: Any
) -> None:
    """Send one event for a job that has failed for good.

    That of an isolated job was sent by its process, where the exception is.
    """
    if not isinstance(error, RemoteError):
        send_failure(job, error)


def report_isolated(job: Any, error: BaseException) -> None:
    """Send the event of a job in its process, if the project reports failures."""
    if start_sending in observing.observers:
        send_failure(job, error)


def flush(seconds: float) -> None:
    """Send what waits to be sent."""
    sentry_sdk.flush(seconds)


def send_failure(job: Any, error: BaseException | None) -> None:
    with sentry_sdk.isolation_scope() as scope:
        # Sentry's own integration with Django makes a span for each receiver, as this
        # one is. The failure belongs to the trace of the job.
        sentry_sdk.get_current_scope().span = None
        sentry_sdk.continue_trace(headers_of(job.meta))
        scope.add_event_processor(scrubbing(partial(Scrubber.of_job, job, error)))
        scope.set_transaction_name(job.task, source="task")
        scope.set_tags({"pgjobs.task": job.task, "pgjobs.queue": job.queue_name})
        scope.fingerprint = fingerprint_of(job, error)
        scope.set_context(
            "job",
            {
                "id": job.pk,
                "attempts": job.attempts,
                "failures": job.failures,
                "crashes": job.crashes,
                "enqueued_at": instant(job.enqueued_at).isoformat(),
                "arguments": masked(job),
            },
        )
        if error is not None:
            sentry_sdk.capture_exception(error)
        else:
            sentry_sdk.capture_message(f"{job.task}: {job.reason}", level="error")
    check_in(job.meta, key_of(job.pk, job.life), "error")


def fingerprint_of(job: Any, error: BaseException | None) -> list[str]:
    """Return the task and the class of its error, as the admin groups failures."""
    cls = type(error)
    name = "" if error is None else f"{cls.__module__}.{cls.__qualname__}"
    return ["pgjobs", job.task, name]


def masked(job: Any) -> dict[str, Any]:
    """Return the names of the arguments, with values if the client may send them.

    The scrubber masks what is sensitive among these.
    """
    if should_send_default_pii():
        return job.kwargs
    return dict.fromkeys(job.kwargs, FILTERED)


def scrubbing(make: Callable[[], Scrubber]) -> Callable[[Any, Any], Any]:
    """Return an event processor; it makes its scrubber with the first event."""
    made = cache(make)

    def process(event: Any, hint: Any) -> Any:
        try:
            return made().event(event)
        except Exception:
            # What cannot be scrubbed is not sent.
            logger.exception("An event for Sentry could not be scrubbed")
            return None

    return process


# Cron monitors


def check_in(
    meta: dict[str, Any] | None, key: str, status: str, seconds: float | None = None
) -> None:
    """Tell the monitor of the schedule that made a job how its run goes."""
    name = (meta or {}).get("schedule")
    if isinstance(name, str):
        capture_checkin(
            monitor_slug=slugify(name)[:LONGEST_SLUG] or "schedule",
            check_in_id=key,
            status=status,
            duration=seconds,
            monitor_config=cast(Any, monitor_of(name)),
        )


def key_of(id: int, life: int) -> str:
    """Return the id of a run's check-ins, which several processes may send."""
    return uuid5(NAMESPACE_URL, f"pgjobs:{id}:{life}").hex


def monitor_of(name: str) -> dict[str, Any] | None:
    """Return when Sentry shall expect runs, if the code declares the schedule."""
    for declared in schedules.declarations():
        if declared.name == name:
            when = declared.recurrence
            return {"schedule": expected(when), "timezone": when.timezone}
    return None


def expected(when: Any) -> dict[str, Any]:
    if when.cron:
        return {"type": "crontab", "value": when.cron}
    minutes = max(round(when.every.total_seconds() / 60), 1)
    return {"type": "interval", "value": minutes, "unit": "minute"}
