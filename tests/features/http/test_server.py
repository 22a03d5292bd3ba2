"""Probes and nudges over HTTP: what they answer and do, and what no client can do."""

import json
import re
import signal
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from http.client import HTTPConnection

import psycopg
import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from pgjobs import enqueue, enqueue_many
from pgjobs.features.http import server as http
from pgjobs.features.http.runjobs import http_address
from pgjobs.features.http.server import (
    MOST_CLIENTS,
    MOST_LINGERING,
    Address,
    Server,
)
from pgjobs.models import Job, Worker
from pgjobs.queue import claiming
from pgjobs.worker import Loop, WorkerOptions
from pgjobs.worker.upkeep.admission import Admitting
from pgjobs.worker.upkeep.chore import Upkeep
from tests import tasks
from tests.actors import job_that_is
from tests.processes import (
    SOON,
    running_worker,
    shared_queue,
    wait_for,
    wait_for_all,
    wait_for_pass,
    wait_for_status,
)

ANYWHERE = Address("127.0.0.1", 0)
DEAF = {"poll": 3600, "listen": False}  # only a nudge wakes such a worker


@pytest.fixture
def path(tmp_path) -> str:
    return str(tmp_path / "held")


@pytest.fixture
def server() -> Iterator[Server]:
    """The server of a worker that never starts."""
    with Server(ANYWHERE, Loop(WorkerOptions())) as server:
        yield server


@contextmanager
def served_worker(**options) -> Iterator[Server]:
    with running_worker(**options) as loop, Server(ANYWHERE, loop) as server:
        wait_for(lambda: loop.phase == "running", "the worker has started")
        yield server


def ask(address: Address, path: str, method: str = "GET") -> tuple[int, dict]:
    with closing(HTTPConnection(*address, timeout=60)) as connection:
        connection.request(method, path)
        response = connection.getresponse()
        assert response.getheader("Content-Type") == "application/json"
        return response.status, json.loads(response.read())


def nudge(server: Server) -> None:
    assert ask(server.address, "/nudge", "POST") == (200, {"ok": True})


def send(server: Server, data: bytes) -> bytes:
    """Send bytes as they are; return all that is answered."""
    with socket.create_connection(server.address, timeout=60) as client:
        client.sendall(data)
        client.shutdown(socket.SHUT_WR)
        return answer_to(client)


def answer_to(client: socket.socket) -> bytes:
    received = b""
    while some := client.recv(4096):
        received += some
    return received


def put_off_maintenance(monkeypatch) -> None:
    """Let nothing but the queue give loops a reason to turn, for an hour."""
    in_an_hour = time.monotonic() + 3600
    monkeypatch.setattr(Admitting, "next_event", property(lambda self: in_an_hour))
    monkeypatch.setattr(Upkeep, "next_event", lambda self, is_stopping: in_an_hour)
    monkeypatch.setattr(Upkeep, "due", lambda self, now, is_stopping: iter(()))


# Nudges


@pytest.mark.listening
@shared_queue
def test_nudge_lets_a_worker_fetch_that_hears_nothing_else():
    with served_worker(**DEAF) as server:
        wait_for_pass(server.loop)
        job = enqueue(tasks.noop)
        wait_for_pass(server.loop)
        job.refresh_from_db()
        assert job.status == "READY"
        nudge(server)
        wait_for_status(job, "SUCCESSFUL", timeout=SOON)


@shared_queue
def test_nudge_finds_what_became_due_as_the_timer_does():
    with served_worker(**DEAF) as server:
        wait_for_pass(server.loop)
        job = job_that_is("SCHEDULED", run_after=timezone.now())
        nudge(server)
        wait_for_status(job, "SUCCESSFUL", timeout=SOON)


@shared_queue
def test_nudge_that_comes_while_the_loop_fetches_is_not_lost(monkeypatch):
    """The fetch has missed the job and is about to report an empty queue."""
    jobs = []
    fetch = claiming.record_and_claim

    def fetch_and_miss(*args, **kwargs):
        brought = fetch(*args, **kwargs)
        if not jobs:
            jobs.append(enqueue(tasks.noop))
            nudge(server)
        return brought

    with served_worker(**DEAF) as server:
        wait_for_pass(server.loop)
        monkeypatch.setattr(claiming, "record_and_claim", fetch_and_miss)
        nudge(server)
        wait_for(lambda: jobs, "the loop has fetched")
        wait_for_status(jobs[0], "SUCCESSFUL", timeout=SOON)


