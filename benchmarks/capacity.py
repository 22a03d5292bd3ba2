"""What a job costs: `python -m benchmarks capacity [--jobs N]`.

For each feature: processor time of the application, of a worker and of the server, WAL
and bytes at rest, all per job; then what pruning and vacuuming it costs. Starts a
PostgreSQL of its own, or takes that of DATABASE_URL. The time of a server that runs on
another machine is not known, and left out.
"""

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
WHERE datname = current_database() AND pid <> pg_backend_pid()
"""
SLOTS = 10
UTILISATION = 0.5  # of a server's cores, so that there is room for what is not jobs
RATES = (10, 100, 1_000, 10_000, 100_000, 1_000_000)


class Used(NamedTuple):
    """What was used until a moment."""

    here: float  # seconds of the processor
    server: float
    wal: int


class Cost(NamedTuple):
    """What was used between two moments, per job."""

    here: float  # microseconds of the processor
    server: float
    wal: float  # bytes

    def __str__(self) -> str:
        return f"{self.here:8.0f} {self.server:9.0f} {self.wal:9.0f}"


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
        server = cpu_seconds_of_tree(pid) if pid else 0.0
        return Used(time.process_time(), server, wal)

    def cost(self, act: Callable[[], Any]) -> Cost:
        before = self.used()
        act()
        after = self.used()
        return Cost(
            (after.here - before.here) / self.jobs * 1e6,
            (after.server - before.server) / self.jobs * 1e6,
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


def measure(meter: Meter, name: str, add: Callable[[int], None]) -> float:
    """Print what a feature costs; return the server's time per job."""
    from django.db import connection

    from pgjobs import drain

    meter.connection.execute(EMPTY)
    connection.close()  # the server counts the time of a session when it ends
    before = meter.size()
    added = meter.cost(lambda: (add(meter.jobs), connection.close()))
    ran = meter.cost(lambda: drain(concurrency=SLOTS))
    size = (meter.size() - before) / meter.jobs
    say(f"{name:26}{added} {ran} {size:9.0f}")
    return added.server + ran.server


def measure_end(meter: Meter) -> float:
    """Print what it costs to get rid of finished jobs; return the server's time."""
    from pgjobs.conf import FINISHED
    from pgjobs.queue import upkeep
    from pgjobs.queue.statements import execute_on

    ages = dict.fromkeys(FINISHED, 0.0)
    pruned = meter.cost(lambda: upkeep.prune(execute_on("default"), ages))
    vacuumed = meter.cost(lambda: meter.connection.execute("VACUUM pgjobs_job"))
    say(f"{'prune':26}{pruned}")
    say(f"{'vacuum':26}{vacuumed}")
    return pruned.server + vacuumed.server


def measure_connections(meter: Meter) -> None:
    """Print how many sessions an idle worker has."""
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


def print_model(server_time: float) -> None:
    """Print what a number of jobs a second needs, by the time that was measured."""
    say(f"\nAt {UTILISATION:.0%} of the server's cores, {server_time:.0f} us per job:")
    say("jobs/s      cores of servers")
    for rate in RATES:
        say(f"{rate:9,}   {rate * server_time / 1e6 / UTILISATION:10.2f}")


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
        server_time = measure(meter, *plain) + measure_end(meter)
        for each in others:
            measure(meter, *each)
        measure_connections(meter)
        print_model(server_time)
    return 0
