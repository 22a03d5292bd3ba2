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
    pinned_seconds: float = 120.0
    million: int = 1_000_000  # rows of a large table
    # Until a worker is quite idle; PostgreSQL's counters, too, lag behind by a second.
    settling_seconds: float = 2.0


Measure = Callable[[Stage, Sizes], Figures]


@dataclass(frozen=True)
class Case:
    """A measurement, and which systems it is meant for."""

    measure: Measure
    title: str
    # Whether it depends on how the worker is run; if not, one way stands for all.
    all_ways: bool = False
    fills: bool = False  # it needs an adapter that can fill its table
    against: str | None = None  # the case that shows how it is otherwise


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
    return drained(stage, sizes)


def drain_two(stage: Stage, sizes: Sizes) -> Figures:
    return drained(stage, sizes, workers=2)


def drain_fresh(stage: Stage, sizes: Sizes) -> Figures:
    return drained(stage, sizes, analyzed=False)


def drain_backlog(stage: Stage, sizes: Sizes) -> Figures:
    return drained(stage, sizes, ready=sizes.million)


def drained(
    stage: Stage,
    sizes: Sizes,
    workers: int = 1,
    analyzed: bool = True,
    ready: int = 0,
) -> Figures:
    """Return how fast waiting jobs are run and recorded as done.

    The first tenth is not measured: meanwhile the workers start. `ready`: how many
    more jobs wait, which are not waited for.
    """
    number = max(int(stage.system.rate * sizes.drain_seconds), 50)
    stage.enqueue_stamp()  # proves that the jobs ran, and did not just end
    if ready:
        stage.producer.order("fill", status="ready", number=ready)
    stage.producer.order("enqueue_at_once", number=number)
    if analyzed:
        stage.settle()
    before = stage.look()
    for _ in range(workers):
        stage.start_worker()
    begun = stage.watch(down_to=before.unfinished - 0.1 * number)
    ended = stage.watch(down_to=before.unfinished - number)
    if begun.unfinished == ended.unfinished:
        begun = before  # it was over at first sight: the start counts, too
    stage.wait_for_stamps(1)
    jobs = begun.unfinished - ended.unfinished
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
    waits, _ = stage.pick_up(number, rate)
    return centiles("", waits) | {"p99 ms": centile(99, waits), "max ms": max(waits)}


def pinned(stage: Stage, sizes: Sizes) -> Figures:
    """Return what 1,000 jobs a second suffer while a snapshot keeps dead rows alive."""
    stage.settle()
    stage.start_idle_worker(sizes.settling_seconds)
    number = int(1_000 * sizes.pinned_seconds)
    with stage.connection.transaction():
        stage.connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        stage.connection.execute("SELECT")
        waits, enqueues = stage.pick_up(number, rate=1_000, batch=4)
    window = number // 8
    return (
        centiles("at the end, ", waits[-window:])
        | centiles("at the beginning, ", waits[:window])
        | centiles("enqueue at the end, ", enqueues[-window:])
    )


def centiles(what: str, values: list[float]) -> Figures:
    return {f"{what}p50 ms": centile(50, values), f"{what}p95 ms": centile(95, values)}


def centile(which: int, values: list[float]) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[which - 1]


def among(measure: Measure, **millions: float) -> Measure:
    """Return the measurement on a table that holds so many million other rows."""

    def measure_among(stage: Stage, sizes: Sizes) -> Figures:
        for status, number in millions.items():
            rows = int(number * sizes.million)
            stage.producer.order("fill", status=status, number=rows)
        return measure(stage, sizes)

    return measure_among


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


MIXED = {"finished": 1, "scheduled": 0.1, "waiting": 0.1}
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
    "drain-fresh": Case(
        drain_fresh, "Drain a table that was never analyzed", against="drain"
    ),
    "drain-mixed": Case(
        among(drain, **MIXED),
        "Drain beside 1 M finished, 100 k scheduled and 100 k waiting jobs",
        against="drain",
        fills=True,
    ),
    "pickup-mixed": Case(
        among(pickup, **MIXED),
        "COMMIT to start beside 1 M finished, 100 k scheduled and 100 k waiting jobs",
        against="pickup",
        fills=True,
    ),
    "drain-scheduled": Case(
        among(drain, scheduled=1),
        "Drain beside 1 M scheduled jobs",
        against="drain",
        fills=True,
    ),
    "drain-backlog": Case(
        drain_backlog, "Drain a backlog of 1 M jobs", against="drain", fills=True
    ),
    "drain-10m": Case(
        among(drain, finished=10),
        "Drain beside 10 M finished jobs",
        against="drain",
        fills=True,
    ),
    "pickup-10m": Case(
        among(pickup, finished=10),
        "COMMIT to start beside 10 M finished jobs",
        against="pickup",
        fills=True,
    ),
    "pinned": Case(
        pinned, "COMMIT to start at 1,000 jobs/s while a snapshot is held for 120 s"
    ),
}
QUICK = ["enqueue", "enqueue-many", "drain", "pickup"]
QUICK_SIZES = Sizes(
    rounds=1, singles=1_000, drain_seconds=2, pickups=100, pickup_rate=50
)