@shared_queue
def test_fifty_nudges_at_once_never_claim_more_than_there_are_slots():
    with served_worker(slots=4, **DEAF) as server:
        wait_for_pass(server.loop)
        enqueue_many([tasks.sleep.bind(0.02) for _ in range(100)])
        running = []
        with ThreadPoolExecutor(50) as pool:
            nudges = [pool.submit(nudge, server) for _ in range(50)]
            while Job.objects.exclude(status="SUCCESSFUL").exists():
                running.append(Job.objects.running().count())
        for each in nudges:
            each.result()
    assert 0 < max(running) <= 4


def test_nudge_is_answered_before_there_is_a_loop(server):
    nudge(server)


# Health


def test_loop_that_sleeps_for_an_hour_is_healthy():
    loop = Loop(WorkerOptions())
    loop.awake_at = time.monotonic() + 3600
    assert http.liveness(loop) == {"ok": True, "overdue_seconds": 0}


@pytest.mark.listening
@shared_queue
def test_loop_promises_when_it_is_awake_again(monkeypatch):
    put_off_maintenance(monkeypatch)
    with served_worker(**DEAF) as server:
        loop = server.loop
        wait_for(lambda: loop.awake_at > time.monotonic() + 2000, "it sleeps long")
        assert ask(server.address, "/healthz")[0] == 200


@pytest.mark.listening
@shared_queue
def test_loop_that_is_stuck_is_not_healthy(monkeypatch):
    """It does not matter how long the loop meant to sleep."""
    monkeypatch.setattr(http, "STUCK_SECONDS", 0.3)
    put_off_maintenance(monkeypatch)
    with served_worker(**DEAF) as server:
        loop = server.loop
        wait_for(lambda: loop.awake_at > time.monotonic() + 2000, "it sleeps long")
        go_on = threading.Event()
        monkeypatch.setattr(loop, "run_pass", lambda: go_on.wait(60))
        nudge(server)
        wait_for(lambda: ask(server.address, "/healthz")[0] == 503, "it says so")
        told = ask(server.address, "/healthz")[1]
        assert not told["ok"]
        assert told["overdue_seconds"] >= 0.3
        go_on.set()
        wait_for(lambda: ask(server.address, "/healthz")[0] == 200, "it is well again")


# Readiness


@pytest.mark.listening
@shared_queue
def test_ready_worker_reports_its_slots_and_its_last_claim(path):
    before = timezone.now()
    with served_worker(slots=3, name="mine") as server:
        assert ask(server.address, "/readyz") == (
            200,
            {
                "ok": True,
                "worker": "mine",
                "state": "running",
                "database": True,
                "listen": "on",
                "slots": 3,
                "free": 3,
                "last_claim_at": None,
            },
        )
        enqueue(tasks.hold, path)
        wait_for(lambda: tasks.lines(path), "the job runs")
        told = ask(server.address, "/readyz")[1]
        assert told["free"] == 2
        claimed_at = timezone.datetime.fromisoformat(told["last_claim_at"])
        assert before < claimed_at < timezone.now()
        tasks.let_go(path)
        wait_for_all("SUCCESSFUL")


@shared_queue
def test_worker_that_does_not_listen_is_ready_and_says_so():
    with served_worker(**DEAF) as server:
        status, told = ask(server.address, "/readyz")
        assert (status, told["listen"]) == (200, "off")
        server.loop.listener.wanted = True
        assert ask(server.address, "/readyz")[1]["listen"] == "connecting"


def test_worker_that_starts_is_alive_but_not_ready(server):
    assert ask(server.address, "/healthz")[0] == 200
    status, told = ask(server.address, "/readyz")
    assert (status, told["state"], told["database"]) == (503, "starting", False)


