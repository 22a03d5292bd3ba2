"""Running statements: on a worker's own connection, or on Django's."""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from django.db import connections

Statement = tuple[str, dict]
Execute = Callable[[str, dict], list[tuple]]


# Runs several statements in one round trip and one transaction.
Together = Callable[[Sequence[Statement]], list[list[tuple]]]


class Client(Protocol):
    """What runs statements, one alone or several together."""

    def execute(self, query: str, parameters: dict, /) -> list[tuple]: ...

    def together(self, statements: Sequence[Statement], /) -> list[list[tuple]]: ...


class DjangoClient:
    """Runs statements on Django's connection, one after the other."""

    def __init__(self, database: str):
        self.database = database

    def execute(self, query: str, parameters: dict) -> list[tuple]:
        with connections[self.database].cursor() as cursor:
            cursor.execute(query, parameters)
            return cursor.fetchall()

    def together(self, statements: Sequence[Statement]) -> list[list[tuple]]:
        return [self.execute(*statement) for statement in statements]


def array(numbers: Iterable[object]) -> str:
    """Return an array literal. The type of a list would depend on its numbers."""
    return "{" + ",".join(map(str, numbers)) + "}"


def execute_on(database: str) -> Execute:
    """Return a function that runs a statement on Django's connection."""
    return DjangoClient(database).execute
