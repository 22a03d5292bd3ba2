"""Probes and nudges over HTTP: GET /healthz, /readyz and /metrics, POST /nudge.

Threads beside the loop answer, so that the loop never waits for a client. Clients that
are slow, silent or many hold a few of these threads, for seconds.
"""

import json
import logging
import select
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from io import BytesIO
from socketserver import TCPServer, ThreadingMixIn
from time import monotonic, sleep
from typing import Any, NamedTuple, Protocol

from ...base.forks import keep_private
from ...worker.connections.bell import Bell
from ...worker.loop import Loop

logger = logging.getLogger("pgjobs.worker")

LOOPBACK = "127.0.0.1"
LAST_PORT = 65_535
MOST_CLIENTS = 16  # at a time; the others wait in the socket's backlog
# Of these, so that some can always answer a probe: metrics may wait for the database.
MOST_SCRAPERS = 12
MOST_LINGERING = 16  # clients that were answered and have not closed yet
HEAD_SECONDS = 2.0  # how long a client may take to send its request
LONGEST_HEAD = 16_384
END_OF_HEAD = b"\r\n\r\n"
# How long the server reads, and ignores, what a client goes on sending.
BODY_SECONDS = 1.0
LONGEST_BODY = 65_536
PAUSE_SECONDS = 0.1
# A pass has a few statements, each of which is cut after 30 s. So a database that is
# slow or away does not make the loop look stuck.
STUCK_SECONDS = 120.0


class Address(NamedTuple):
    """Where to listen. Port 0 means any free one."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def for_child(self, number: int) -> "Address":
        """Return the address of the n-th of several processes, counted from 1."""
        return self._replace(port=self.port + number - 1) if self.port else self


class Route(NamedTuple):
    methods: tuple[str, ...]
    answer: Callable[[Loop], dict[str, Any]]


# The health of the worker


def liveness(loop: Loop) -> dict[str, Any]:
    """Return whether the loop runs passes, or sleeps and will wake.

    It does not say whether the worker can work: in an outage of the database an
    orchestrator would restart all workers.
    """
    overdue = max(monotonic() - loop.awake_at, 0.0)
    return {"ok": overdue < STUCK_SECONDS, "overdue_seconds": round(overdue, 1)}


def readiness(loop: Loop) -> dict[str, Any]:
    """Return whether the worker takes jobs, and how many slots are free."""
    state = state_of(loop)
    database = loop.phase == "running" and reaches_database(loop)
    slots = loop.options.slots
    return {
        "ok": state == "running" and database,
        "worker": loop.options.name,
        "state": state,
        "database": database,
        "listen": loop.listener.state if loop.phase == "running" else "off",
        "slots": slots,
        # Prefetched jobs are held, too.
        "free": max(slots - len(loop.in_flight.jobs), 0),
        "last_claim_at": iso(loop.in_flight.last_claim_at),
    }


def state_of(loop: Loop) -> str:
    is_stopping = loop.phase == "running" and loop.lifetime.is_over
    return "stopping" if is_stopping else loop.phase


def reaches_database(loop: Loop) -> bool:
    """Whether the last statements succeeded: those of the loop and the heartbeat's."""
    return loop.faults.since is None and not loop.heartbeat.is_late


def iso(timestamp: float | None) -> str | None:
    if timestamp is None:
        return None
    return datetime.fromtimestamp(timestamp, UTC).isoformat()


def nudge(loop: Loop) -> dict[str, Any]:
    """Ask the loop to look at the queue; do not wait until it does."""
    loop.nudge()
    return {"ok": True}


# The server


METRICS = "/metrics"
NO_METRICS = (
    "prometheus_client is not installed (pip install django-pgjobs[prometheus])."
)
SAFE = ("GET", "HEAD")
ROUTES = {
    "/healthz": Route(SAFE, liveness),
    "/readyz": Route(SAFE, readiness),
    "/nudge": Route(("POST",), nudge),
}


