"""Measure what notifications cost commits: `python -m benchmarks.commits`.

Clients of pgbench commit one job each, again and again, beside workers. PostgreSQL lets
one session at a time commit a notification. So the same is measured alternately with a
notification in each commit, as it is now, and without any. The workers also poll each
10 ms, so that they work as much without notifications. Prints commits a second and
their ratios. Starts a PostgreSQL of its own, or takes that of DATABASE_URL.
"""

import argparse
import math
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

import psycopg
from psycopg.conninfo import conninfo_to_dict

from benchmarks.capacity import own_project, say
from benchmarks.figures import wait_for
from benchmarks.server import Unusable, find_programs, privileged
from benchmarks.workers import workers

WARM_UP = 2.0  # seconds: a worker asks twice a second whether commits wait
POLL = "0.01"
INSERT = """
INSERT INTO pgjobs_job (task, kwargs)
VALUES ('benchmarks.tasks.noop', jsonb_build_object('number', 1));
"""
# Ids grow by one with each commit: these clients alone enqueue, and none rolls back.
LATEST = "SELECT coalesce(max(id), 0) FROM pgjobs_job"
# As a worker of all queues does that does not poll (want_notifications.sql).
WANT_NOTIFICATIONS = "SELECT pg_advisory_lock_shared(1885825646, hashtext(''))"
ALWAYS, NOW, NEVER = WAYS = ("always notified", "now", "never notified")


def measure(
    connection: psycopg.Connection, way: str, options: argparse.Namespace
) -> float:
    """Return how many commits there were a second."""
    connection.execute("TRUNCATE pgjobs_job CASCADE")
    with privileged() as server:
        for statement in ("VACUUM ANALYZE", "CHECKPOINT"):
            server.execute(statement)
    with workers(options.workers, "--poll", POLL, "--concurrency", "10"):
        notified = always_notified() if way == ALWAYS else nullcontext()
        with notified, enqueueing(way, options) as client:
            wait_for(lambda: is_running(client) and latest_id(connection))
            time.sleep(WARM_UP)
            before, begun = latest_id(connection), time.perf_counter()
            time.sleep(options.seconds)
            after, ended = latest_id(connection), time.perf_counter()
    return (after - before) / (ended - begun)


@contextmanager
def always_notified() -> Iterator[None]:
    """Let each INSERT notify, also while workers poll."""
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as connection:
        connection.execute(WANT_NOTIFICATIONS)
        yield


@contextmanager
def enqueueing(way: str, options: argparse.Namespace) -> Iterator[subprocess.Popen]:
    """Let clients commit jobs for the length of a block."""
    lasting = math.ceil(WARM_UP + options.seconds) + 60
    command = [find_pgbench(), "-n", "-M", "prepared", "-T", lasting, "-f", "-"]
    command += ["-c", options.clients, "-j", min(options.clients, 2)]
    client = subprocess.Popen(
        [str(each) for each in command],
        env={**os.environ, **environment(way)},
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    client.stdin.write(INSERT)
    client.stdin.close()
    try:
        yield client
        is_running(client)
    finally:
        client.terminate()
        client.wait()


def is_running(client: subprocess.Popen) -> bool:
    if client.poll() is not None:
        raise SystemExit(f"pgbench has ended: {client.stderr.read().strip()}")
    return True


def environment(way: str) -> dict[str, str]:
    """Return how pgbench connects; a command line would show the password."""
    known = conninfo_to_dict(os.environ["DATABASE_URL"])
    known["database"] = known.pop("dbname")
    if way == NEVER:
        known["options"] = f"{known.get('options', '')} -c pgjobs.notifies=off"
    return {f"PG{name.upper()}": str(value) for name, value in known.items()}


def find_pgbench() -> str | Path:
    """Return the program: that of PostgreSQL's own directory, or of the path."""
    try:
        own = find_programs(None) / "pgbench"
    except Unusable:
        own = Path("pgbench")
    found = shutil.which(own) or shutil.which("pgbench")
    if found is None:
        raise SystemExit("pgbench is missing: it is part of PostgreSQL.")
    return found


def latest_id(connection: psycopg.Connection) -> int:
    return connection.execute(LATEST).fetchone()[0]


def ratios(rates: dict[str, float]) -> dict[str, float]:
    return {
        "always / never": rates[ALWAYS] / rates[NEVER],
        "now / never": rates[NOW] / rates[NEVER],
    }


def report(what: str, rounds: Sequence[dict[str, float]]) -> None:
    """Print the medians of rates, and of the ratios within each round."""
    cells = [
        f"{way} {statistics.median(each[way] for each in rounds):,.0f}/s"
        for way in WAYS
    ]
    compared = [ratios(each) for each in rounds]
    cells += [
        f"{name} {statistics.median(each[name] for each in compared):.2f}"
        for name in compared[0]
    ]
    say(f"{what}: {', '.join(cells)}")


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.commits",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    number = {"type": int, "metavar": "N"}
    parser.add_argument("--clients", default=32, help="that commit", **number)
    parser.add_argument("--workers", default=1, help="that run the jobs", **number)
    parser.add_argument("--rounds", default=3, help="of all three ways", **number)
    parser.add_argument(
        "--seconds", type=float, default=6.0, metavar="N", help="of each measurement"
    )
    return parser


def main(arguments: Sequence[str]) -> int:
    options = parser().parse_args(arguments)
    with (
        own_project(os.environ.get("DATABASE_URL"), "commits") as server,
        psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as connection,
    ):
        say(
            f"PostgreSQL {server.version}, {options.clients} clients, "
            f"{options.workers} workers, {options.seconds:g} s each, commits a second"
        )
        rounds = []
        for number in range(1, options.rounds + 1):
            # In each round another way comes first.
            order = [WAYS[(number + each) % len(WAYS)] for each in range(len(WAYS))]
            rounds.append({way: measure(connection, way, options) for way in order})
            report(f"round {number}", rounds[-1:])
        report("medians", rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
