"""Running statements: on a worker's own connection, or on Django's."""

from collections.abc import Callable, Iterable, Sequence

from django.db import connections

Execute = Callable[[str, dict], list[tuple]]


# Runs several statements in one round trip and one transaction.
Together = Callable[[Sequence[tuple[str, dict]]], list[list[tuple]]]


def array(numbers: Iterable[int]) -> str:
    """Return an array literal: unlike a list's, its type is always the same."""
    return "{" + ",".join(map(str, numbers)) + "}"


def execute_on(database: str) -> Execute:
    """Return a function that runs a statement on Django's connection."""

    def execute(sql: str, parameters: dict) -> list[tuple]:
        with connections[database].cursor() as cursor:
            cursor.execute(sql, parameters)
            return cursor.fetchall()

    return execute
