"""Collectors of OpenTelemetry: a decoding one, good or bad, and Rotel."""

import gzip
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from benchmarks.ports import free_port
from tests.processes import wait_for

RUBBISH = b"\x00\xff" * 500_000


class Collector(ThreadingHTTPServer):
    """Receives OTLP by HTTP and keeps the spans and the names of the metrics."""

    daemon_threads = True

    def __init__(self, behaviour: str = "good"):
        super().__init__(("127.0.0.1", 0), Handler)
        self.behaviour = behaviour
        self.requests = 0
        self.spans: list = []
        self.metrics: set[str] = set()
        self.released = threading.Event()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def span(self, name: str):
        return next((each for each in self.spans if each.name == name), None)

    def keep(self, path: str, body: bytes) -> None:
        # The packages of the exporter, which not every environment has.
        from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2
        from opentelemetry.proto.collector.trace.v1 import trace_service_pb2

        if path == "/v1/traces":
            traces = trace_service_pb2.ExportTraceServiceRequest.FromString(body)
            for resource in traces.resource_spans:
                for scope in resource.scope_spans:
                    self.spans.extend(scope.spans)
        elif path == "/v1/metrics":
            metrics = metrics_service_pb2.ExportMetricsServiceRequest.FromString(body)
            for resource in metrics.resource_metrics:
                for scope in resource.scope_metrics:
                    self.metrics.update(each.name for each in scope.metrics)


class Handler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        self.server.requests += 1
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.headers["Content-Encoding"] == "gzip":
            body = gzip.decompress(body)
        getattr(self, self.server.behaviour)(body)

    def good(self, body: bytes) -> None:
        self.server.keep(self.path, body)
        self.answer(200, b"")

    def slow(self, body: bytes) -> None:
        """Answer when the test is over."""
        self.server.released.wait()

    def refusing(self, body: bytes) -> None:
        self.answer(503, b"")

    def hostile(self, body: bytes) -> None:
        self.answer(200, RUBBISH)

    def answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        pass


@contextmanager
def collecting(behaviour: str = "good") -> Iterator[Collector]:
    with Collector(behaviour) as collector:
        thread = threading.Thread(target=collector.serve_forever, daemon=True)
        thread.start()
        yield collector
        collector.released.set()
        collector.shutdown()


@contextmanager
def rotel(destination: str) -> Iterator[str]:
    """Run Rotel, which forwards what it has decoded; skip the test without it."""
    program = Path(pytest.importorskip("rotel").__file__).parent / "rotel-agent"
    http = free_port(2)
    grpc = http + 1
    with tempfile.TemporaryDirectory() as folder:
        command = [
            *(program, "start", "--pid-file", f"{folder}/pid"),
            *("--otlp-http-endpoint", f"127.0.0.1:{http}"),
            *("--otlp-grpc-endpoint", f"127.0.0.1:{grpc}"),
            *("--exporter", "otlp", "--otlp-exporter-protocol", "http"),
            *("--otlp-exporter-endpoint", destination),
        ]
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            wait_for(lambda: is_open(http), "the collector listens")
            yield f"http://127.0.0.1:{http}"
        finally:
            process.terminate()
            process.wait(30)


def is_open(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0
