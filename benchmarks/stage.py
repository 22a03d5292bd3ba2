"""A system on a database of its own, fresh for every measurement."""

import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import psycopg

from .catalogue import System
from .environments import ENVIRONMENTS, command_of
from .processes import Crashed, Producer, SystemProcess, cpu_seconds_of_tree
from .redis_server import RedisServer
from .server import Server

LONGEST_SETUP = 120.0  # seconds
LONGEST_SILENCE = 60.0  # without any progress
BYTES = """
SELECT (SELECT pg_current_wal_insert_lsn() - '0/0')::bigint,
    coalesce(sum(pg_table_size(oid)), 0)::bigint,
    coalesce(sum(pg_indexes_size(oid)), 0)::bigint
FROM pg_class
WHERE relkind = 'r' AND relnamespace NOT IN (
    'pg_catalog'::regnamespace, 'information_schema'::regnamespace
)
"""


class Progress(NamedTuple):
    """What was seen at one moment of a drain."""

    time: float
    unfinished: int
    worker_cpu: float
    server_cpu: float


class Stage:
    """Runs the producer and the workers of one system; a context manager."""

    def __init__(self, system: System, server: Server, filling: str | None = None):
        self.system = system
        self.server = server
        self.filling = filling
        self.workers: list[SystemProcess] = []
        self.next_number = 1

    def __enter__(self) -> "Stage":
        self.stamps = tempfile.NamedTemporaryFile(prefix="pgjobs-benchmark-stamps-")
        self.url = self.server.create_database(
            self.system.adapter,
            template_of(self.system, self.filling),
            is_large=self.filling is not None,
        )
        self.connection = psycopg.connect(self.url, autocommit=True)
        self.redis = RedisServer() if self.system.store == "redis" else None
        self.producer = Producer(self.command, "produce", self.environment)
        return self

    def __exit__(self, *error) -> None:
        for process in [*self.workers, self.producer]:
            process.stop()
        if self.redis:
            self.redis.stop()
        self.connection.close()
        self.server.drop_database(self.system.adapter)
        self.stamps.close()

    @property
    def command(self) -> list[str]:
        return command_of(self.system)

    @property
    def environment(self) -> dict[str, str]:
        redis_url = self.redis.url if self.redis else ""
        return environment_of(self.system, self.url, redis_url, self.stamps.name)

    @property
    def store_cpu_seconds(self) -> float:
        """The processor time of PostgreSQL, or Redis; 0 if it runs elsewhere."""
        pid = self.redis.pid if self.redis else self.server.pid
        return cpu_seconds_of_tree(pid) if pid else 0.0

    # Workers

    def start_worker(self) -> SystemProcess:
        worker = SystemProcess(self.command, "work", self.environment)
        self.workers.append(worker)
        return worker

    def start_idle_worker(self, settling_seconds: float) -> SystemProcess:
        """Start a worker and return once it has run a few jobs and sleeps again."""
        worker = self.start_worker()
        for _ in range(3):
            self.enqueue_stamp()
            self.wait_for_stamps(self.next_number - 1)
        time.sleep(settling_seconds)
        return worker

    def stop_workers(self) -> None:
        for worker in self.workers:
            worker.stop()
        self.workers.clear()

    def check(self) -> None:
        for process in [self.producer, *self.workers]:
            process.check()

    # Stamps

    def enqueue_stamp(self) -> None:
        """Enqueue a job that notes its start."""
        number, self.next_number = self.next_number, self.next_number + 1
        self.producer.order("enqueue_steadily", first=number, number=1, rate=1)

    def started(self) -> dict[int, float]:
        """Return when which job has started; the first time counts."""
        started: dict[int, float] = {}
        for line in Path(self.stamps.name).read_text().splitlines():
            number, at = line.split()
            started.setdefault(int(number), float(at))
        return started

    def wait_for_stamps(self, number: int) -> dict[int, float]:
        """Wait until so many jobs have started; raises Crashed if no more do.

        Reading the stamps costs time: no more than a twentieth of it is spent so.
        """
        most, deadline = -1, 0.0
        while True:
            begun = time.monotonic()
            started = self.started()
            if len(started) >= number:
                return started
            if len(started) > most:
                most, deadline = len(started), begun + LONGEST_SILENCE
            self.check()
            if begun > deadline:
                raise Crashed(f"only {most} of {number} jobs have started")
            time.sleep(max(20 * (time.monotonic() - begun), 0.02))

    def pick_up(
        self, number: int, rate: float, batch: int = 1
    ) -> tuple[list[float], list[float]]:
        """Enqueue jobs at a rate; return the waits for their start and the enqueues.

        Both in milliseconds; a wait begins when the enqueue has returned.
        """
        first, self.next_number = self.next_number, self.next_number + number
        enqueued = self.producer.order(
            "enqueue_steadily", first=first, number=number, rate=rate, batch=batch
        )
        started = self.wait_for_stamps(self.next_number - 1)
        waits = waits_of(enqueued, started)
        enqueues = [1e3 * (after - before) for _, before, after in enqueued]
        return waits, enqueues

    def wake_up(self, number: int) -> list[float]:
        """Enqueue jobs one by one; return the waits for their start as `pick_up` does.

        The worker is idle before each of them.
        """
        first, self.next_number = self.next_number, self.next_number + number
        enqueued = self.producer.order("enqueue_one_by_one", first=first, number=number)
        return waits_of(enqueued, self.wait_for_stamps(self.next_number - 1))

    # Observing

    def settle(self) -> None:
        """Give every system the same start: good statistics, and nothing to write."""
        self.connection.execute("VACUUM ANALYZE")
        self.server.connection.execute("CHECKPOINT")

    def look(self) -> Progress:
        unfinished = self.producer.order("unfinished")
        return Progress(
            time.perf_counter(),
            unfinished,
            sum(worker.cpu_seconds for worker in self.workers),
            self.store_cpu_seconds,
        )

    def watch(self, down_to: float) -> Progress:
        """Wait until no more jobs than that are unfinished; return that moment.

        Counting costs the server time: no more than a twentieth of it is spent so,
        but what comes to its end is not kept waiting.
        """
        fewest, deadline = float("inf"), time.monotonic() + LONGEST_SILENCE
        earlier = None
        while True:
            begun = time.monotonic()
            seen = self.look()
            if seen.unfinished <= down_to:
                return seen
            if seen.unfinished < fewest:
                fewest, deadline = seen.unfinished, begun + LONGEST_SILENCE
            self.check()
            if begun > deadline:
                raise Crashed(f"{fewest} jobs stay unfinished")
            rest = 20 * (time.monotonic() - begun)
            left = seconds_left(earlier, seen, down_to)
            time.sleep(max(min(rest, left), 0.005))
            earlier = seen

    def bytes_written(self) -> tuple[int, int, int]:
        """Return the bytes of the log so far, of all tables, and of their indexes."""
        return self.connection.execute(BYTES).fetchone()

    def count_requests(self) -> tuple[str, Callable[[], int]]:
        """Count what workers yet to start ask of the store.

        Returns the unit a second, and what tells the number so far.
        """
        name = self.system.adapter
        if self.redis:
            return "commands/s", self.redis.commands
        if self.server.count_statements(name):
            return "statements/s", lambda: self.server.statements(name)
        return "transactions/s", lambda: self.server.transactions(name)


