"""What a worker could reach at most: `python -m benchmarks.turns`.

Drains no-op jobs by bare SQL on its narrow table, as the systems bare-10 and bare-100
do, and on the table of pgjobs by the statement that its worker sends each turn. That
hands the jobs to nobody, as a worker would that costs nothing. Prints the medians, on a
PostgreSQL started for it or on that of DATABASE_URL.
"""

import os
import statistics
import time

from benchmarks.server import privileged, running_server

JOBS = {10: 12_000, 100: 40_000}  # by how many a statement takes
ROUNDS = 7


class BareSQL:
    name = "bare SQL"

    def __init__(self) -> None:
        from benchmarks.systems import bare_sql

        self.connection, self.statement = bare_sql.connection, bare_sql.TURN
        self.fill = bare_sql.fill
        bare_sql.setup()
        self.connection.execute(bare_sql.ONE_PLAN, prepare=False)

    def turn(self, done: list, batch: int) -> list:
        parameters = {"done": done, "batch": batch}
        claimed = self.connection.execute(self.statement, parameters).fetchall()
        return [id for id, _, _ in claimed]


class WorkerStatement:
    name = "the worker's statement"

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

    def turn(self, done: list, batch: int) -> list:
        brought = self.claiming.record_and_claim(
            self.connection, 1, successes=done, limit=batch
        )
        success = self.recording.Success
        return [success(job.id, job.lease_token, None) for job in brought.jobs]


def drain(client: BareSQL | WorkerStatement, batch: int) -> float:
    """Claim and record all that is READY; return the jobs a second."""
    number = JOBS[batch]
    client.fill("ready", number)
    client.connection.execute("VACUUM ANALYZE")
    with privileged() as server:
        server.execute("CHECKPOINT")
    recorded, done, begun = 0, client.turn([], batch), time.perf_counter()
    while done:
        recorded += len(done)
        done = client.turn(done, batch)
    seconds = time.perf_counter() - begun
    if recorded != number:
        raise SystemExit(f"Only {recorded} of {number} jobs were recorded.")
    return number / seconds


def main() -> None:
    with running_server(os.environ.get("DATABASE_URL")) as server:
        # Where the systems connect to as soon as they are imported.
        os.environ["DATABASE_URL"] = server.create_database("turns")
        clients = BareSQL(), WorkerStatement()
        print(f"PostgreSQL {server.version}, medians of {ROUNDS} rounds")  # noqa: T201
        for batch in JOBS:
            rounds = [
                [drain(client, batch) for client in clients] for _ in range(ROUNDS)
            ]
            rates = [statistics.median(each) for each in zip(*rounds, strict=True)]
            for client, rate in zip(clients, rates, strict=True):
                print(f"{batch:4} at a time  {client.name:24}{rate:8,.0f} jobs/s")  # noqa: T201
            print(f"                {rates[1] / rates[0]:.2f} of bare SQL")  # noqa: T201
        for client in clients:
            client.connection.close()
        server.drop_database("turns")


if __name__ == "__main__":
    main()
