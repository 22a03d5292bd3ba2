"""Metrics for Prometheus: `runjobs --http` serves /metrics, and a view does.

Needs the package prometheus-client: `pip install django-pgjobs[prometheus]`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from http.client import HTTPException
from itertools import accumulate
from time import monotonic, time
from typing import TYPE_CHECKING
from urllib.request import ProxyHandler, build_opener

from django.http import HttpRequest, HttpResponse
from django.views.decorators.cache import cache_control
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from ...conf import settings
from ...worker import Loop
from ..desk.counting import MOST_BUCKETS, Counted, Sums, counted_by, upper_bound
from .gauges import CachedGauges, Gauge

if TYPE_CHECKING:
    from ..isolation.pool import Figures

SIBLING_SECONDS = 1.0  # how long another process of the supervisor may take
LARGEST_ANSWER = 10_000_000  # bytes of it
OTHERS = "(others)"  # the tasks beyond the number that a worker counts by name
OUTCOMES = {
    "successful": "successful",
    "failed": "failed",
    "cancelled": "cancelled",
    "retried": "retry",
    "put_off": "put_off",
}
SHOWN_BUCKETS = range(33, 107, 4)  # from 4 ms, each about twice as long, to 34 min
OWN = "own"  # a query that asks for the figures of one process alone


@require_safe
@cache_control(no_store=True)
def metrics(request: HttpRequest) -> HttpResponse:
    """Answer a scrape of the web side: the queues and workers in the database."""
    body = text_of(of_database(cached_gauges(settings.DATABASE).get()))
    return HttpResponse(body, content_type=CONTENT_TYPE_LATEST)


class WorkerMetrics:
    """What a worker's process answers to scrapes.

    `process`: its number among those of its supervisor. `siblings`: the addresses of
    the metrics of the others, which one scrape brings together.
    """

    content_type = CONTENT_TYPE_LATEST

    def __init__(
        self,
        loop: Loop,
        process: int = 1,
        siblings: Sequence[str] = (),
    ):
        self.loop = loop
        self.process = str(process)
        self.siblings = siblings

    def answer(self, query: str) -> bytes:
        """Return the metrics of this process, or of all and of the database."""
        families = list(of_worker(self.loop, self.process))
        if query == OWN:
            return text_of(families)
        for url in self.siblings:
            families += fetched(url)
        cached = cached_gauges(self.loop.options.database)
        return text_of([*together(families), *of_database(cached.get())])


@cache
def cached_gauges(database: str) -> CachedGauges:
    return CachedGauges(database)


def text_of(families: Iterable[Metric]) -> bytes:
    """Return metrics in the format of Prometheus."""

    class Given(Collector):
        def collect(self) -> Iterable[Metric]:
            return families

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Given())
    return generate_latest(registry)


def fetched(url: str) -> list[Metric]:
    """Return what another process has counted, or nothing if it does not answer."""
    direct = build_opener(ProxyHandler({}))
    with suppress(OSError, HTTPException, ValueError):
        with direct.open(url, timeout=SIBLING_SECONDS) as answer:
            text = answer.read(LARGEST_ANSWER).decode()
        return list(text_string_to_metric_families(text))
    return []


def together(families: Iterable[Metric]) -> Iterator[Metric]:
    """Join metrics of the same name, which the format wants to stand together."""
    by_name: dict[str, Metric] = {}
    for family in families:
        known = by_name.setdefault(family.name, family)
        if known is not family:
            known.samples += family.samples
    yield from by_name.values()


# Of the database


def of_database(figures: Sequence[Gauge] | None) -> Iterator[Metric]:
    """Yield the gauges of the queues. Without figures, say only that there are none."""
    yield GaugeMetricFamily(
        "pgjobs_database_up",
        "Whether the database returned the figures of the queues in time.",
        value=figures is not None,
    )
    if figures is None:
        return
    jobs = GaugeMetricFamily(
        "pgjobs_jobs", "Unfinished jobs.", labels=["queue", "state"]
    )
    oldest = GaugeMetricFamily(
        "pgjobs_queue_oldest_seconds",
        "For how long the oldest READY job has been due.",
        labels=["queue"],
    )
    paused = GaugeMetricFamily(
        "pgjobs_queue_paused", "Whether the queue is paused.", labels=["queue"]
    )
    workers = GaugeMetricFamily("pgjobs_workers", "Workers.", labels=["state"])
    remarks = GaugeMetricFamily(
        "pgjobs_remarks",
        "Problems and remarks that are not acknowledged.",
        labels=["kind", "level"],
    )
    for kind, name, state, number, seconds in figures:
        if kind == "jobs":
            jobs.add_metric([name, state.lower()], number)
            if seconds is not None:
                oldest.add_metric([name], max(seconds, 0.0))
        elif kind == "paused":
            paused.add_metric([name], number)
        elif kind == "remarks":
            remarks.add_metric([name, state], number)
        else:
            workers.add_metric([state], number)
    yield from (jobs, oldest, paused, workers, remarks)


# Of a worker


def of_worker(loop: Loop, process: str) -> Iterator[Metric]:
    if loop.phase != "starting":
        counted = counted_by(loop.observers)
        yield from attempts(counted.totals(), process)
        yield from wake_ups(counted, process)
    yield from gauges(loop, process)
    for each in loop.executor.beside:
        yield from of_children(each.figures(), process)


def of_children(figures: "Figures", process: str) -> Iterator[Metric]:
    """Yield the processes of isolated jobs, and how many died under one."""
    children = GaugeMetricFamily(
        "pgjobs_isolated_processes",
        "Processes of isolated jobs.",
        labels=["state", "process"],
    )
    children.add_metric(["busy", process], figures.busy)
    children.add_metric(["idle", process], figures.idle)
    memory = GaugeMetricFamily(
        "pgjobs_isolated_memory_bytes",
        "Memory of the processes of isolated jobs, with what these have started.",
        labels=["process"],
    )
    memory.add_metric([process], figures.memory)
    deaths = CounterMetricFamily(
        "pgjobs_isolated_deaths",
        "Processes that were killed, or died, under a job.",
        labels=["cause", "process"],
    )
    for cause, number in figures.deaths.items():
        deaths.add_metric([cause, process], number)
    yield from (children, memory, deaths)


def attempts(totals: dict[tuple[str, str], Sums], process: str) -> Iterator[Metric]:
    counter = CounterMetricFamily(
        "pgjobs_jobs_processed",
        "Attempts that have ended.",
        labels=["queue", "task", "outcome", "process"],
    )
    durations = HistogramMetricFamily(
        "pgjobs_job_duration_seconds",
        "From the claim to the end of an attempt.",
        labels=["queue", "task", "process"],
    )
    waits = HistogramMetricFamily(
        "pgjobs_job_wait_seconds",
        "From the time when a job was due to its claim.",
        labels=["queue", "process"],
    )
    of_queue: dict[str, Sums] = {}
    for (queue, task), sums in totals.items():
        names = [queue or OTHERS, task or OTHERS]
        for column, outcome in OUTCOMES.items():
            if number := getattr(sums, column):
                counter.add_metric([*names, outcome, process], number)
        buckets = buckets_of(sums.run_times)
        durations.add_metric([*names, process], buckets, sums.seconds)
        of_queue.setdefault(names[0], Sums()).add(sums)
    for name, sums in of_queue.items():
        waits.add_metric([name, process], buckets_of(sums.wait_times), sums.waited)
    yield from (counter, durations, waits)


def buckets_of(counts: Mapping[int, int]) -> list[tuple[str, float]]:
    """Return cumulative buckets: each counts what took no longer than its bound."""
    sums = list(accumulate(float(counts.get(at, 0)) for at in range(MOST_BUCKETS)))
    shown = [(f"{upper_bound(each):.6g}", sums[each]) for each in SHOWN_BUCKETS]
    return [*shown, ("+Inf", sums[-1])]


def wake_ups(counted: Counted, process: str) -> Iterator[Metric]:
    """Yield how often each cause made an idle worker fetch."""
    for cause, number in (
        ("notify", counted.notifications),
        ("poll", counted.polls),
    ):
        family = CounterMetricFamily(
            f"pgjobs_{cause}_wakeups",
            f"Fetches of an idle worker, woken by a {cause}.",
            labels=["process"],
        )
        family.add_metric([process], number)
        yield family


def gauges(loop: Loop, process: str) -> Iterator[Metric]:
    busy = min(len(loop.in_flight.jobs), loop.options.slots)
    slots = GaugeMetricFamily(
        "pgjobs_worker_slots", "Slots of the worker.", labels=["state", "process"]
    )
    slots.add_metric(["busy", process], busy)
    slots.add_metric(["free", process], loop.options.slots - busy)
    yield slots
    beat = GaugeMetricFamily(
        "pgjobs_worker_heartbeat_timestamp_seconds",
        "When the worker gave its last sign of life.",
        labels=["process"],
    )
    if loop.phase != "starting":
        beat.add_metric([process], time() - (monotonic() - loop.heartbeat.last_beat))
    yield beat
