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

    rounds: int = 3
    singles: int = 4_000
    many: int = 10_000
    drain_seconds: float = 2.5  # that a drain is to last at the system's usual rate
    pickups: int = 200
    pickup_rate: float = 25.0
    wake_ups: int = 10_000
    steady_seconds: float = 5.0
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
    needs_worker: bool = True
    # How fast a system has to be for it, in jobs/s; of pgjobs and bare SQL all are.
    rate: float = 0
    rivals: bool = True  # or pgjobs and bare SQL alone
    once: bool = False  # it takes long: the first round has to do
    beside: str | None = None  # what else is in the table: a name in FILLINGS
    against: str | None = None  # the case that shows how it is otherwise


# Millions of jobs that are there before a measurement begins, by status.
FILLINGS = {
    "mixed": {"finished": 1, "scheduled": 0.1, "waiting": 0.1},
    "scheduled": {"scheduled": 1},
    "10m": {"finished": 10},
}


def enqueue(stage: Stage, sizes: Sizes) -> Figures:
    return enqueued(stage, "enqueue_singly", sizes.singles)


def enqueue_many(stage: Stage, sizes: Sizes) -> Figures:
    return enqueued(stage, "enqueue_at_once", sizes.many)


def enqueued(stage: Stage, act: str, number: int) -> Figures:
    stage.producer.order(act, number=100)  # opens the connection, warms up
    cpu, server_cpu = stage.producer.cpu_seconds, stage.store_cpu_seconds
    seconds = stage.producer.order(act, number=number)
    cpu = stage.producer.cpu_seconds - cpu
    server_cpu = stage.store_cpu_seconds - server_cpu
    return {
        "jobs/s": number / seconds,
        "producer CPU us/job": cpu / number * 1e6,
        "server CPU us/job": server_cpu / number * 1e6,
    }


def drain(stage: Stage, sizes: Sizes) -> Figures:
    return drained(stage, sizes)


def drain_two(stage: Stage, sizes: Sizes) -> Figures:
    return drained(stage, sizes, workers=2)


def drain_four(stage: Stage, sizes: Sizes) -> Figures:
    return drained(stage, sizes, workers=4)


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

    Its first jobs are not measured: meanwhile the workers start. `ready`: how many
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
    begun = stage.watch(down_to=before.unfinished - stage.system.start * number)
    ended = stage.watch(down_to=before.unfinished - number)
    if begun.unfinished == ended.unfinished:
        begun = before  # it was over at first sight: the start counts, too
    stage.wait_for_stamps(1)
    jobs, seconds = begun.unfinished - ended.unfinished, ended.time - begun.time
    return {
        "jobs/s": jobs / seconds,
        "worker CPU us/job": (ended.worker_cpu - begun.worker_cpu) / jobs * 1e6,
        "server CPU us/job": (ended.server_cpu - begun.server_cpu) / jobs * 1e6,
        "worker cores": (ended.worker_cpu - begun.worker_cpu) / seconds,
        "server cores": (ended.server_cpu - begun.server_cpu) / seconds,
    }


def stored(stage: Stage, sizes: Sizes) -> Figures:
    """Return what jobs write from their enqueue to their end, and what remains of it.

    Each is enqueued with a commit of its own. A worker runs them all afterwards. There
    is no checkpoint before: after one, the log takes an image of each page.
    """
    log, tables, indexes = stage.bytes_written()
    stage.producer.order("enqueue_singly", number=sizes.singles)
    stage.start_worker()
    stage.watch(down_to=0)
    after = stage.bytes_written()
    return {
        "log bytes/job": (after[0] - log) / sizes.singles,
        "table bytes/job": (after[1] - tables) / sizes.singles,
        "index bytes/job": (after[2] - indexes) / sizes.singles,
    }


def pickup(stage: Stage, sizes: Sizes) -> Figures:
    return picked_up(stage, sizes, sizes.pickups, sizes.pickup_rate)


def steady(stage: Stage, sizes: Sizes) -> Figures:
    return picked_up(stage, sizes, int(200 * sizes.steady_seconds), 200)


def picked_up(stage: Stage, sizes: Sizes, number: int, rate: float) -> Figures:
    """Return how long after its commit a job starts, at so many jobs a second."""
    stage.settle()
    stage.start_idle_worker(sizes.settling_seconds)
    return waited(stage.pick_up(number, rate)[0])


def wake_up(stage: Stage, sizes: Sizes) -> Figures:
    """Return how long jobs wait of which each has to wake the worker by itself."""
    stage.settle()
    stage.start_idle_worker(sizes.settling_seconds)
    waits = stage.wake_up(sizes.wake_ups)
    return waited(waits) | {"over 1 s": sum(wait > 1_000 for wait in waits)}


def waited(waits: list[float]) -> Figures:
    return centiles("", waits) | {"p99 ms": centile(99, waits), "max ms": max(waits)}


