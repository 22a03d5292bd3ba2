"""OpenTelemetry with its own instrumentation of Django and psycopg, as they are."""

import json
from importlib import import_module
from importlib.util import find_spec

import pytest
from django.db import connection
from django.http import HttpResponse
from django.test import Client
from django.urls import path
from opentelemetry import trace

from pgjobs import enqueue, task
from pgjobs.models import Job
from tests.features.exporters.test_otel import telemetry  # noqa: F401
from tests.processes import drain, shared_queue
from tests.support.leaks import leaks_of

django_instrumentation = pytest.importorskip("opentelemetry.instrumentation.django")
# It may be of another version than the rest at times, which pip would refuse.
psycopg_instrumentation = (
    import_module("opentelemetry.instrumentation.psycopg")
    if find_spec("opentelemetry.instrumentation.psycopg")
    else None
)

pytestmark = shared_queue

IBAN = 'DE89 "3704"/é+0044'
PASSWORD = "correct horse & battery"


@task(name="otel.pay", sensitive=("iban",), lock="{iban}", max_attempts=1)
def pay(iban: str, customer: dict, how: str) -> None:
    if how == "fail":
        raise ValueError(f"{iban} is refused, {customer}")
    enqueue(pay, iban, customer, "fail")


def buy(request):
    job = enqueue(pay, IBAN, {"password": PASSWORD}, "again")
    return HttpResponse(str(job.pk))


urlpatterns = [path("buy/", buy)]


@pytest.fixture
def instruments(telemetry, settings):  # noqa: F811
    """Switch both on, with nothing but the provider; connections are made anew."""
    settings.ROOT_URLCONF = __name__
    settings.MIDDLEWARE = []  # the instrumentation adds its own
    made = [django_instrumentation.DjangoInstrumentor()]
    if psycopg_instrumentation:
        made.append(psycopg_instrumentation.PsycopgInstrumentor())
    for each in made:
        each.instrument(tracer_provider=telemetry.provider)
    connection.close()
    yield telemetry
    connection.close()
    for each in made:
        each.uninstrument()


def test_trace_of_a_request_goes_on_in_its_jobs(instruments):
    Client().post("/buy/")
    drain()
    assert Job.objects.count() == 2
    (request,) = (
        each
        for each in instruments.exporter.get_finished_spans()
        if each.kind is trace.SpanKind.SERVER
    )
    sends = instruments.spans("send default")
    attempts = instruments.spans("process default")
    assert (len(sends), len(attempts)) == (2, 2)
    for span in (*sends, *attempts):
        assert span.context.trace_id == request.context.trace_id
    assert sends[0].parent.span_id == request.context.span_id
    assert attempts[0].parent.span_id == sends[0].context.span_id
    assert sends[1].parent.span_id == attempts[0].context.span_id


def test_attempts_are_linked_to_the_request_if_the_project_wants_it(
    instruments, settings
):
    settings.PGJOBS = {"TRACES": "link"}
    Client().post("/buy/")
    drain()
    first, second = instruments.spans("process default")
    for attempt, send in zip(
        (first, second), instruments.spans("send default"), strict=True
    ):
        (link,) = attempt.links
        assert link.context.span_id == send.context.span_id


def test_spans_hold_nothing_sensitive(instruments):
    Client().post("/buy/")
    drain()
    assert Job.objects.filter(status="FAILED").count() == 1
    text = "\n".join(
        each.to_json() for each in instruments.exporter.get_finished_spans()
    )
    assert "exception.message" in text
    assert ("INSERT INTO pgjobs_job" in text) == bool(psycopg_instrumentation)
    for secret in (IBAN, PASSWORD):
        assert list(leaks_of(secret, text)) == []
        assert list(leaks_of(secret, json.dumps(text))) == []
