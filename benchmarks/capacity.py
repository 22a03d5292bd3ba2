"""What a job costs: `python -m benchmarks capacity [--jobs N]`.

For each feature: processor time of the application, of a worker and of the server, WAL
and bytes at rest, all per job; then what pruning and vacuuming it costs. From the plain
job follows a model of what a number of jobs a second needs. Starts a PostgreSQL of its
own, or takes that of DATABASE_URL. The time of a server that runs on another machine,
or in a container, is not known. Then there is no model.
"""

import math
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import psycopg

from .processes import ROOT, cpu_seconds_of_tree
from .server import Server, running_server

TABLES = """
SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class
WHERE relkind = 'r' AND relname LIKE 'pgjobs\\_%'
"""
EMPTY = "TRUNCATE pgjobs_job, pgjobs_predecessor, pgjobs_note, pgjobs_rate CASCADE"
CONNECTIONS = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND application_name LIKE 'pgjobs:%'
"""
SLOTS = 10
PREFETCH = 200
UTILISATION = 0.5  # of a server's cores, so that there is room for what is not jobs
CORES_OF_A_SHARD = 32
WORKER_CORES = 0.5  # that a worker process gets
UNKNOWN = "not known"
RATES = (10, 100, 1_000, 10_000, 100_000, 1_000_000)


class Used(NamedTuple):
    """What was used until a moment."""

    here: float  # seconds of the processor
    server: float | None  # None: not known
    wal: int


class Cost(NamedTuple):
    """What was used between two moments, per job."""

    here: float  # microseconds of the processor
    server: float | None
    wal: float  # bytes

    def __str__(self) -> str:
        server = UNKNOWN if self.server is None else f"{self.server:.0f}"
        return f"{self.here:8.0f} {server:>9} {self.wal:9.0f}"


@dataclass
class Meter:
    server: Server
    connection: psycopg.Connection
    jobs: int

    def used(self) -> Used:
        ((wal,),) = self.connection.execute(
            "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint"
        )
        pid = self.server.pid
        server = cpu_seconds_of_tree(pid) if pid else None
        return Used(time.process_time(), server, wal)

    def cost(self, act: Callable[[], Any]) -> Cost:
        before = self.used()
        act()
        after = self.used()
        server = None
        if before.server is not None and after.server is not None:
            server = (after.server - before.server) / self.jobs * 1e6
        return Cost(
            (after.here - before.here) / self.jobs * 1e6,
            server,
            (after.wal - before.wal) / self.jobs,
        )

    def size(self) -> int:
        ((size,),) = self.connection.execute(TABLES)
        return size


def features() -> dict[str, Callable[[int], None]]:
    """Return, by its name, how each feature enqueues so many jobs."""
    from pgjobs import chain, enqueue, enqueue_many

    from .project.tasks import TASKS

    noop = TASKS["noop"]

    def with_options(**options: Callable[[int], Any]) -> Callable[[int], None]:
        def add(jobs: int) -> None:
            enqueue_many(
                noop.using(**{name: value(n) for name, value in options.items()}).bind(
                    n
                )
                for n in range(jobs)
            )

        return add

    def plain(jobs: int) -> None:
        enqueue_many(noop.bind(n) for n in range(jobs))

    def one_by_one(jobs: int) -> None:
        for n in range(jobs):
            enqueue(noop, n)

    def in_chains(jobs: int) -> None:
        for n in range(jobs // 2):
            enqueue(chain(noop.bind(n), noop.bind(n)))

    return {
        "enqueue_many": plain,
        "enqueue, each its commit": one_by_one,
        "unique key": with_options(unique_key=str),
        "lock of its own": with_options(lock=str),
        "1,000 limit keys": with_options(
            limit_key=lambda n: str(n % 1_000), max_running=lambda n: 2
        ),
        "one rate": with_options(
            rate_key=lambda n: "one", rate=lambda n: "100000/second"
        ),
        "chains of two": in_chains,
    }


def run(prefetch: int) -> None:
    """Run all jobs by a worker in this process."""
    from pgjobs.worker import ExitCode, Loop, WorkerOptions

    options = WorkerOptions(slots=SLOTS, prefetch=prefetch, drain=True)
    if Loop(options).run() == ExitCode.LOST:
        raise SystemExit("The database was lost.")


def measure(
    meter: Meter, name: str, add: Callable[[int], None], prefetch: int = 0
) -> tuple[Cost, Cost]:
    """Print what a feature costs; return what enqueueing and running a job cost."""
    from django.db import connection

    meter.connection.execute(EMPTY)
    connection.close()  # the server counts the time of a session when it ends
    before = meter.size()
    added = meter.cost(lambda: (add(meter.jobs), connection.close()))
    ran = meter.cost(lambda: run(prefetch))
    size = (meter.size() - before) / meter.jobs
    say(f"{name:26}{added} {ran} {size:9.0f}")
    return added, ran


def measure_end(meter: Meter) -> tuple[Cost, Cost]:
    """Print what it costs to get rid of finished jobs; return both costs."""
    from pgjobs.conf import FINISHED
    from pgjobs.queue import upkeep
    from pgjobs.queue.statements import execute_on

    ages = dict.fromkeys(FINISHED, 0.0)
    pruned = meter.cost(lambda: upkeep.prune(execute_on("default"), ages))
    vacuumed = meter.cost(lambda: meter.connection.execute("VACUUM pgjobs_job"))
    say(f"{'prune':26}{pruned}")
    say(f"{'vacuum':26}{vacuumed}")
    return pruned, vacuumed


def measure_plain(meter: Meter, add: Callable[[int], None]) -> Cost:
    """Print what a plain job costs; return that of its worker and all of its server."""
    added, ran = measure(meter, "enqueue_many", add)
    parts = [added, ran, *measure_end(meter)]
    server = [each.server for each in parts if each.server is not None]
    return Cost(
        ran.here,
        sum(server) if len(server) == len(parts) else None,
        sum(each.wal for each in parts),
    )


def measure_connections(meter: Meter) -> int:
    """Print how many sessions an idle worker has, and return it."""
    import threading

    from pgjobs.worker import Loop, WorkerOptions

    loop = Loop(WorkerOptions(slots=SLOTS))
    thread = threading.Thread(target=loop.run)
    thread.start()
    time.sleep(3)
    ((number,),) = meter.connection.execute(CONNECTIONS)
    loop.stop()
    thread.join()
    say(f"\nSessions of an idle worker: {number}, and up to one for each slot.")
    return number


def print_model(job: Cost, sessions: int) -> None:
    """Print what a number of jobs a second needs, in Markdown.

    `job`: what a plain one costs a worker, and the server from its enqueue to its end.
    `sessions`: of an idle worker.
    """
    if job.server is None:
        say(f"\nThe server's time for a job is {UNKNOWN}: there is no model.")
        return
    say(
        f"\nPlain jobs, enqueued by enqueue_many, with pruning: {job.server:.0f} us of "
        f"the server and {job.here:.0f} us of a worker. {UTILISATION:.0%} of the "
        f"server's cores are used. A worker process has {SLOTS} slots, does not "
        f"prefetch, and gets {WORKER_CORES:g} cores.\n"
    )
    shards = f"shards of {CORES_OF_A_SHARD} cores"
    processes = f"worker processes | sessions, {SLOTS} slots each"
    say(f"| jobs/s | cores of servers | WAL, MB/s | {shards} | {processes} |")
    say("|---|---|---|---|---|---|")
    for rate in RATES:
        cores = rate * job.server / 1e6 / UTILISATION
        workers = math.ceil(rate * job.here / 1e6 / WORKER_CORES)
        say(
            f"| {rate:,} | {two_digits(cores)} | {two_digits(rate * job.wal / 1e6)} "
            f"| {math.ceil(cores / CORES_OF_A_SHARD)} | {workers:,} "
            f"| {workers * (sessions + SLOTS):,} |"
        )


def two_digits(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


@contextmanager
def own_project(url: str | None, database: str, **server: Any) -> Iterator[Server]:
    """Be a project with a new database, which is dropped in the end."""
    with running_server(url, **server) as found:
        os.environ["DATABASE_URL"] = found.create_database(database)
        os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.project.settings"
        os.environ["PYTHONPATH"] = str(ROOT)
        import django
        from django.core.management import call_command

        django.setup()
        call_command("migrate", verbosity=0)
        yield found
        django.db.connections.close_all()
        with suppress(psycopg.Error):
            found.drop_database(database)


def main(jobs: int, url: str | None, **server: Any) -> int:
    with (
        own_project(url, "capacity", **server) as found,
        psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as connection,
    ):
        meter = Meter(found, connection, jobs)
        say(f"{'per job':26}{'enqueue':^28}{'run':^28}")
        heads = f"{'app us':>8} {'server us':>9} {'WAL bytes':>9}"
        say(f"{'':26}{heads} {heads.replace('   app', 'worker')} {'at rest':>9}")
        (plain, *others) = features().items()
        job = measure_plain(meter, plain[1])
        measure(meter, f"worker --prefetch {PREFETCH}", plain[1], PREFETCH)
        for other in others:
            measure(meter, *other)
        print_model(job, measure_connections(meter))
    return 0
