"""How long jobs wait at a load: `python -m benchmarks.simulation [--check]`.

Measures on this machine what the simulation starts from (simulation_model.py), and
prints how long jobs would wait. `--check` simulates real runs instead: drains of 1, 2
and 4 shards, and waits at fixed rates. No parameter is fitted to them. Starts a
PostgreSQL of its own, or takes that of DATABASE_URL. Needs simpy.
"""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import NamedTuple

import psycopg

from . import shards
from .cases import centile
from .catalogue import pgjobs
from .server import Server, running_server
from .simulation_model import Parameters, drain, waits
from .stage import Stage, set_up, template_of

ROUNDS = 3
SAMPLES = 500  # of commits and wake-ups
PAUSE = 0.005  # seconds between two of them
BATCHES = 300
CHECKED_SECONDS = 20.0  # of a real run at a fixed rate
CHECKED_RATES = (200, 500)
JOBS = 50_000  # of a simulated one
RATES = (100, 500, 1_000, 1_500, 2_000, 2_500, 3_000, 4_000, 5_000, 6_000, 7_000)
SHARDS = (1, 2, 4)
ARRANGEMENTS = ((1, 1), (1, 4), (2, 1), (4, 1))  # shards; workers of each
# jobs/s and workers of a shard: as arithmetic has them in docs/scale.md, and more
LARGE = (
    (1_000, 1),
    (10_000, 3),
    (10_000, 6),
    (50_000, 11),
    (50_000, 24),
    (91_000, 20),
    (91_000, 44),
)
LARGE_CORES = 32
SLOTS = (10, 20)
SYSTEM = pgjobs("pgjobs", 1_000, "--prefetch", "0")
WRITE = "SELECT pg_logical_emit_message(true, '', '')"


# What is measured


class Costs(NamedTuple):
    of_pass: float  # seconds
    of_job: float


def measured(server: Server, url: str) -> Parameters:
    single = shards.drain(server, [url], slots=1)
    several = shards.drain(server, [url], slots=shards.SLOTS)
    of_server = costs(single.server, several.server, single.passes, several.passes)
    of_worker = costs(single.worker, several.worker, single.passes, several.passes)
    application, server_enqueue = enqueue_costs(server)
    return Parameters(
        server_pass=of_server.of_pass,
        server_job=of_server.of_job,
        worker_pass=of_worker.of_pass,
        worker_job=of_worker.of_job,
        server_enqueue=server_enqueue,
        application_enqueue=application,
        commits=commits(url),
        wake_ups=wake_ups(),
        cores=os.cpu_count() or 1,
    )


def costs(single: float, several: float, passes: float, fewer: float) -> Costs:
    """Return what a pass and a job cost, from two drains in microseconds a job."""
    of_pass = max(single - several, 0) / max(passes - fewer, 1e-9)
    return Costs(of_pass / 1e6, max(several - fewer * of_pass, 0) / 1e6)


def enqueue_costs(server: Server) -> tuple[float, float]:
    """Return what a batch costs the application and the server, in seconds."""
    with Stage(SYSTEM, server) as stage:
        enqueue(stage, 10)
        before = stage.producer.cpu_seconds, stage.store_cpu_seconds
        enqueue(stage, BATCHES)
        after = stage.producer.cpu_seconds, stage.store_cpu_seconds
    return (after[0] - before[0]) / BATCHES, (after[1] - before[1]) / BATCHES


def enqueue(stage: Stage, batches: int) -> None:
    size = Parameters._field_defaults["batch"]
    order = {"number": batches * size, "rate": 1e9, "batch": size}
    stage.producer.order("enqueue_steadily", first=1, **order)


def commits(url: str) -> list[float]:
    """Return how much longer a transaction takes that waits for the disk."""
    with psycopg.connect(url, autocommit=True) as connection:
        durable = samples(lambda: connection.execute(WRITE))
        connection.execute("SET synchronous_commit = off")
        usual = statistics.median(samples(lambda: connection.execute(WRITE)))
    return [max(each - usual, 0.0) for each in durable]


def wake_ups() -> list[float]:
    """Return how long it takes until a process that waits for a pipe has woken."""
    pipe = subprocess.PIPE
    with subprocess.Popen(["cat"], stdin=pipe, stdout=pipe, bufsize=0) as cat:
        assert cat.stdin and cat.stdout
        write, read = cat.stdin.write, cat.stdout.read
        both = samples(lambda: (write(b"."), read(1)))
        cat.stdin.close()
    return [each / 2 for each in both]


