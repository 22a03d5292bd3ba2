"""Check the capacity model on shards: `python -m benchmarks.shards [number ...]`.

The model says that a job costs as much processor time with many shards as with one, so
that cores are all that limits them. Here so many databases of one server are drained at
once, by a worker each. The rate that the model foresees is what one shard's cost allows
in the processor time that the run was given. Starts a PostgreSQL of its own, or takes
that of DATABASE_URL.
"""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import psycopg

from .processes import ROOT, TICKS, SystemProcess, cpu_seconds_of_tree
from .server import Server, running_server

SHARDS = (1, 2, 4)
ROUNDS = 3
JOBS = 10_000  # of each shard
FILL = """
INSERT INTO pgjobs_job (task, kwargs)
SELECT 'benchmarks.tasks.noop', '{"number": 1}' FROM generate_series(1, %s)
"""
# A pass of a worker's loop records what has ended in one transaction.
PASSES = "SELECT count(DISTINCT xmin::text) FROM pgjobs_job"
LEFT = "SELECT count(*) FROM pgjobs_job WHERE status <> 'SUCCESSFUL'"
DJANGO = [sys.executable, "-m", "django"]
WORKER = [*DJANGO, "runjobs", "--verbosity", "0", "--prefetch", "0"]
SLOTS = 10
SETTINGS = {
    "DJANGO_SETTINGS_MODULE": "benchmarks.project.settings",
    "PYTHONPATH": str(ROOT),
}


class Drained(NamedTuple):
    rate: float  # jobs a second of all shards
    cores: float  # that server and workers were given
    idle: float  # cores that were not used meanwhile
    server: float  # microseconds of a job
    worker: float
    passes: float  # of the workers' loops for a job


def migrated(server: Server, number: int) -> str:
    """Return the URL of a database for a shard."""
    url = server.create_database(f"shard_{number}")
    environment = {**os.environ, **SETTINGS, "DATABASE_URL": url}
    command = [*DJANGO, "migrate", "--verbosity", "0"]
    subprocess.run(command, env=environment, cwd=ROOT, check=True)
    return url


def drain(server: Server, urls: list[str], slots: int = SLOTS) -> Drained:
    """Let a worker drain each shard, all at once; the workers are idle at first."""
    connections = [psycopg.connect(url, autocommit=True) for url in urls]
    for connection in connections:
        connection.execute("TRUNCATE pgjobs_job CASCADE")
    workers = [
        SystemProcess(
            WORKER, f"--concurrency={slots}", {**SETTINGS, "DATABASE_URL": url}
        )
        for url in urls
    ]
    try:
        wait_until_idle(workers, connections)
        for connection in connections:
            connection.execute(FILL, [JOBS])
        return watched(server, workers, connections)
    finally:
        for worker in workers:
            worker.stop()
        for connection in connections:
            connection.close()


def wait_until_idle(
    workers: list[SystemProcess], connections: list[psycopg.Connection]
) -> None:
    """Wait until each worker has run a job, and some seconds for what follows."""
    for connection in connections:
        connection.execute(FILL, [1])
    while any(left(connections)):
        time.sleep(0.1)
        for worker in workers:
            worker.check()
    time.sleep(3)


def watched(
    server: Server, workers: list[SystemProcess], connections: list[psycopg.Connection]
) -> Drained:
    jobs = JOBS * len(workers)
    used, own = seconds(server, workers), own_seconds(workers)
    idle, begun = idle_seconds(), time.monotonic()
    while any(left(connections)):
        time.sleep(0.1)
        for worker in workers:
            worker.check()
    taken, idle = time.monotonic() - begun, idle_seconds() - idle
    used, own = seconds(server, workers) - used, own_seconds(workers) - own
    worker_time = own / jobs * 1e6
    passes = sum(each.execute(PASSES).fetchone()[0] for each in connections)
    return Drained(
        rate=jobs / taken,
        cores=used / taken,
        idle=idle / taken,
        server=used / jobs * 1e6 - worker_time,
        worker=worker_time,
        passes=passes / jobs,
    )


def left(connections: list[psycopg.Connection]) -> list[int]:
    return [connection.execute(LEFT).fetchone()[0] for connection in connections]


def own_seconds(workers: list[SystemProcess]) -> float:
    return sum(worker.cpu_seconds for worker in workers)


def seconds(server: Server, workers: list[SystemProcess]) -> float:
    """Return the processor time of the server and of the workers."""
    return own_seconds(workers) + (cpu_seconds_of_tree(server.pid) if server.pid else 0)


def idle_seconds() -> float:
    """Return for how long cores of this machine had nothing to do, or waited."""
    fields = Path("/proc/stat").read_text().split(maxsplit=6)
    return sum(map(int, fields[4:6])) / TICKS


def report(number: int, drained: Drained, alone: Drained) -> None:
    foreseen = drained.cores / (alone.server + alone.worker) * 1e6
    sys.stdout.write(
        f"{number} shards: {drained.rate:7,.0f} jobs/s, foreseen {foreseen:7,.0f}"
        f" ({drained.rate / foreseen:.2f}), {drained.cores:.2f} cores, "
        f"{drained.idle:.2f} idle;"
        f" server {drained.server:.0f}, worker {drained.worker:.0f} us/job\n"
    )
    sys.stdout.flush()


def main(numbers: list[int]) -> int:
    with running_server(os.environ.get("DATABASE_URL")) as server:
        urls = [migrated(server, number) for number in range(max(numbers))]
        for _ in range(ROUNDS):
            rounds = {number: drain(server, urls[:number]) for number in numbers}
            for number, drained in rounds.items():
                report(number, drained, rounds[numbers[0]])
        for number in range(max(numbers)):
            server.drop_database(f"shard_{number}")
    return 0


if __name__ == "__main__":
    sys.exit(main([int(each) for each in sys.argv[1:]] or list(SHARDS)))
