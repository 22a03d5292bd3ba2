"""What is measured. Each case gets a system on a fresh stage, and returns figures."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

from .stage import Stage

Figures = dict[str, float]  # by name with unit; the first one is what is compared


@dataclass(frozen=True)
class Sizes:
    """How much is measured; the larger, the steadier the figures."""

    rounds: int = 5
    singles: int = 2_000
    many: int = 10_000
    drain_seconds: float = 4.0  # that a drain is to last at the system's usual rate
    pickups: int = 500
    pickup_rate: float = 25.0
    steady_seconds: float = 20.0
    idle_seconds: float = 10.0
    # Until a worker is quite idle; PostgreSQL's counters, too, lag behind by a second.
    settling_seconds: float = 2.0


@dataclass(frozen=True)
class Case:
    """A measurement, and which systems it is meant for."""

    measure: Callable[[Stage, Sizes], Figures]
    title: str
    # Whether it depends on how the worker is run; if not, one way stands for all.
    all_ways: bool = False


def enqueue(stage: Stage, sizes: Sizes) -> Figures:
    return enqueued(stage, "enqueue_singly", sizes.singles)


def enqueue_many(stage: Stage, sizes: Sizes) -> Figures:
    return enqueued(stage, "enqueue_at_once", sizes.many)


def enqueued(stage: Stage, act: str, number: int) -> Figures:
    stage.producer.order(act, number=100)  # opens the connection, warms up
    cpu = stage.producer.cpu_seconds
    seconds = stage.producer.order(act, number=number)
    return {
        "jobs/s": number / seconds,
        "producer CPU us/job": (stage.producer.cpu_seconds - cpu) / number * 1e6,
    }


def drain(stage: Stage, sizes: Sizes) -> Figures:
    return drained(stage, sizes, workers=1)


def drain_two(stage: Stage, sizes: Sizes) -> Figures:
    return drained(stage, sizes, workers=2)


def drained(stage: Stage, sizes: Sizes, workers: int) -> Figures:
    """Return how fast waiting jobs are run, until all are recorded as done.

    The first tenth is not measured: meanwhile the workers start.
    """
    number = max(int(stage.system.rate * sizes.drain_seconds), 50)
    stage.producer.order("enqueue_at_once", number=number)
    stage.enqueue_stamp()  # the last one, to prove that jobs ran and did not just end
    stage.settle()
    before = stage.look()
    for _ in range(workers):
        stage.start_worker()
    begun = stage.watch(down_to=0.9 * number)
    if not begun.unfinished:
        begun = before  # it was over at first sight: the start counts, too
    ended = stage.watch(down_to=0)
    stage.wait_for_stamps(1)
    jobs = begun.unfinished
    return {
        "jobs/s": jobs / (ended.time - begun.time),
        "worker CPU us/job": (ended.worker_cpu - begun.worker_cpu) / jobs * 1e6,
        "server CPU us/job": (ended.server_cpu - begun.server_cpu) / jobs * 1e6,
    }


def pickup(stage: Stage, sizes: Sizes) -> Figures:
    return picked_up(stage, sizes, sizes.pickups, sizes.pickup_rate)


def steady(stage: Stage, sizes: Sizes) -> Figures:
    return picked_up(stage, sizes, int(200 * sizes.steady_seconds), 200)


def picked_up(stage: Stage, sizes: Sizes, number: int, rate: float) -> Figures:
    """Return how long after its commit a job starts, at so many jobs a second."""
    stage.settle()
    stage.start_idle_worker(sizes.settling_seconds)
    first = stage.next_number
    enqueued = stage.producer.order(
        "enqueue_steadily", first=first, number=number, rate=rate
    )
    started = stage.wait_for_stamps(first - 1 + number)
    waits = [1e3 * (started[each] - after) for each, _, after in enqueued]
    centiles = statistics.quantiles(waits, n=100, method="inclusive")
    return {
        "p50 ms": centiles[49],
        "p95 ms": centiles[94],
        "p99 ms": centiles[98],
        "max ms": max(waits),
    }


def idle(stage: Stage, sizes: Sizes) -> Figures:
    worker = stage.start_idle_worker(sizes.settling_seconds)
    begun, cpu = time.perf_counter(), worker.cpu_seconds
    transactions = stage.transactions()
    time.sleep(sizes.idle_seconds)
    seconds = time.perf_counter() - begun
    return {
        "transactions/s": (stage.transactions() - transactions) / seconds,
        "worker CPU %": 100 * (worker.cpu_seconds - cpu) / seconds,
    }


CASES = {
    "enqueue": Case(enqueue, "Enqueue one job, its own commit"),
    "enqueue-many": Case(enqueue_many, "Enqueue many at once"),
    "drain": Case(
        drain, "Drain with one worker of 10 slots, no-op jobs", all_ways=True
    ),
    "drain-two": Case(
        drain_two, "Drain with two workers of 10 slots, no-op jobs", all_ways=True
    ),
    "pickup": Case(pickup, "COMMIT of an enqueue to start of the job, idle worker"),
    "steady": Case(steady, "COMMIT to start of the job at a steady 200 jobs/s"),
    "idle": Case(idle, "What an idle worker costs"),
}
QUICK = ["enqueue", "enqueue-many", "drain", "pickup"]
QUICK_SIZES = Sizes(
    rounds=1, singles=1_000, drain_seconds=2, pickups=100, pickup_rate=50
)