@shared_queue
def test_worker_that_has_stopped_is_not_ready():
    with running_worker() as loop:
        pass
    told = http.readiness(loop)
    assert (told["ok"], told["state"]) == (False, "stopped")


@shared_queue
def test_worker_whose_heartbeat_is_late_does_not_reach_its_database():
    with served_worker() as server:
        server.loop.heartbeat.last_beat -= 60
        status, told = ask(server.address, "/readyz")
        assert (status, told["database"]) == (503, False)


@shared_queue
def test_database_is_back_only_when_a_statement_has_succeeded(path, monkeypatch):
    """The same holds for a loop whose slots are full and which has nothing to ask."""
    enqueue(tasks.hold, path)
    with served_worker(slots=1, **DEAF) as server:
        wait_for(lambda: tasks.lines(path), "the job runs")
        loop = server.loop
        asked = []

        def fail(*args):
            asked.append(args)
            raise psycopg.OperationalError("The server is away.")

        with monkeypatch.context() as away:
            away.setattr(loop.connection, "execute", fail)
            loop.upkeep.survey.due = 0
            loop.bell.ring()
            wait_for(lambda: asked, "it has met the fault")
            turned_at = loop.awake_at
            put_off_maintenance(monkeypatch)
            wait_for(lambda: len(asked) > 3, "it has tried again")
            status, told = ask(server.address, "/readyz")
            assert (status, told["state"]) == (503, "running")
            assert told["database"] is False
            assert ask(server.address, "/healthz")[0] == 200
            assert loop.awake_at > turned_at  # however long the outage
        wait_for(lambda: ask(server.address, "/readyz")[0] == 200, "it is back")
        tasks.let_go(path)
        wait_for_all("SUCCESSFUL")


@shared_queue
def test_worker_answers_while_it_drains_and_no_longer(start_worker, path):
    enqueue(tasks.hold, path)
    worker = start_worker("--http", "0", "-v", "2")
    wait_for(lambda: tasks.lines(path), "the job runs")
    host, port = re.search(r"http://([\d.]+):(\d+)", worker.printed).groups()
    address = Address(host, int(port))
    assert host == "127.0.0.1"
    assert ask(address, "/readyz")[0] == 200
    worker.send(signal.SIGTERM)
    wait_for(lambda: ask(address, "/readyz")[0] == 503, "it stops")
    assert ask(address, "/readyz")[1]["state"] == "stopping"
    assert ask(address, "/healthz")[0] == 200
    tasks.let_go(path)
    assert worker.wait() == 0
    with pytest.raises(ConnectionRefusedError):
        ask(address, "/healthz")
    assert "/readyz" not in worker.printed


# Requests


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 404),
        ("GET", "/healthz/", 404),
        ("POST", "/metrics", 404),
        ("GET", "/../healthz", 404),
        ("GET", "/%00", 404),
        ("POST", "/healthz", 405),
        ("DELETE", "/readyz", 405),
        ("GET", "/nudge", 405),
        ("OPTIONS", "/nudge", 405),
        ("BREW", "/nudge", 405),
        ("GET", "/healthz?full=1", 200),
    ],
)
def test_there_are_three_addresses_and_a_method_for_each(server, method, path, status):
    code, told = ask(server.address, path, method)
    assert (code, told["ok"]) == (status, status == 200)


def test_answer_to_a_refused_method_names_the_allowed_ones(server):
    assert b"\r\nAllow: POST\r\n" in send(server, b"PUT /nudge HTTP/1.1\r\n\r\n")


def test_head_is_answered_without_a_body(server):
    answer = send(server, b"HEAD /readyz HTTP/1.1\r\n\r\n")
    assert answer.startswith(b"HTTP/1.0 503 ")
    assert answer.endswith(b"\r\n\r\n")


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"\0\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # how TLS begins
        b"GET\r\n\r\n",
        b"GET /healthz HTTP/9.9\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\n",
        b"GET /healthz HTTP/1.1\r\n" + b"X: y\r\n" * 200 + b"\r\n",
        b"GET /" + b"x" * 50_000,
        b"GET /healthz HTTP/1.1\r\nX: " + b"y" * 50_000 + b"\r\n\r\n",
    ],
)
def test_bytes_that_are_no_request_are_refused_in_json(server, request_bytes):
    head, _, body = send(server, request_bytes).partition(b"\r\n\r\n")
    assert 400 <= int(head.split()[1]) < 600
    assert json.loads(body)["ok"] is False
    assert ask(server.address, "/healthz")[0] == 200


