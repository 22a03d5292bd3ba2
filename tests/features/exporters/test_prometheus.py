"""Metrics: what is counted, how a scrape is bounded, and one port for all processes."""

import json
import socket
import threading
import time
from contextlib import ExitStack, contextmanager
from io import StringIO
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from django.core.management.base import OutputWrapper
from django.core.management.color import no_style
from django.test import RequestFactory
from prometheus_client.parser import text_string_to_metric_families

from benchmarks.ports import free_port
from pgjobs import enqueue, enqueue_many, task
from pgjobs.features.desk import chore as upkeep_figures
from pgjobs.features.desk import counting
from pgjobs.features.exporters import gauges as report
from pgjobs.features.exporters import prometheus
from pgjobs.features.exporters.gauges import CachedGauges
from pgjobs.features.exporters.prometheus import OTHERS, WorkerMetrics, attempts
from pgjobs.features.http import runjobs
from pgjobs.features.http.server import MOST_CLIENTS, Address, Server
from pgjobs.management.running import ConsoleReporter
from pgjobs.models import Figure, Job, Queue
from pgjobs.worker import Loop, WorkerOptions
from tests import tasks
from tests.actors import Hand, execute, hours, session
from tests.processes import (
    LONGEST_TEST,
    WorkerThread,
    running_worker,
    shared_queue,
    wait_for,
    wait_for_all,
)

pytestmark = shared_queue


@pytest.fixture(autouse=True)
def fresh_figures():
    prometheus.cached_gauges.cache_clear()


