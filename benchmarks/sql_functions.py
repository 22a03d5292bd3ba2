"""Measure `pgjobs_enqueue` and a bare INSERT: `python -m benchmarks.sql_functions`.

Both insert the same job, of a task with three parameters (an integer, a text and a
choice), alternately on one connection. The processor time is the server's alone; the
others are what the client waits for.
"""

import statistics
import time

from .locks import in_project, quantile, say, used_by
from .server import running_server

ROUNDS = 300
BATCH = 20
ARGUMENTS = '{"client_id": 42, "month": "2024-01", "format": "csv"}'
INSERT = (
    f"INSERT INTO pgjobs_job (task, kwargs) VALUES ('project.report', '{ARGUMENTS}')"
)
ENQUEUE = f"SELECT * FROM pgjobs_enqueue('project.report', '{ARGUMENTS}')"


def repeated(statement: str) -> str:
    """Return a block that runs a statement, planned once, many times."""
    as_statement = statement.replace("SELECT *", "PERFORM *")
    return f"DO $$ BEGIN FOR i IN 1..{BATCH} LOOP {as_statement}; END LOOP; END $$"


def waited(connection, statement: str) -> float:
    """Return the microseconds that one statement takes, its commit included."""
    begin = time.perf_counter()
    for _ in range(BATCH):
        connection.execute(statement)
    return (time.perf_counter() - begin) * 1e6 / BATCH


def waited_in_transaction(connection, statement: str) -> float:
    with connection.transaction():
        return waited(connection, statement)


def processor_time(connection, statement: str) -> float:
    return used_by(connection, repeated(statement)) / BATCH


def main() -> None:
    import psycopg

    with running_server() as server:
        url = server.create_database("sql")
        in_project("setup", url)
        connection = psycopg.connect(url, autocommit=True)
        say("| | bare INSERT | pgjobs_enqueue | quotient |\n|---|---|---|---|")
        for title, measure in (
            ("a statement and its commit", waited),
            ("a statement in a transaction", waited_in_transaction),
            ("processor time of the server", processor_time),
        ):
            pairs = [
                (measure(connection, INSERT), measure(connection, ENQUEUE))
                for _ in range(ROUNDS)
            ]
            bare, checked = (quantile(times) for times in zip(*pairs, strict=True))
            quotient = statistics.median(b / a for a, b in pairs)
            say(f"| {title} | {bare:.0f} µs | {checked:.0f} µs | {quotient:.2f} |")


if __name__ == "__main__":
    main()