def test_silent_client_that_leaves_is_no_fault(server, caplog):
    assert send(server, b"") == b""
    assert caplog.records == []


def test_flood_is_cut_off(server):
    with suppress(ConnectionError):
        send(server, b"POST /nudge HTTP/1.1\r\n\r\n" + b"x" * 50_000_000)
    assert ask(server.address, "/healthz")[0] == 200


def test_body_is_ignored(server, monkeypatch):
    monkeypatch.setattr(http, "BODY_SECONDS", 20)
    head = b"POST /nudge HTTP/1.1\r\nContent-Length: 50000\r\n\r\n"
    with socket.create_connection(server.address, timeout=60) as client:
        client.sendall(head)
        assert answer_to(client).endswith(b'{"ok": true}\n')
        client.sendall(b"x" * 50_000)  # which resets no connection
        client.shutdown(socket.SHUT_WR)
        assert client.recv(1) == b""
        wait_for(lambda: client_threads() == 0, "the server has read it")
        assert client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0


def test_server_does_not_wait_for_a_body_that_never_comes(server):
    head = b"POST /nudge HTTP/1.1\r\nContent-Length: 999999999999\r\n\r\n"
    with socket.create_connection(server.address, timeout=60) as client:
        client.sendall(head)
        assert answer_to(client).endswith(b'{"ok": true}\n')


def test_requests_are_logged_on_demand_and_escaped():
    logged = []
    with Server(ANYWHERE, Loop(WorkerOptions()), logged.append) as server:
        ask(server.address, "/healthz")
        send(server, b"GET /\x1b[2J HTTP/1.1\r\n\r\n")
    assert logged == [
        "HTTP 127.0.0.1 'GET /healthz HTTP/1.1' 200",
        "HTTP 127.0.0.1 'GET /\\x1b[2J HTTP/1.1' 404",
    ]


# Slow clients


def client_threads() -> int:
    name = "process_request_thread"
    return sum(name in thread.name for thread in threading.enumerate())


def test_silent_clients_hold_few_threads_and_for_a_short_time(server, monkeypatch):
    monkeypatch.setattr(http, "HEAD_SECONDS", 0.2)
    monkeypatch.setattr(http, "BODY_SECONDS", 0.1)
    with ExitStack() as clients:
        for _ in range(3 * MOST_CLIENTS):
            clients.enter_context(socket.create_connection(server.address))
        wait_for(lambda: client_threads() == MOST_CLIENTS, "all threads are held")
        assert ask(server.address, "/healthz")[0] == 200
    assert client_threads() <= MOST_CLIENTS + MOST_LINGERING


def test_silent_clients_do_not_keep_a_probe_waiting(server, monkeypatch):
    """The oldest has to go, however long it may take to ask."""
    monkeypatch.setattr(http, "HEAD_SECONDS", 600)
    with ExitStack() as clients:
        for _ in range(9 * MOST_CLIENTS):
            client = clients.enter_context(socket.create_connection(server.address))
            client.sendall(b"GET /healthz HTT")
        assert ask(server.address, "/healthz")[0] == 200
        assert client_threads() <= MOST_CLIENTS + MOST_LINGERING


def test_clients_that_were_answered_and_linger_keep_no_probe_waiting(
    server, monkeypatch
):
    monkeypatch.setattr(http, "BODY_SECONDS", 600)
    with ExitStack() as clients:
        for _ in range(5 * MOST_CLIENTS):
            client = clients.enter_context(socket.create_connection(server.address))
            client.sendall(b"GET /healthz HTTP/1.1\r\n\r\n")
        assert ask(server.address, "/healthz")[0] == 200
        assert client_threads() <= MOST_CLIENTS + MOST_LINGERING


