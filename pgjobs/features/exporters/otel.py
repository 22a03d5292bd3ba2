"""OpenTelemetry: spans and metrics by its conventions for messaging systems.

    PgJobsInstrumentor().instrument()

`opentelemetry-instrument python manage.py runjobs` does so by itself. Only the package
opentelemetry-api is needed: `pip install django-pgjobs[otel]`.
"""

import os
import traceback
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any

from opentelemetry import context as contexts
from opentelemetry import metrics, propagate, trace
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation import tracecontext

from ...base.plain_json import dump
from ...conf import settings
from ...exceptions import Suspended
from ...queue import meta, observing
from ...queue.new_job import NewJob
from ...tasks import middleware
from ...tasks.running_job import RunningJob
from .attempts import is_failure, watching
from .scrubbing import Scrubber

NAME = "pgjobs"
LONGEST_VALUE = 512  # characters that a job takes along: baggage may be long
LONGEST_KEY = 30  # bytes; a successor has one of its own
STRETCH = "stretch"  # in `meta`: the last stretch of a job that has slept or waited
TRACE_CONTEXT = tracecontext.TraceContextTextMapPropagator()
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 7.5, 10.0)


class PgJobsInstrumentor:
    """Traces enqueueing and attempts; the entry point `opentelemetry_instrumentor`."""

    active: "Tracing | None" = None

    def instrument(
        self, *, tracer_provider: Any = None, meter_provider: Any = None, **kwargs: Any
    ) -> None:
        """Trace from now on, with the global providers if none are given."""
        if PgJobsInstrumentor.active is None:
            tracing = Tracing(tracer_provider, meter_provider)
            PgJobsInstrumentor.active = tracing
            observing.observers.append(tracing.start_sending)
            meta.added.append(trace_context)
            middleware.added.append(tracing.middleware)

    def uninstrument(self, **kwargs: Any) -> None:
        """Trace no more."""
        if (tracing := PgJobsInstrumentor.active) is not None:
            PgJobsInstrumentor.active = None
            observing.observers.remove(tracing.start_sending)
            meta.added.remove(trace_context)
            middleware.added.remove(tracing.middleware)


def trace_context() -> dict[str, str]:
    """Return the present trace as jobs take it along (`traceparent`, `baggage`)."""
    carrier: dict[str, str] = {}
    propagate.inject(carrier)
    return {key: each for key, each in carrier.items() if len(each) <= LONGEST_VALUE}


def flush(seconds: float) -> None:
    """Send what waits to be sent."""
    active = PgJobsInstrumentor.active
    for provider in active.providers if active else ():
        if force_flush := getattr(provider, "force_flush", None):  # the SDK's has it
            force_flush(int(1000 * seconds))


class Tracing:
    """Makes the spans and counts."""

    def __init__(self, tracer_provider: Any, meter_provider: Any):
        self.providers = (
            tracer_provider or trace.get_tracer_provider(),
            meter_provider or metrics.get_meter_provider(),
        )
        self.tracer = trace.get_tracer(NAME, tracer_provider=tracer_provider)
        meter = metrics.get_meter(NAME, meter_provider=meter_provider)
        self.sent = meter.create_counter("messaging.client.sent.messages", "{message}")
        self.consumed = meter.create_counter(
            "messaging.client.consumed.messages", "{message}"
        )
        self.sending_seconds = meter.create_histogram(
            "messaging.client.operation.duration",
            "s",
            explicit_bucket_boundaries_advisory=BUCKETS,
        )
        self.processing_seconds = meter.create_histogram(
            "messaging.process.duration",
            "s",
            explicit_bucket_boundaries_advisory=BUCKETS,
        )
        self.middleware = watching(self.start_attempt)

    # Enqueueing

    def start_sending(self, new_jobs: Sequence[NewJob]) -> observing.Finish:
        labels = labels_of_sending(new_jobs)
        queue = labels.get("messaging.destination.name")
        span = self.tracer.start_span(
            f"send {queue}" if queue else "send",
            kind=SpanKind.PRODUCER,
            attributes=labels | details_of_sending(new_jobs),
        )
        token = contexts.attach(trace.set_span_in_context(span))
        begun = monotonic()

        def finish(jobs: Sequence[Any], error: BaseException | None) -> None:
            contexts.detach(token)
            inserted = [job for job in jobs if job is not None]
            if len(new_jobs) == 1 and inserted:
                span.set_attribute("messaging.message.id", str(inserted[0].pk))
            hide = Scrubber.of_new_jobs(new_jobs).text
            end(span, error, labels, hide)
            self.sent.add(len(inserted), labels)
            self.sending_seconds.record(monotonic() - begun, labels)

        return finish

    # Running

    def start_attempt(self, job: RunningJob):
        labels = labels_of_attempt(job)
        origin = propagate.extract({k: v for k, v in job.meta.items() if is_text(v)})
        is_child = settings.TRACES == "parent"
        sender = trace.get_current_span(origin).get_span_context()
        links = [Link(sender)] if sender.is_valid and not is_child else []
        links += links_to_last_stretch(job)
        span = self.tracer.start_span(
            f"process {job.queue_name}",
            context=origin if is_child else contexts.Context(),
            kind=SpanKind.CONSUMER,
            links=links,
            attributes={
                **labels,
                "messaging.message.id": str(job.id),
                "pgjobs.attempt": job.attempt,
                "process.pid": os.getpid(),
            },
        )
        token = contexts.attach(trace.set_span_in_context(span, origin))
        begun = monotonic()

        def finish(error: BaseException | None) -> None:
            contexts.detach(token)
            if isinstance(error, Suspended):
                leave_link(job, error, span)
            failure = error if is_failure(error) else None
            end(span, failure, labels, Scrubber.of_attempt(job).text)
            self.consumed.add(1, labels)
            self.processing_seconds.record(monotonic() - begun, labels)

        return finish