def parsed(text: str) -> dict[tuple, float]:
    """Return {(name, labels...): value} of all samples."""
    return {
        (sample.name, *(f"{k}={v}" for k, v in sorted(sample.labels.items()))): (
            sample.value
        )
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def scraped(url: str) -> dict[tuple, float]:
    with urlopen(url, timeout=60) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain")
        return parsed(answer.read().decode())


@contextmanager
def worker_with_metrics(siblings=(), process=1, **options):
    """A worker in this process, and the address of its metrics."""
    with WorkerThread(**options) as worker:
        wait_for(lambda: worker.loop.phase == "running", "the worker has started")
        metrics = WorkerMetrics(worker.loop, process, siblings)
        with Server(Address("127.0.0.1", 0), worker.loop, metrics=metrics) as server:
            yield f"http://{server.address}/metrics"


@task(max_attempts=2, backoff=lambda failures: 0)
def fail_and_retry():
    raise ValueError("no")


# Of a worker


def test_worker_counts_the_ends_of_attempts():
    enqueue_many([tasks.noop.bind() for _ in range(3)])
    enqueue(fail_and_retry)
    with worker_with_metrics(slots=3) as url:
        wait_for(lambda: not Job.objects.filter(finished_at=None).exists())
        found = scraped_when(url, processed=5)
    labels = ("process=1", "queue=default")
    assert scraped_processed(found) == {
        ("successful", "tests.noop"): 3,
        ("retry", fail_and_retry.name): 1,
        ("failed", fail_and_retry.name): 1,
    }
    count = ("pgjobs_job_duration_seconds_count", *labels, "task=tests.noop")
    assert found[count] == 3
    assert found["pgjobs_job_wait_seconds_count", *labels] == 5  # with the retry's
    largest = ("pgjobs_job_wait_seconds_bucket", "le=+Inf", *labels)
    assert found[largest] == 5
    assert found["pgjobs_worker_slots", "process=1", "state=free"] == 3
    assert found["pgjobs_workers", "state=alive"] == 1
    beat = found["pgjobs_worker_heartbeat_timestamp_seconds", "process=1"]
    assert 0 <= time.time() - beat < 60


def test_worker_counts_successes_that_it_deletes():
    enqueue_many([tasks.noop.using(keep="failed").bind() for _ in range(3)])
    with worker_with_metrics() as url:
        found = scraped_when(url, processed=3)
    assert scraped_processed(found) == {("successful", "tests.noop"): 3}
    assert not Job.objects.exists()


def scraped_when(url: str, processed: int) -> dict[tuple, float]:
    """Return a scrape that has counted so many attempts."""
    latest: list[dict[tuple, float]] = []

    def is_counted() -> bool:
        latest.append(scraped(url))
        numbers = (
            value
            for (name, *_), value in latest[-1].items()
            if name == "pgjobs_jobs_processed_total"
        )
        return sum(numbers) == processed

    wait_for(is_counted, "all attempts are counted")
    return latest[-1]


def scraped_processed(found) -> dict[tuple, float]:
    return {
        (labels[0].partition("=")[2], labels[-1].partition("=")[2]): value
        for (name, *labels), value in found.items()
        if name == "pgjobs_jobs_processed_total"
    }


def test_names_that_sql_invents_do_not_make_more_and_more_series(monkeypatch):
    monkeypatch.setattr(counting, "MOST_ROWS", 3)
    execute(
        "INSERT INTO pgjobs_job (task, queue_name)"
        " SELECT 'tests.noop', 'q' || number FROM generate_series(1, 20) AS number"
    )
    with WorkerThread(drain=True) as worker:
        worker.join()
    figures = counting.counted_by(worker.loop.observers)
    assert len(figures.totals()) == 4
    found = parsed(prometheus.text_of(attempts(figures.totals(), "1")).decode())
    numbers = [n for (name, *_), n in found.items() if name.endswith("processed_total")]
    # Which names are counted depends on when the worker stores what it has counted.
    assert len(numbers) <= 4
    assert sum(numbers) == 20
    # The task is of the project, and keeps its name.
    assert scraped_processed(found).keys() == {("successful", "tests.noop")}
    assert any(f"queue={OTHERS}" in labels for labels in found)


def test_counts_only_rise_while_the_worker_stores_them(monkeypatch):
    monkeypatch.setattr(upkeep_figures, "STORE_SECONDS", 0.05)
    enqueue_many([tasks.noop.bind() for _ in range(3)])
    with worker_with_metrics() as url:
        scraped_when(url, processed=3)
        wait_for(Figure.objects.exists, "the figures are stored")
        enqueue(tasks.noop)
        found = scraped_when(url, processed=4)
    labels = ("process=1", "queue=default")
    assert found["pgjobs_job_wait_seconds_count", *labels] == 4
    assert found["pgjobs_job_wait_seconds_sum", *labels] > 0


def test_fetches_are_counted_by_what_asks_for_them():
    with worker_with_metrics() as url:
        wait_for(lambda: enqueue(tasks.noop) and wake_ups(url)["notify"], "it listens")
    with worker_with_metrics(listen=False, poll=0.1) as url:
        wait_for(lambda: wake_ups(url)["poll"] > 2, "it polls")
        assert wake_ups(url)["notify"] == 0


def wake_ups(url: str) -> dict[str, float]:
    found = scraped(url)
    return {
        cause: found[f"pgjobs_{cause}_wakeups_total", "process=1"]
        for cause in ("notify", "poll")
    }


def test_worker_without_the_extra_has_no_metrics():
    with (
        Server(Address("127.0.0.1", 0), Loop(WorkerOptions())) as server,
        pytest.raises(HTTPError) as caught,
    ):
        urlopen(f"http://{server.address}/metrics", timeout=60)
    assert caught.value.code == 404
    assert "prometheus_client is not installed" in json.load(caught.value)["error"]


def test_worker_without_the_extra_says_so_at_its_start(monkeypatch):
    find_spec = "pgjobs.features.exporters.serving.find_spec"
    monkeypatch.setattr(find_spec, lambda name: None)
    out = StringIO()
    reporter = ConsoleReporter(OutputWrapper(out), no_style(), 1, "")
    options = {"http": Address("127.0.0.1", 0), "position": runjobs.position("1/1")}
    with runjobs.serving(Loop(WorkerOptions()), options, reporter):
        pass
    assert "No metrics: prometheus_client is not installed (pip" in out.getvalue()


# Of the database


def test_gauges_show_the_queues():
    enqueue_many([tasks.noop.bind(), tasks.noop.bind()])
    enqueue(tasks.noop.using(queue_name="mail", run_after=hours(1)))
    enqueue(tasks.noop.using(lock="door", queue_name="mail"))
    enqueue(tasks.noop.using(priority=50))
    Hand().record_and_claim(limit=1)
    Queue.objects.create(name="calm")
    Queue.objects.get(name="calm").pause()
    Job.objects.filter(status="READY").update(run_after="2020-01-01T00:00:00Z")
    found = parsed(view().content.decode())
    jobs = {key[1:]: value for key, value in found.items() if key[0] == "pgjobs_jobs"}
    assert jobs == {
        ("queue=default", "state=ready"): 2,
        ("queue=default", "state=running"): 1,
        ("queue=mail", "state=scheduled"): 1,
        ("queue=mail", "state=waiting"): 1,
    }
    assert found["pgjobs_queue_oldest_seconds", "queue=default"] < 60
    assert found["pgjobs_queue_paused", "queue=calm"] == 1
    assert found["pgjobs_database_up",] == 1


def test_gauge_counts_problems_by_kind_and_names_nothing():
    Job.objects.create(
        task="tests.noop", status="READY", enqueued_at="2020-01-01T00:00:00Z"
    )
    text = view().content.decode()
    found = parsed(text)
    name = "pgjobs_remarks"
    assert found[name, "kind=no_worker", "level=problem"] == 1
    assert found[name, "kind=queue_unserved", "level=problem"] == 1
    assert found[name, "kind=queue_paused", "level=remark"] == 0


def view(method: str = "get"):
    return prometheus.metrics(getattr(RequestFactory(), method)("/metrics"))


def test_view_is_read_only():
    assert view("post").status_code == 405
    assert view()["Cache-Control"] == "no-store"


def test_scrapes_ask_the_database_once_for_a_while(monkeypatch):
    asked = []
    monkeypatch.setattr(
        report, "read_gauges", lambda database: asked.append(database) or []
    )
    for _ in range(50):
        view()
    assert asked == ["default"]


def test_slow_database_does_not_hold_up_a_scrape(monkeypatch):
    monkeypatch.setattr(report, "LONGEST_SECONDS", 1.0)
    with session() as other:
        other.begin()
        other.execute("LOCK pgjobs_job")
        # The lock is held until both have ended.
        found = parsed(view().content.decode())
        view()
    assert found["pgjobs_database_up",] == 0
    assert not any(name == "pgjobs_jobs" for name, *_ in found)


def test_database_that_is_away_does_not_hold_up_a_scrape(monkeypatch):
    def refuse(*args, **kwargs):
        raise report.psycopg.OperationalError("no server")

    monkeypatch.setattr(report, "connect", refuse)
    assert CachedGauges("default").get() is None


def test_figures_are_asked_for_again_later(monkeypatch):
    cached = CachedGauges("default")
    enqueue(tasks.noop)
    assert cached.get()
    enqueue(tasks.noop.using(queue_name="mail"))
    monkeypatch.setattr(report, "FRESH_SECONDS", 0.0)
    assert "mail" in {figure.name for figure in cached.get()}


# Several processes


def test_one_scrape_brings_the_processes_of_a_supervisor_together():
    enqueue_many([tasks.noop.bind() for _ in range(4)])
    with worker_with_metrics(process=2) as second:
        siblings = [f"{second}?own", f"http://127.0.0.1:{free_port()}/metrics?own"]
        with worker_with_metrics(siblings) as first:
            wait_for_all("SUCCESSFUL")
            found = scraped_when(first, processed=4)
    assert found["pgjobs_worker_slots", "process=1", "state=free"] == 4
    assert found["pgjobs_worker_slots", "process=2", "state=free"] == 4
    assert found["pgjobs_workers", "state=alive"] == 2


def test_scrapers_that_never_read_delay_no_job():
    with running_worker() as loop, ExitStack() as clients:
        server = clients.enter_context(
            Server(Address("127.0.0.1", 0), loop, metrics=WorkerMetrics(loop))
        )
        for _ in range(2 * MOST_CLIENTS):
            client = clients.enter_context(socket.create_connection(server.address))
            client.sendall(b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n" * 50)
        for _ in range(20):
            enqueue(tasks.noop)
        wait_for_all("SUCCESSFUL")


@pytest.mark.parametrize("answer", [b"HTTP/1.0 200 OK\r\n\r\n\xff\xfe{", b"rubbish"])
def test_sibling_that_answers_rubbish_is_skipped(answer):
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(20)
        port = server.getsockname()[1]

        def serve():
            client, _ = server.accept()
            client.recv(65536)
            client.sendall(answer)
            client.close()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        assert prometheus.fetched(f"http://127.0.0.1:{port}/metrics?own") == []
        thread.join(20)


def test_processes_of_a_command_serve_all_metrics_on_each_port(start_worker):
    port = free_port(2)
    worker = start_worker("--processes", "2", "--http", str(port), registered=False)

    def both() -> dict | None:
        try:
            found = scraped(f"http://127.0.0.1:{port}/metrics")
        except OSError:
            assert worker.is_alive, worker.printed
            return None
        processes = {key[1] for key in found if key[0] == "pgjobs_worker_slots"}
        return found if processes == {"process=1", "process=2"} else None

    wait_for(both, "both processes show their metrics", timeout=LONGEST_TEST)
    assert worker.stop() == 0