class Metrics(Protocol):
    """What answers GET /metrics."""

    content_type: str

    def answer(self, query: str) -> bytes: ...


class Server(ThreadingMixIn, TCPServer):
    """Listens from its creation on, and answers for the length of a `with` block.

    Raises OSError if it cannot listen. `log` is called with a line for each request.
    """

    allow_reuse_address = True
    request_queue_size = 128
    timeout = 0  # handle_request() takes a client that is there, and waits for none
    daemon_threads = True
    block_on_close = False

    def __init__(
        self,
        address: Address,
        loop: Loop,
        log: Callable[[str], Any] | None = None,
        metrics: Metrics | None = None,
    ):
        self.metrics = metrics
        self.loop = loop
        self.log = log
        found: list[Any] = socket.getaddrinfo(*address, type=socket.SOCK_STREAM)
        self.address_family, _, _, _, socket_address = found[0]
        super().__init__(socket_address, Handler)
        self.address = Address(*self.socket.getsockname()[:2])
        keep_private(self.socket)
        self.vacancies = threading.Semaphore(MOST_CLIENTS)
        self.scrapers = threading.Semaphore(MOST_SCRAPERS)
        # The clients that have not asked yet, the oldest first.
        self.silent: dict[socket.socket, None] = {}
        # Those that were answered, but have not closed yet, the oldest first.
        self.lingering: dict[socket.socket, None] = {}
        self.is_closing = False
        self.bell = Bell()
        self.thread = threading.Thread(target=self.run, name="pgjobs-http", daemon=True)

    def __enter__(self) -> "Server":
        self.thread.start()
        return self

    def __exit__(self, *error) -> None:
        self.is_closing = True
        self.bell.ring()
        self.vacancies.release()  # the server may wait for a client to go
        self.thread.join()
        self.bell.close()

    def run(self) -> None:
        # serve_forever() would wake twice a second, and take as long to end.
        poll = select.poll()
        poll.register(self.socket, select.POLLIN)
        poll.register(self.bell.read_end, select.POLLIN)
        while not self.is_closing:
            poll.poll()
            self.handle_request()
        self.server_close()

    def get_request(self) -> tuple[socket.socket, Any]:
        try:
            return super().get_request()
        except OSError:
            # No descriptor is free; the client waits in the backlog.
            sleep(PAUSE_SECONDS)
            raise

    def process_request(self, request, client_address) -> None:
        if not self.vacancies.acquire(blocking=False):
            dismiss_oldest(self.silent)
            self.vacancies.acquire()
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread could be started
            self.vacancies.release()
            raise

    def process_request_thread(self, request, client_address) -> None:
        keep_private(request)
        try:
            self.finish_request(request, client_address)
        except Exception:  # noqa: BLE001  (as the server's own method)
            self.handle_error(request, client_address)
        finally:
            # Before it closes: a client that lingers keeps no other one waiting.
            self.vacancies.release()
        self.shutdown_request(request)

    def handle_error(self, request, client_address) -> None:
        # An OSError means that the client is gone.
        if not isinstance(sys.exception(), OSError):
            logger.exception("HTTP request failed")

    def shutdown_request(self, request) -> None:
        """End a connection, after reading what the client goes on sending.

        Closing before everything is read would reset the connection, and the client
        might never see the answer.
        """
        if len(self.lingering) >= MOST_LINGERING:
            dismiss_oldest(self.lingering)
        self.lingering[request] = None
        try:
            with suppress(OSError):
                request.shutdown(socket.SHUT_WR)
                receive(request, BODY_SECONDS, LONGEST_BODY)
        finally:
            self.lingering.pop(request, None)
        self.close_request(request)