def pinned(stage: Stage, sizes: Sizes) -> Figures:
    """Return what 1,000 jobs a second suffer while a snapshot keeps dead rows alive."""
    stage.settle()
    stage.start_idle_worker(sizes.settling_seconds)
    number = int(PINNED_RATE * sizes.pinned_seconds)
    with stage.connection.transaction():
        stage.connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        stage.connection.execute("SELECT")
        waits, enqueues = stage.pick_up(number, rate=PINNED_RATE, batch=4)
    windows = [
        centiles("", waits[number * each // 8 : number * (each + 1) // 8])
        for each in range(8)
    ]
    # The first window is left out of the worst: there the tables are fresh.
    worst = {name: max(each[name] for each in windows[1:]) for name in windows[0]}
    return (
        {f"at the end, {name}": value for name, value in windows[-1].items()}
        | {f"at the beginning, {name}": value for name, value in windows[0].items()}
        | {f"worst eighth, {name}": value for name, value in worst.items()}
        | {
            "enqueue at the beginning, p50 ms": centile(50, enqueues[: number // 8]),
            "enqueue at the end, p50 ms": centile(50, enqueues[-number // 8 :]),
        }
    )


def centiles(what: str, values: list[float]) -> Figures:
    return {f"{what}p50 ms": centile(50, values), f"{what}p95 ms": centile(95, values)}


def centile(which: int, values: list[float]) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[which - 1]


def idle(stage: Stage, sizes: Sizes) -> Figures:
    """Return what an idle worker asks of its store, and what it does itself."""
    unit, number = stage.count_requests()
    worker = stage.start_idle_worker(sizes.settling_seconds + STARTING_SECONDS)
    begun, cpu = time.perf_counter(), worker.cpu_seconds
    requests = number()
    time.sleep(sizes.idle_seconds)
    seconds = time.perf_counter() - begun
    return {
        unit: (number() - requests) / seconds,
        "worker CPU %": 100 * (worker.cpu_seconds - cpu) / seconds,
    }


# After its start a worker does all its chores once, and a session of PostgreSQL tells
# what it has counted after ten seconds at the latest.
STARTING_SECONDS = 10.0
PINNED_RATE = 1_000  # jobs a second, in batches of four
ENQUEUING = {"needs_worker": False}
OWN = {"rivals": False}
CASES = {
    "enqueue": Case(enqueue, "Enqueue one job, its own commit", **ENQUEUING),
    "enqueue-many": Case(enqueue_many, "Enqueue many at once", **ENQUEUING),
    "drain": Case(
        drain, "Drain with one worker of 10 slots, no-op jobs", all_ways=True
    ),
    "drain-two": Case(
        drain_two,
        "Drain with two workers of 10 slots, no-op jobs",
        all_ways=True,
        once=True,
        against="drain",
    ),
    "drain-four": Case(
        drain_four,
        "Drain with four workers of 10 slots, no-op jobs",
        all_ways=True,
        once=True,
        against="drain",
    ),
    "bytes": Case(
        stored,
        "Bytes that a job writes to the write-ahead log, and that remain of it",
        once=True,
    ),
    "pickup": Case(
        pickup, "COMMIT of an enqueue to start of the job, idle worker", once=True
    ),
    "wake-up": Case(
        wake_up,
        "COMMIT to start of 10,000 jobs, each a moment after the one before",
        once=True,
        **OWN,
    ),
    "steady": Case(
        steady, "COMMIT to start of the job at a steady 200 jobs/s", once=True, rate=200
    ),
    "idle": Case(idle, "What an idle worker costs", once=True),
    "drain-fresh": Case(
        drain_fresh,
        "Drain a table that was never analyzed",
        all_ways=True,
        against="drain",
        **OWN,
    ),
    "drain-mixed": Case(
        drain,
        "Drain beside 1 M finished, 100 k scheduled and 100 k waiting jobs",
        all_ways=True,
        against="drain",
        beside="mixed",
        **OWN,
    ),
    "pickup-mixed": Case(
        pickup,
        "COMMIT to start beside 1 M finished, 100 k scheduled and 100 k waiting jobs",
        once=True,
        against="pickup",
        beside="mixed",
        **OWN,
    ),
    "drain-scheduled": Case(
        drain,
        "Drain beside 1 M scheduled jobs",
        once=True,
        against="drain",
        beside="scheduled",
        **OWN,
    ),
    "drain-backlog": Case(
        drain_backlog,
        "Drain a backlog of 1 M jobs",
        once=True,
        against="drain",
        **OWN,
    ),
    "drain-10m": Case(
        drain,
        "Drain beside 10 M finished jobs",
        once=True,
        against="drain",
        beside="10m",
        **OWN,
    ),
    "pickup-10m": Case(
        pickup,
        "COMMIT to start beside 10 M finished jobs",
        once=True,
        against="pickup",
        beside="10m",
        **OWN,
    ),
    "pinned": Case(
        pinned,
        "COMMIT to start at 1,000 jobs/s while a snapshot is held for 120 s",
        once=True,
        rate=10 * PINNED_RATE,
    ),
}
QUICK = ["enqueue", "enqueue-many", "drain", "pickup"]
QUICK_SIZES = Sizes(
    rounds=1, singles=1_000, drain_seconds=2, pickups=100, pickup_rate=50
)
