"""Traces and metrics, with the in-memory exporters of the SDK."""

import os
import subprocess
import sys
from importlib.metadata import entry_points

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode, get_tracer

from pgjobs import Snooze, enqueue, enqueue_many, task
from pgjobs.contrib.otel import PgJobsInstrumentor
from pgjobs.exceptions import AlreadyEnqueued
from pgjobs.models import Job
from tests import tasks
from tests.features.durable import bodies
from tests.features.durable.bodies import done, goes_on
from tests.processes import drain, run, shared_queue
from tests.support.checks import found

pytestmark = shared_queue


class Telemetry:
    """What the instrumentor has produced."""

    def __init__(self, exporter: SpanExporter):
        self.exporter = exporter
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(exporter))
        self.reader = InMemoryMetricReader()
        self.meters = MeterProvider([self.reader])

    @property
    def tracer(self):
        return get_tracer("test", tracer_provider=self.provider)

    def spans(self, name: str) -> list:
        return [
            each for each in self.exporter.get_finished_spans() if each.name == name
        ]

    def span(self, name: str):
        (span,) = self.spans(name)
        return span

    def numbers(self, name: str) -> list:
        (data,) = (
            metric.data
            for resource in self.reader.get_metrics_data().resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
        )
        return list(data.data_points)


def instrumented(exporter: SpanExporter):
    telemetry = Telemetry(exporter)
    PgJobsInstrumentor().instrument(
        tracer_provider=telemetry.provider, meter_provider=telemetry.meters
    )
    return telemetry


@pytest.fixture
def telemetry():
    yield instrumented(InMemorySpanExporter())
    PgJobsInstrumentor().uninstrument()


class Broken(SpanExporter):
    def export(self, spans):
        raise OSError("the collector is down")


@pytest.fixture
def broken_telemetry():
    yield instrumented(Broken())
    PgJobsInstrumentor().uninstrument()


@task(max_attempts=2, backoff=lambda failures: 0)
def fail_twice_traced():
    raise ValueError("no")


@task
async def trace_async():
    enqueue_name = "inside"
    with get_tracer("test").start_as_current_span(enqueue_name):
        pass


@task
def enqueue_traced():
    enqueue(tasks.noop.using(queue_name="mail"))


@task
def put_off():
    raise Snooze(60)