def dismiss_oldest(clients: dict[socket.socket, None]) -> None:
    """Make room: read nothing more from the client that has been there longest."""
    oldest = next(iter(tuple(clients)), None)
    if oldest is not None:
        clients.pop(oldest, None)
        with suppress(OSError):
            oldest.shutdown(socket.SHUT_RD)


class Handler(BaseHTTPRequestHandler):
    """Answers one request; the connection ends with it."""

    server: Server
    wbufsize = -1  # head and body leave in one packet
    requestline = command = ""  # until the request is parsed

    def setup(self) -> None:
        super().setup()
        self.rfile.close()
        silent = self.server.silent
        silent[self.connection] = None
        try:
            self.head = receive(
                self.connection, HEAD_SECONDS, LONGEST_HEAD, END_OF_HEAD
            )
        finally:
            silent.pop(self.connection, None)
        self.rfile = BytesIO(self.head)
        self.connection.settimeout(HEAD_SECONDS)  # for the answer

    def handle(self) -> None:
        self.raw_requestline = self.rfile.readline()
        if self.head and END_OF_HEAD not in self.head:  # too long, or the client left
            self.send_error(HTTPStatus.BAD_REQUEST)
        elif self.head and self.parse_request():
            self.respond()

    def respond(self) -> None:
        path, _, query = self.path.partition("?")
        route = ROUTES.get(path)
        if path == METRICS and self.command in SAFE:
            self.answer_metrics(self.server.metrics, query)
        elif route is None:
            self.send_error(HTTPStatus.NOT_FOUND)
        elif self.command not in route.methods:
            allowed = ", ".join(route.methods)
            self.send_error(HTTPStatus.METHOD_NOT_ALLOWED, allowed=allowed)
        else:
            content = route.answer(self.server.loop)
            ok, failed = HTTPStatus.OK, HTTPStatus.SERVICE_UNAVAILABLE
            self.answer(ok if content["ok"] else failed, content)

    def send_error(self, code, message=None, explain=None, allowed=None) -> None:
        content = {"ok": False, "error": HTTPStatus(code).phrase}
        self.answer(code, content, {"Allow": allowed} if allowed else {})

    def answer_metrics(self, metrics: Metrics | None, query: str) -> None:
        if metrics is None:
            content = {"ok": False, "error": f"There are no metrics: {NO_METRICS}"}
            self.answer(HTTPStatus.NOT_FOUND, content)
            return
        if not self.server.scrapers.acquire(blocking=False):
            self.send_error(HTTPStatus.SERVICE_UNAVAILABLE)
            return
        try:
            body = metrics.answer(query)
        finally:
            self.server.scrapers.release()
        self.send(HTTPStatus.OK, body, {"Content-Type": metrics.content_type})

    def answer(self, status, content: dict, headers: dict | None = None) -> None:
        body = json.dumps(content).encode() + b"\n"
        self.send(status, body, {"Content-Type": "application/json", **(headers or {})})

    def send(self, status, body: bytes, headers: dict[str, str]) -> None:
        self.request_version = self.protocol_version  # 0.9 would get no status line
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def version_string(self) -> str:
        return "pgjobs"

    def log_request(self, code="-", size="-") -> None:
        if self.server.log:
            # Quoted: what clients send can hold escape sequences.
            client = self.client_address[0]
            self.server.log(f"HTTP {client} {self.requestline!r} {int(code)}")

    def log_message(self, format, *args) -> None:
        """Print nothing to stderr."""


def receive(
    connection: socket.socket, seconds: float, longest: int, until: bytes | None = None
) -> bytes:
    """Return what arrives, up to a mark, the end or a length; raise TimeoutError.

    `seconds` counts for all of it. A socket's own time-out begins again with each byte.
    """
    received = b""
    deadline = monotonic() + seconds
    while len(received) < longest and (until is None or until not in received):
        left = deadline - monotonic()
        if left <= 0:
            raise TimeoutError
        connection.settimeout(left)
        some = connection.recv(4096)
        if not some:
            break
        received += some
    return received
