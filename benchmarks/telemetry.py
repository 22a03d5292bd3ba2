"""What telemetry costs: `python -m benchmarks telemetry [--jobs N] [--rounds N]`.

Processor time of the application and of a worker, per job, with each part of telemetry
switched on. The parts alternate, so that a noisy machine is noisy for all of them.
"""

import logging
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from functools import partial
from typing import Any

from .capacity import own_project

WORKER = {"slots": 4, "prefetch": 50}
# The task to run, and what happens beside the loop of the worker.
Switched = tuple[str, Callable[[Any], AbstractContextManager]]
DSN = "https://key@localhost/1"

tenant: ContextVar[str] = ContextVar("tenant", default="acme")


@contextmanager
def around(job: Any) -> Iterator[None]:
    """Surround an attempt, as the smallest middleware does."""
    yield


@contextmanager
def settings(task: str = "noop", **given: Any) -> Iterator[Switched]:
    """Switch on what settings of pgjobs switch on."""
    from django.test import override_settings

    with override_settings(PGJOBS=given):
        yield task, nullcontext


@contextmanager
def metrics() -> Iterator[Switched]:
    yield "noop", scraping


@contextmanager
def scraping(loop: Any) -> Iterator[None]:
    """Scrape the worker ten times a second, far more often than Prometheus does."""
    from pgjobs.features.exporters.prometheus import WorkerMetrics

    ended = threading.Event()

    def scrape() -> None:
        while not ended.wait(0.1):
            WorkerMetrics(loop).answer("")

    thread = threading.Thread(target=scrape)
    thread.start()
    yield
    ended.set()
    thread.join()


@contextmanager
def traces() -> Iterator[Switched]:
    """Trace without an exporter, whose own cost is not that of pgjobs."""
    from opentelemetry.sdk.trace import TracerProvider

    from pgjobs.contrib.otel import PgJobsInstrumentor

    PgJobsInstrumentor().instrument(tracer_provider=TracerProvider())
    try:
        yield "noop", nullcontext
    finally:
        PgJobsInstrumentor().uninstrument()


@contextmanager
def errors() -> Iterator[Switched]:
    """Send a tenth of the traces to nowhere."""
    import sentry_sdk
    from sentry_sdk.transport import Transport

    from pgjobs.contrib import sentry

    class Nowhere(Transport):
        def capture_envelope(self, envelope: Any) -> None:
            pass

    sentry.install()
    sentry_sdk.init(
        DSN, transport=Nowhere, traces_sample_rate=0.1, default_integrations=False
    )
    try:
        yield "noop", nullcontext
    finally:
        sentry.uninstall()
        sentry_sdk.get_global_scope().set_client(None)


@contextmanager
def receiver() -> Iterator[Switched]:
    from pgjobs.signals import job_succeeded

    def receive(**named: Any) -> None:
        pass

    job_succeeded.connect(receive)
    try:
        yield "noop", nullcontext
    finally:
        job_succeeded.disconnect(receive)


# What each part is called in docs/telemetry.md, and what switches it on.
PARTS: dict[str, Callable[[], AbstractContextManager[Switched]]] = {
    "nothing": settings,
    "`META`, one context variable": partial(
        settings, META=["benchmarks.telemetry.tenant"]
    ),
    "`MIDDLEWARE`, one": partial(settings, MIDDLEWARE=["benchmarks.telemetry.around"]),
    "`KEEP_LOGS`, for tasks that log nothing": partial(settings, KEEP_LOGS="INFO"),
    "`KEEP_LOGS`, one line for each job": partial(settings, "log", KEEP_LOGS="INFO"),
    "a receiver of `job_succeeded`": receiver,
    "Prometheus, ten scrapes a second": metrics,
    "OpenTelemetry, spans without an exporter": traces,
    "Sentry, with a tenth of the traces": errors,
}


def measure(part: Callable, jobs: int) -> tuple[float, float]:
    """Return the microseconds that a job costs the application and a worker."""
    from pgjobs import enqueue_many
    from pgjobs.models import Job
    from pgjobs.worker import Loop, WorkerOptions

    from .project.tasks import TASKS

    with part() as (name, beside):
        begun = time.process_time()
        enqueue_many([TASKS[name].bind(number) for number in range(jobs)])
        enqueued = time.process_time()
        loop = Loop(WorkerOptions(drain=True, **WORKER))
        with beside(loop):
            loop.run()
        ended = time.process_time()
    if (number := Job.objects.filter(status="SUCCESSFUL").count()) != jobs:
        raise RuntimeError(f"{number} of {jobs} jobs have succeeded.")
    Job.objects.all().delete()
    return (enqueued - begun) / jobs * 1e6, (ended - enqueued) / jobs * 1e6


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(jobs: int, rounds: int, url: str | None, **server: Any) -> int:
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in PARTS}
    with own_project(url, "telemetry", **server):
        logging.getLogger("benchmarks").setLevel(logging.INFO)
        measure(settings, jobs)  # what is loaded and prepared once
        for _ in range(rounds):
            for name, part in PARTS.items():
                found[name].append(measure(part, jobs))
    say("| switched on | enqueue, us per job | worker, us per job |\n|---|---|---|")
    for name, costs in found.items():
        enqueue, worker = map(statistics.median, zip(*costs, strict=True))
        say(f"| {name} | {enqueue:.0f} | {worker:.0f} |")
    return 0
