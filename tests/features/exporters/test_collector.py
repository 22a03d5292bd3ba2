"""`opentelemetry-instrument manage.py runjobs` before collectors, good and bad ones."""

import shutil
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks.ports import free_port
from pgjobs import enqueue_many
from tests import tasks
from tests.features.exporters.collectors import collecting, rotel
from tests.processes import WorkerProcess, shared_queue, wait_for, wait_for_all

pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
INSTRUMENT = shutil.which("opentelemetry-instrument", path=Path(sys.executable).parent)
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"

pytestmark = [
    pytest.mark.slow,
    shared_queue,
    pytest.mark.skipif(INSTRUMENT is None, reason="needs opentelemetry-distro"),
]


@contextmanager
def traced_worker(address: str):
    """Run a worker whose spans and metrics go to this address, four times a second."""
    worker = WorkerProcess(
        before=(INSTRUMENT,),
        OTEL_EXPORTER_OTLP_ENDPOINT=address,
        OTEL_EXPORTER_OTLP_PROTOCOL="http/protobuf",
        OTEL_EXPORTER_OTLP_TIMEOUT="2",
        OTEL_TRACES_EXPORTER="otlp",
        OTEL_METRICS_EXPORTER="otlp",
        OTEL_LOGS_EXPORTER="none",
        OTEL_BSP_SCHEDULE_DELAY="250",
        OTEL_METRIC_EXPORT_INTERVAL="250",
    )
    try:
        yield worker
    finally:
        worker.kill()


def enqueue_traced(number: int = 1) -> None:
    """Enqueue jobs that belong to the trace of a request."""
    for job in enqueue_many([tasks.add.bind(each) for each in range(number)]):
        job.meta = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
        job.save(update_fields=["meta"])


def check_what_arrived(collector) -> None:
    span = wait_for(lambda: collector.span("process default"), "a span has arrived")
    assert (span.trace_id.hex(), span.parent_span_id.hex()) == (TRACE, PARENT)
    attributes = {each.key: each.value for each in span.attributes}
    assert attributes["messaging.system"].string_value == "pgjobs"
    assert attributes["pgjobs.task"].string_value == tasks.add.name
    wanted = {"messaging.process.duration", "messaging.client.consumed.messages"}
    wait_for(lambda: wanted <= collector.metrics, "the metrics have arrived")


def test_collector_receives_what_the_command_instruments():
    enqueue_traced()
    with collecting() as collector, traced_worker(collector.address):
        check_what_arrived(collector)


def test_real_collector_understands_and_forwards_it():
    enqueue_traced()
    with collecting() as last, rotel(last.address) as address, traced_worker(address):
        check_what_arrived(last)


@pytest.mark.parametrize("behaviour", ["slow", "refusing", "hostile"])
def test_bad_collector_delays_no_job(behaviour):
    enqueue_traced(20)
    with collecting(behaviour) as collector, traced_worker(collector.address) as worker:
        wait_for(lambda: collector.requests, "the collector has been called")
        enqueue_traced(20)
        wait_for_all("SUCCESSFUL")
        assert worker.is_alive


def test_collector_that_is_down_delays_no_job():
    enqueue_traced(20)
    with traced_worker(f"http://127.0.0.1:{free_port()}") as worker:
        wait_for_all("SUCCESSFUL")
        assert worker.is_alive
