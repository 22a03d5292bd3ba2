"""What a worker could reach at most: `python -m benchmarks.turns [checkout ...]`.

Drains no-op jobs by bare SQL on its narrow table, as the systems bare-10 and bare-100
do, and on the table of pgjobs by the statement that its worker sends in each pass. It
runs none of the jobs, as if the rest of the worker cost nothing. Other checkouts of
pgjobs alternate with this one. Prints the medians of the rates, and of the processor
time that the server's process takes for a round trip, on a PostgreSQL started for it or
on that of DATABASE_URL.
"""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.processes import cpu_seconds
from benchmarks.server import Server, privileged, running_server

JOBS = {1: 2_000, 10: 12_000, 100: 40_000}  # by how many a statement takes
ROUNDS = 7
ROOT = Path(__file__).parents[1]


class BareSQL:
    def __init__(self) -> None:
        from benchmarks.systems import bare_sql

        self.connection, self.statement = bare_sql.connection, bare_sql.ROUND_TRIP
        self.fill = bare_sql.fill
        bare_sql.setup()
        self.connection.execute(bare_sql.ONE_PLAN, prepare=False)

    def round_trip(self, done: list, batch: int) -> list:
        parameters = {"done": done, "batch": batch}
        claimed = self.connection.execute(self.statement, parameters).fetchall()
        return [id for id, _, _ in claimed]

    def ask(self, query: str) -> int:
        return self.connection.execute(query).fetchone()[0]


class WorkerStatement:
    def __init__(self) -> None:
        from benchmarks.systems import pgjobs
        from pgjobs.queue import claiming, recording
        from pgjobs.worker.connections.connection import (
            OwnConnection,
            Watchdog,
            plan_once,
        )

        self.claiming, self.recording = claiming, recording
        self.fill = pgjobs.fill
        pgjobs.setup()
        self.connection = OwnConnection(
            "default", "loop", "benchmark", Watchdog(), 30, prepare=plan_once
        )

    def round_trip(self, done: list, batch: int) -> list:
        brought = self.claiming.record_and_claim(
            self.connection, 1, successes=done, limit=batch
        )
        success = self.recording.Success
        return [success(job.id, job.lease_token, None) for job in brought.jobs]

    def ask(self, query: str) -> int:
        return self.connection.execute(query)[0][0]


CLIENTS = {client.__name__: client for client in (BareSQL, WorkerStatement)}


def drain(client: BareSQL | WorkerStatement, batch: int) -> tuple[float, float]:
    """Claim and record all that is READY; return the jobs a second, and the
    microseconds of the server's processor for a round trip.
    """
    number = JOBS[batch]
    client.fill("ready", number)
    client.connection.execute("VACUUM ANALYZE")
    with privileged() as server:
        server.execute("CHECKPOINT")
    pid = client.ask("SELECT pg_backend_pid()")
    used, begun = cpu_seconds(pid), time.perf_counter()
    recorded, round_trips, done = 0, 1, client.round_trip([], batch)
    while done:
        recorded += len(done)
        round_trips += 1
        done = client.round_trip(done, batch)
    seconds, used = time.perf_counter() - begun, cpu_seconds(pid) - used
    if recorded != number:
        raise SystemExit(f"Only {recorded} of {number} jobs were recorded.")
    return number / seconds, used / round_trips * 1e6


def serve(name: str) -> None:
    """Drain as often as a line of the standard input asks for it."""
    client = CLIENTS[name]()
    for line in sys.stdin:
        sys.stdout.write("{} {}\n".format(*drain(client, int(line))))
        sys.stdout.flush()


class Measured:
    """A client in a process of its own, with the code of a checkout."""

    def __init__(self, name: str, client: str, checkout: Path, server: Server, at: int):
        self.name = name
        url = server.create_database(f"turns{at}")
        self.process = subprocess.Popen(
            [sys.executable, __file__, client],
            cwd=checkout,
            env={**os.environ, "PYTHONPATH": str(checkout), "DATABASE_URL": url},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def drain(self, batch: int) -> Sequence[float]:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(f"{batch}\n")
        self.process.stdin.flush()
        return [float(each) for each in self.process.stdout.readline().split()]

    def end(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()


def main(checkouts: Sequence[str]) -> None:
    paths = [ROOT, *(Path(each).resolve() for each in checkouts)]
    with running_server(os.environ.get("DATABASE_URL")) as server:
        named = [("bare SQL", "BareSQL", ROOT)]
        named += [(f"pgjobs in {path}", "WorkerStatement", path) for path in paths]
        clients = [Measured(*each, server, at) for at, each in enumerate(named)]
        print(f"PostgreSQL {server.version}, medians of {ROUNDS} rounds")  # noqa: T201
        for batch in JOBS:
            rounds = [[each.drain(batch) for each in clients] for _ in range(ROUNDS)]
            for client, results in zip(clients, zip(*rounds, strict=True), strict=True):
                rate, used = map(statistics.median, zip(*results, strict=True))
                print(  # noqa: T201
                    f"{batch:4} at a time {rate:8,.0f} jobs/s {used:8,.0f} us of the "
                    f"server for a round trip  {client.name}"
                )
        for at, client in enumerate(clients):
            client.end()
            server.drop_database(f"turns{at}")


if __name__ == "__main__":
    serve(sys.argv[1]) if sys.argv[1:2] in ([each] for each in CLIENTS) else main(
        sys.argv[1:]
    )