def samples(act: Callable[[], object]) -> list[float]:
    seconds = []
    for _ in range(SAMPLES):
        time.sleep(PAUSE)
        begun = time.perf_counter()
        act()
        seconds.append(time.perf_counter() - begun)
    return seconds


# Real runs beside simulated ones


def check(server: Server) -> None:
    urls = [shards.migrated(server, number) for number in range(max(SHARDS))]
    for _ in range(ROUNDS):
        parameters = measured(server, urls[0])
        describe(parameters)
        for number in SHARDS:
            check_drain(server, parameters._replace(shards=number), urls[:number])
        for rate in CHECKED_RATES:
            check_waits(server, parameters, rate)
    for number in range(max(SHARDS)):
        server.drop_database(f"shard_{number}")


def check_drain(server: Server, parameters: Parameters, urls: list[str]) -> None:
    real, simulated = shards.drain(server, urls), drain(parameters, shards.JOBS)
    by_cores = simulated.rate / simulated.cores * real.cores
    say(
        f"{len(urls)} shards: {simulated.rate:,.0f} jobs/s by {simulated.cores:.2f} "
        f"cores simulated; {real.rate:,.0f} by {real.cores:.2f} real, beside "
        f"{real.idle:.2f} idle ones; ratio {real.rate / simulated.rate:.2f}, "
        f"{real.rate / by_cores:.2f} for these cores; jobs a "
        f"pass: {simulated.jobs_of_pass:.1f} simulated, {1 / real.passes:.1f} real"
    )


def check_waits(server: Server, parameters: Parameters, rate: int) -> None:
    with Stage(SYSTEM, server) as stage:
        stage.settle()
        stage.start_idle_worker(settling_seconds=2)
        number = int(rate * CHECKED_SECONDS)
        real, _ = stage.pick_up(number, rate, batch=parameters.batch)
    simulated = waits(parameters, rate, CHECKED_SECONDS, at_random=False)
    say(
        f"{rate} jobs/s: p50 {simulated.p50:.1f} ms simulated, {centile(50, real):.1f}"
        f" real; p99 {simulated.p99:.1f} ms simulated, {centile(99, real):.1f} real"
    )


# Simulated runs


def describe(parameters: Parameters) -> None:
    for name, value in parameters._asdict().items():
        if isinstance(value, list):
            seen = (centile(which, value) * 1e6 for which in (50, 99))
            say("{}: p50 {:.0f} us, p99 {:.0f} us".format(name, *seen))
        else:
            unit = f"{value * 1e6:.0f} us" if isinstance(value, float) else value
            say(f"{name}: {unit}")


def tabulate(parameters: Parameters) -> None:
    say("\nOn these cores: share of them that is used, p50; p99 in ms")
    arrangements = [
        parameters._replace(shards=number, workers=workers)
        for number, workers in ARRANGEMENTS
    ]
    row("shards, workers of each", [f"{a}, {b}" for a, b in ARRANGEMENTS])
    row("drain", [f"{drain(each, JOBS).rate:,.0f} jobs/s" for each in arrangements])
    for rate in RATES:
        row(f"{rate:,} jobs/s", [at(each, rate) for each in arrangements])
    say(f"\nA shard on {LARGE_CORES} cores, its workers elsewhere")
    row("jobs/s, workers", [f"{number} slots" for number in SLOTS])
    for rate, workers in LARGE:
        large = parameters._replace(
            cores=LARGE_CORES, workers=workers, worker_cores=2 * workers
        )
        seen = [at(large._replace(slots=each), rate) for each in SLOTS]
        row(f"{rate:,}, {workers}", seen)


def row(head: str, cells: list[str]) -> None:
    say(f"{head:24}" + "".join(f"{cell:>22}" for cell in cells))


def at(parameters: Parameters, rate: float) -> str:
    seen = waits(parameters, rate, JOBS / rate)
    if seen.left > 0.01:
        return "grow"
    return f"{seen.utilisation:.0%}  {seen.p50:.1f}; {seen.p99:.1f}"


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(arguments: list[str]) -> int:
    with running_server(os.environ.get("DATABASE_URL")) as server:
        set_up(SYSTEM, server)
        try:
            if "--check" in arguments:
                check(server)
            else:
                parameters = measured(server, shards.migrated(server, 0))
                describe(parameters)
                tabulate(parameters)
                server.drop_database("shard_0")
        finally:
            server.drop_database(template_of(SYSTEM))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