def test_trace_goes_from_the_request_to_the_job(telemetry):
    with telemetry.tracer.start_as_current_span("request") as request:
        job = enqueue(tasks.noop)
    drain()
    send, process = telemetry.span("send default"), telemetry.span("process default")
    assert (send.kind, process.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
    assert send.parent.span_id == request.get_span_context().span_id
    assert process.parent.span_id == send.context.span_id
    assert process.context.trace_id == request.get_span_context().trace_id
    assert dict(send.attributes) == {
        "messaging.system": "pgjobs",
        "messaging.operation.name": "enqueue",
        "messaging.operation.type": "send",
        "messaging.destination.name": "default",
        "messaging.message.id": str(job.pk),
        "pgjobs.task": "tests.noop",
    }
    assert dict(process.attributes) == {
        "messaging.system": "pgjobs",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": "default",
        "messaging.message.id": str(job.pk),
        "pgjobs.task": "tests.noop",
        "pgjobs.attempt": 1,
        "process.pid": os.getpid(),
    }
    assert process.status.status_code == StatusCode.UNSET


def test_trace_of_a_job_may_link_to_that_of_the_request(telemetry, settings):
    settings.PGJOBS = {"TRACES": "link"}
    run(tasks.noop)
    send, process = telemetry.span("send default"), telemetry.span("process default")
    assert process.parent is None
    assert [link.context.span_id for link in process.links] == [send.context.span_id]
    assert process.context.trace_id != send.context.trace_id


def test_each_attempt_has_a_span_of_the_same_trace(telemetry):
    run(fail_twice_traced)
    first, second = telemetry.spans("process default")
    assert first.context.trace_id == second.context.trace_id
    assert [each.attributes["pgjobs.attempt"] for each in (first, second)] == [1, 2]
    for span in (first, second):
        assert span.status.status_code == StatusCode.ERROR
        assert span.attributes["error.type"] == "ValueError"
        assert span.events[0].name == "exception"


def test_jobs_that_jobs_enqueue_belong_to_the_trace(telemetry):
    run(enqueue_traced)
    outer, inner = telemetry.span("process default"), telemetry.span("send mail")
    assert inner.parent.span_id == outer.context.span_id
    child = telemetry.span("process mail")
    assert child.parent.span_id == inner.context.span_id


def test_coroutine_runs_in_its_span(telemetry):
    run(trace_async)
    assert telemetry.span("process default").attributes["pgjobs.attempt"] == 1


def test_jobs_of_one_call_have_one_span(telemetry):
    enqueue_many([tasks.noop.bind(), tasks.noop.bind()])
    span = telemetry.span("send default")
    assert span.attributes["messaging.batch.message_count"] == 2
    assert "messaging.message.id" not in span.attributes
    drain()
    processes = telemetry.spans("process default")
    assert {each.parent.span_id for each in processes} == {span.context.span_id}


def test_enqueue_that_fails_is_an_error_of_its_span(telemetry):
    with pytest.raises(AlreadyEnqueued):
        for _ in range(2):
            enqueue(tasks.noop.using(unique_key="one", on_conflict="raise"))
    good, bad = telemetry.spans("send default")
    assert good.status.status_code == StatusCode.UNSET
    assert bad.attributes["error.type"] == "AlreadyEnqueued"


def test_snooze_is_no_error(telemetry):
    run(put_off)
    span = telemetry.span("process default")
    assert span.status.status_code == StatusCode.UNSET


@pytest.mark.parametrize("stops", ["lets it through", "swallows it", "in a group"])
def test_each_stretch_of_a_task_that_waits_has_a_span_without_error(telemetry, stops):
    def body(job):
        try:
            job.sleep("nap", 3_600)
        except BaseException as suspended:
            if stops == "in a group":
                raise BaseExceptionGroup("both", [suspended]) from None
            if stops == "lets it through":
                raise
        return "awake"

    job = done(body)
    assert job.status == "SCHEDULED"
    job.run_now()
    assert goes_on(job).return_value == "awake"
    send, spans = telemetry.span("send default"), telemetry.spans("process default")
    assert {span.context.trace_id for span in spans} == {send.context.trace_id}
    assert [span.status.status_code for span in spans] == [StatusCode.UNSET] * 2
    points = telemetry.numbers("messaging.process.duration")
    assert [point.count for point in points] == [2]
    assert sum(point.sum for point in points) < 600  # the wait is none of it


def stretches(telemetry, **stored) -> list:
    """Let a task sleep twice; return the spans of its three stretches."""

    def body(job):
        job.sleep("nap", 3_600)
        job.sleep("another", 3_600)

    job = done(body)
    if stored:
        Job.objects.filter(pk=job.pk).update(**stored)
    for _ in range(2):
        Job.objects.get(pk=job.pk).run_now()
        drain()
    assert Job.objects.get(pk=job.pk).status == "SUCCESSFUL"
    return telemetry.spans("process default")


def linked(span) -> list[int]:
    return [link.context.span_id for link in span.links]


def test_each_stretch_links_to_the_one_before(telemetry):
    first, second, third = stretches(telemetry)
    assert linked(first) == []
    assert linked(second) == [first.context.span_id]
    assert linked(third) == [second.context.span_id]


def test_stretch_of_a_trace_of_its_own_links_to_its_sender_as_well(telemetry, settings):
    settings.PGJOBS = {"TRACES": "link"}
    first, second, third = stretches(telemetry)
    sender = telemetry.span("send default").context.span_id
    assert linked(first) == [sender]
    assert linked(second) == [sender, first.context.span_id]
    assert linked(third) == [sender, second.context.span_id]
    assert len({each.context.trace_id for each in (first, second, third)}) == 3


def test_successor_of_a_job_links_to_its_last_stretch(telemetry):
    def body(job, number):
        if number < 2:
            job.continue_as(number=number + 1)
        enqueue(tasks.noop)

    bodies.body = body
    bodies.numbered.enqueue()
    drain()
    first, second, third, child = telemetry.spans("process default")
    assert linked(first) == []
    assert linked(second) == [first.context.span_id]
    assert linked(third) == [second.context.span_id]
    assert linked(child) == []


@pytest.mark.parametrize(
    "stretch",
    ["no dict", {"key": 1}, {"traceparent": None}, {"traceparent": "nonsense"}],
)
def test_link_that_cannot_be_read_is_left_out(telemetry, stretch):
    _, second, third = stretches(telemetry, meta={"stretch": stretch})
    assert linked(second) == []
    assert linked(third) == [second.context.span_id]


def test_meta_that_has_no_room_for_the_link_stays_as_it_is(telemetry):
    large = {"text": "x" * 3_900}
    assert linked(stretches(telemetry, meta=large)[-1]) == []
    assert Job.objects.get().meta == large


def test_new_life_and_jobs_that_a_job_enqueues_link_to_no_stretch(telemetry):
    def body(job):
        job.sleep("nap", 3_600)
        enqueue(tasks.noop)

    job = done(body)
    job.run_now()
    goes_on(job).retry()
    drain()
    first, second, child, again = telemetry.spans("process default")
    assert [linked(each) for each in (first, second, child, again)] == [
        [],
        [first.context.span_id],
        [],
        [],
    ]


def test_messages_and_seconds_are_measured(telemetry):
    enqueue_many([tasks.noop.bind(), tasks.noop.bind()])
    enqueue(tasks.fail_with, "no")
    drain()
    sent = telemetry.numbers("messaging.client.sent.messages")
    assert sum(point.value for point in sent) == 3
    consumed = telemetry.numbers("messaging.client.consumed.messages")
    by_task = {
        (point.attributes["pgjobs.task"], point.attributes.get("error.type")): (
            point.value
        )
        for point in consumed
    }
    assert by_task == {("tests.noop", None): 2, ("tests.fail_with", "ValueError"): 1}
    seconds = telemetry.numbers("messaging.process.duration")
    assert sum(point.count for point in seconds) == 3
    assert telemetry.numbers("messaging.client.operation.duration")


def test_collector_that_is_down_harms_no_job(broken_telemetry):
    job = run(tasks.add, 1)
    assert (job.status, job.return_value) == ("SUCCESSFUL", 2)


def test_telemetry_that_raises_harms_no_job(telemetry, monkeypatch, caplog):
    def refuse(*args, **kwargs):
        raise RuntimeError("no spans today")

    monkeypatch.setattr(PgJobsInstrumentor.active.tracer, "start_span", refuse)
    job = run(tasks.add, 1)
    assert (job.status, job.return_value) == ("SUCCESSFUL", 2)
    assert "start_sending failed" in caplog.text
    assert "start_attempt failed" in caplog.text


@pytest.mark.parametrize("traceparent", ["rubbish", "00-0-0-0", 5, None, "\u2603" * 9])
def test_rubbish_in_the_meta_of_a_job_begins_a_trace_of_its_own(telemetry, traceparent):
    job = enqueue(tasks.noop)
    Job.objects.filter(pk=job.pk).update(meta={"traceparent": traceparent})
    drain()
    job.refresh_from_db()
    assert job.status == "SUCCESSFUL"
    assert telemetry.span("process default").parent is None


def test_uninstrumented_again_nothing_is_traced(telemetry):
    PgJobsInstrumentor().uninstrument()
    job = run(tasks.noop)
    assert job.meta is None
    assert telemetry.exporter.get_finished_spans() == ()


def test_instrumentor_is_found_by_its_entry_point():
    (point,) = entry_points(group="opentelemetry_instrumentor", name="pgjobs")
    assert point.load() is PgJobsInstrumentor


def test_instrumentor_works_before_there_are_settings():
    """`opentelemetry-instrument` calls it before manage.py begins."""
    code = (
        "from pgjobs.contrib.otel import PgJobsInstrumentor\n"
        "PgJobsInstrumentor().instrument(skip_dep_check=True)\n"
        "import os; os.environ['DJANGO_SETTINGS_MODULE'] = 'tests.settings'\n"
        "import django; django.setup()\n"
        "print('ready')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        env={"PYTHONPATH": ".:example_project", "PGJOBS_IN_TEST_PROCESS": "1"},
    )
    assert done.stdout.strip() == "ready", done.stderr


def test_packages_of_extras_are_imported_only_when_asked_for():
    code = (
        "import os; os.environ['DJANGO_SETTINGS_MODULE'] = 'tests.settings'\n"
        "import django; django.setup()\n"
        "import sys, pgjobs, pgjobs.worker, pgjobs.checks\n"
        "import pgjobs.management.runjobs\n"
        "extras = {'opentelemetry', 'sentry_sdk', 'prometheus_client'}\n"
        "print(sorted(extras & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        env={"PYTHONPATH": ".:example_project", "PGJOBS_IN_TEST_PROCESS": "1"},
    )
    assert done.stdout.strip() == "[]", done.stderr


def test_wrong_relation_is_found_by_a_check(settings):
    settings.PGJOBS = {"TRACES": "child"}
    assert "must be 'parent' or 'link'" in found()["pgjobs.E001"]
