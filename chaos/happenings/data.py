"""What is inserted: jobs that end their process, and rows like no job."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress

import psycopg

from chaos.checker.evidence import PRUNER
from chaos.faults import LONGEST_WAIT, Fault, Stage, fault

BESIDE = """
SELECT beside.id, beside.lease_token
FROM pgjobs_job AS hostile JOIN pgjobs_job AS beside USING (worker_id)
WHERE hostile.id = %s AND hostile.status = 'RUNNING' AND beside.status = 'RUNNING'
"""


@fault("a job that ends its process")
def insert_exit(stage: Stage, fault: Fault, draw: float) -> Iterator[None]:
    fault.target = "the worker that claims it"
    with stage.server.connect("chaos:hostile") as connection:
        ((id,),) = connection.execute(
            "INSERT INTO pgjobs_job (task, kwargs, max_crashes, priority) "
            "VALUES ('project.exits', '{\"mark\": \"hostile\"}', 2, 50) RETURNING id"
        ).fetchall()
        fault.met = jobs_beside(connection, id)
    yield


def jobs_beside(connection: psycopg.Connection, hostile: int) -> list[tuple[int, int]]:
    """Return what runs in the worker that claims the job, once it does.

    The row of the job is RUNNING for a moment longer than its process lives.
    """
    deadline = time.monotonic() + LONGEST_WAIT
    while time.monotonic() < deadline:
        if running := connection.execute(BESIDE, [hostile]).fetchall():
            return [job for job in running if job[0] != hostile]
        time.sleep(0.01)
    return []


@fault("prune batches")
def prune_batches(stage: Stage, fault: Fault, draw: float) -> Iterator[None]:
    """Delete what has ended of batches, again and again, as soon as it may go."""
    fault.target = "batches"
    environment = {**stage.fleet.environment, "CHAOS_NAME": PRUNER}
    command = [sys.executable, "-W", "ignore", "-m", "chaos.pruning"]
    process = subprocess.Popen(
        command, env=environment, cwd=stage.fleet.scratch, stderr=stage.fleet.log
    )
    try:
        yield
    finally:
        process.kill()
        process.wait()


POISON = [
    "(task, kwargs) VALUES ('poison.unknown', '{}')",
    "(task, kwargs) VALUES ('project.work', '{\"mark\": 5, \"no such\": 1}')",
    "(task, kwargs) VALUES ('project.work', ('{\"mark\": ' || repeat('9', 5000) || '}')"
    "::jsonb)",
    "(task, kwargs) VALUES ('project.work', (repeat('{\"a\":', 3000) || '1' || "
    "repeat('}', 3000))::jsonb)",
    "(task, kwargs, run_after) VALUES ('project.work', '{}', '9998-12-31')",
    "(task, kwargs, queue_name) VALUES ('project.work', '{\"mark\": \"\\u202e\"}', "
    "repeat('q', 200))",
    "(task, kwargs, status, worker_id, attempts) VALUES ('project.work', '{}', "
    "'RUNNING', 9223372036854775807, 1)",
    "(task, kwargs, run_after) VALUES ('project.work', '{}', 'infinity')",
    "(task, kwargs, keys) VALUES ('project.work', '{}', '{\"lock\": 5}')",
]


@fault("poisonous rows")
def insert_poison(stage: Stage, fault: Fault, draw: float) -> Iterator[None]:
    """Insert what a psql user may; what the table refuses is no poison."""
    taken = 0
    fault.met = stage.running()
    with stage.server.connect("chaos:poison") as connection:
        for row in POISON:
            with suppress(psycopg.errors.IntegrityError, psycopg.DataError):
                connection.execute(f"INSERT INTO pgjobs_job {row}")
                taken += 1
    fault.target = f"{taken} rows"
    yield