def leave_link(job: RunningJob, suspended: Suspended, span: Span) -> None:
    """Store with what suspends the job which span its next stretch links to."""
    carrier = {"key": job.key}
    TRACE_CONTEXT.inject(carrier, trace.set_span_in_context(span))
    left = {STRETCH: carrier}
    if len(dump({**job.meta, **left}).encode()) <= meta.LARGEST - LONGEST_KEY:
        suspended.stores["meta"] = left


def links_to_last_stretch(job: RunningJob) -> list[Link]:
    """Return a link to the stretch after which this life slept or waited last."""
    left = job.meta.get(STRETCH)
    # What a job enqueues inherits its meta, and a new life keeps it.
    if not isinstance(left, dict) or left.get("key") != job.key:
        return []
    carrier = {key: value for key, value in left.items() if is_text(value)}
    context = TRACE_CONTEXT.extract(carrier, contexts.Context())
    last = trace.get_current_span(context).get_span_context()
    return [Link(last)] if last.is_valid else []


def end(
    span: Span,
    error: BaseException | None,
    labels: dict[str, Any],
    hide: Callable[[str], str] = str,
) -> None:
    """End a span; an error goes into it, and its class into the labels.

    `hide` masks what the error quotes.
    """
    if error is not None:
        labels["error.type"] = type(error).__qualname__
        span.set_attribute("error.type", labels["error.type"])
        span.record_exception(error, attributes=masked(error, hide))
        span.set_status(Status(StatusCode.ERROR))
    span.end()


def masked(error: BaseException, hide: Callable[[str], str]) -> dict[str, str]:
    """Return what replaces the texts that `record_exception` would send."""
    text = "".join(traceback.format_exception(error))
    return {
        "exception.message": hide(str(error)),
        "exception.stacktrace": hide(text),
    }


def labels_of_sending(new_jobs: Sequence[NewJob]) -> dict[str, Any]:
    labels: dict[str, Any] = {
        "messaging.system": NAME,
        "messaging.operation.name": "enqueue",
        "messaging.operation.type": "send",
    }
    queues = {job.queue_name for job in new_jobs}
    if len(queues) == 1:
        labels["messaging.destination.name"] = queues.pop()
    return labels


def details_of_sending(new_jobs: Sequence[NewJob]) -> dict[str, Any]:
    tasks = {job.task for job in new_jobs}
    details: dict[str, Any] = {"pgjobs.task": tasks.pop()} if len(tasks) == 1 else {}
    if len(new_jobs) > 1:
        details["messaging.batch.message_count"] = len(new_jobs)
    return details


def labels_of_attempt(job: RunningJob) -> dict[str, Any]:
    return {
        "messaging.system": NAME,
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": job.queue_name,
        "pgjobs.task": job.task_name,
    }


def is_text(value: Any) -> bool:
    return isinstance(value, str)