class StuckMetrics:
    """Metrics whose statement waits for a lock."""

    content_type = "text/plain"

    def __init__(self) -> None:
        self.go_on = threading.Event()

    def answer(self, query: str) -> bytes:
        self.go_on.wait()
        return b""


def test_metrics_that_are_stuck_keep_no_probe_waiting():
    metrics = StuckMetrics()
    loop = Loop(WorkerOptions())
    with ExitStack() as clients, Server(ANYWHERE, loop, None, metrics) as server:
        for _ in range(3 * MOST_CLIENTS):
            client = clients.enter_context(socket.create_connection(server.address))
            client.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        assert ask(server.address, "/healthz")[0] == 200
        metrics.go_on.set()


def test_client_that_sends_byte_by_byte_is_cut_off(server, monkeypatch):
    monkeypatch.setattr(http, "HEAD_SECONDS", 0.3)
    monkeypatch.setattr(http, "BODY_SECONDS", 0.1)
    with (
        pytest.raises((ConnectionResetError, BrokenPipeError)),
        socket.create_connection(server.address, timeout=60) as client,
    ):
        for _ in range(2_000):
            client.sendall(b"x")
            time.sleep(0.01)


def test_slow_clients_do_not_keep_the_server_from_closing(monkeypatch):
    monkeypatch.setattr(http, "HEAD_SECONDS", 600)
    with ExitStack() as clients:
        with Server(ANYWHERE, Loop(WorkerOptions())) as server:
            for _ in range(2 * MOST_CLIENTS):
                clients.enter_context(socket.create_connection(server.address))
            wait_for(lambda: client_threads() >= MOST_CLIENTS, "all threads are held")
            begun = time.monotonic()
        assert time.monotonic() - begun < SOON
        assert not server.thread.is_alive()
    wait_for(lambda: client_threads() == 0, "their threads have ended")


# Where it listens


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("8652", ("127.0.0.1", 8652)),
        (":8652", ("127.0.0.1", 8652)),
        ("0", ("127.0.0.1", 0)),
        ("0.0.0.0:80", ("0.0.0.0", 80)),
        ("localhost:65535", ("localhost", 65535)),
        ("my-host.example.com:1", ("my-host.example.com", 1)),
        ("[::1]:8652", ("::1", 8652)),
        ("[::]:8652", ("::", 8652)),
    ],
)
def test_address_is_a_port_and_loopback_by_default(text, address):
    assert http_address(text) == address


def test_addresses_are_written_as_urls_have_them():
    assert str(Address("::1", 80)) == "[::1]:80"
    assert str(Address("127.0.0.1", 80)) == "127.0.0.1:80"


def test_each_of_several_processes_has_a_port_of_its_own():
    address = Address("127.0.0.1", 8652)
    assert [address.for_child(n).port for n in (1, 2, 3)] == [8652, 8653, 8654]
    assert ANYWHERE.for_child(3) == ANYWHERE


def test_server_listens_on_ipv6():
    try:
        server = Server(Address("::1", 0), Loop(WorkerOptions()))
    except OSError:
        pytest.skip("This machine has no IPv6.")
    with server:
        assert ask(server.address, "/healthz")[0] == 200


@shared_queue
def test_address_in_use_is_an_error_before_the_worker_starts(server):
    with pytest.raises(CommandError, match="Cannot listen on --http 127") as it:
        call_command("runjobs", "--drain", "--http", str(server.address))
    assert "Address already in use" in str(it.value)
    assert it.value.returncode == 1
    assert not Worker.objects.exists()


@shared_queue
@pytest.mark.parametrize("host", ["nowhere.invalid", "..", "x" * 70])
def test_unknown_host_name_is_an_error(host):
    with pytest.raises(CommandError, match="Cannot listen on --http") as it:
        call_command("runjobs", "--drain", "--http", f"{host}:80")
    assert it.value.returncode == 1


def test_port_is_free_again_when_the_worker_has_stopped():
    loop = Loop(WorkerOptions())
    with Server(ANYWHERE, loop) as first:
        ask(first.address, "/healthz")
    with Server(first.address, loop) as second:
        assert ask(second.address, "/healthz")[0] == 200
    with pytest.raises(ConnectionRefusedError):
        ask(second.address, "/healthz")
