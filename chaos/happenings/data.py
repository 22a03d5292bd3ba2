"""What is inserted: jobs that end their process, and rows like no job."""

from collections.abc import Iterator
from contextlib import suppress

import psycopg

from chaos.faults import Fault, Stage, fault


@fault("a job that ends its process")
def insert_exit(stage: Stage, fault: Fault, draw: float) -> Iterator[None]:
    fault.target = "the worker that claims it"
    with stage.server.connect("chaos:hostile") as connection:
        connection.execute(
            "INSERT INTO pgjobs_job (task, kwargs, max_crashes, priority) "
            "VALUES ('project.exits', '{\"mark\": \"hostile\"}', 2, 50)"
        )
    yield


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
    with stage.server.connect("chaos:poison") as connection:
        for row in POISON:
            with suppress(psycopg.errors.IntegrityError, psycopg.DataError):
                connection.execute(f"INSERT INTO pgjobs_job {row}")
                taken += 1
    fault.target = f"{taken} rows"
    yield
