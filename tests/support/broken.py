"""Let a statement of workers fail for as long as a test likes."""

from collections import Counter
from contextlib import contextmanager

import psycopg

from pgjobs.worker.connections.connection import OwnConnection
from tests.processes import STATEMENTS


@contextmanager
def broken(name: str):
    """Let one statement fail in all workers of this process; count how often."""
    failures: Counter[str] = Counter()
    execute, together = OwnConnection.execute, OwnConnection.together
    execute_of_driver = psycopg.Connection.execute

    def refuse(query):
        if STATEMENTS.get(query) == name:
            failures[name] += 1
            raise psycopg.errors.UndefinedColumn(f"{name} is broken")

    def failing(self, query, parameters=None):
        refuse(query)
        return execute(self, query, parameters)

    def failing_together(self, statements):
        for query, _ in statements:
            refuse(query)
        return together(self, statements)

    def failing_of_driver(self, query, *args, **kwargs):
        if isinstance(query, str):  # the listener has a plain connection
            refuse(query)
        return execute_of_driver(self, query, *args, **kwargs)

    OwnConnection.execute, OwnConnection.together = failing, failing_together
    psycopg.Connection.execute = failing_of_driver
    try:
        yield failures
    finally:
        OwnConnection.execute, OwnConnection.together = execute, together
        psycopg.Connection.execute = execute_of_driver