def template_of(system: System, filling: str | None = None) -> str:
    """Return the name of the database that stages are copies of."""
    return "_".join(filter(None, [system.adapter, "template", filling]))


def seconds_left(earlier: Progress | None, seen: Progress, down_to: float) -> float:
    """Return when no more jobs than that will be unfinished, as fast as it goes."""
    if earlier is None or earlier.unfinished <= seen.unfinished:
        return float("inf")
    rate = (earlier.unfinished - seen.unfinished) / (seen.time - earlier.time)
    return (seen.unfinished - down_to) / rate


def waits_of(
    enqueued: list[tuple[int, float, float]], started: dict[int, float]
) -> list[float]:
    """Return the milliseconds from the end of each enqueue to the start of its job."""
    return [1e3 * (started[each] - after) for each, _, after in enqueued]


def set_up(system: System, server: Server) -> None:
    """Make the database with the system's tables that its stages are copies of."""
    url = server.create_database(template_of(system))
    if system.store == "redis":
        return  # each stage has a Redis of its own
    process = SystemProcess(
        command_of(system), "setup", environment_of(system, url, "", os.devnull)
    )
    process.wait(LONGEST_SETUP)


def fill(system: System, server: Server, filling: str, rows: dict[str, int]) -> None:
    """Make such a database that holds so many jobs of each status, too."""
    url = server.create_database(template_of(system, filling), template_of(system))
    environment = environment_of(system, url, "", os.devnull)
    producer = Producer(command_of(system), "produce", environment)
    try:
        for status, number in rows.items():
            producer.order("fill", status=status, number=number)
    finally:
        producer.stop()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")


def environment_of(
    system: System, url: str, redis_url: str, stamps: str
) -> dict[str, str]:
    return {
        "DATABASE_URL": url,
        "REDIS_URL": redis_url,
        "BENCHMARK_OPTIONS": json.dumps(system.options),
        "BENCHMARK_STAMPS": stamps,
        "NODE_PATH": str(ENVIRONMENTS / system.adapter / "node_modules"),
    }
