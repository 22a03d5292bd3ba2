"""Finding the READY jobs whose row makes a claim fail."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

import psycopg

from ..base.database_errors import is_of_row
from ..sql import statement
from .statements import Execute, array

MOST = 1_000  # jobs to try
NOW = "SET CONSTRAINTS ALL IMMEDIATE"


class Connection(Protocol):
    def execute(self, query: str, parameters: dict | None = None) -> list[tuple]: ...

    def transaction(self) -> AbstractContextManager[None]: ...


class RolledBack(Exception):
    """Rolls a trial back."""


def first_in_line(
    execute: Execute, limit: int, queues: Iterable[str] | None, excluded: Iterable[str]
) -> list[int]:
    """Return the ids of the jobs among which a claim chooses."""
    parameters = {
        "limit": limit,
        "queues": None if queues is None else list(queues),
        "excluded": list(excluded),
        "most": MOST,
    }
    return [id for (id,) in execute(statement("first_in_line"), parameters)]


def unclaimable(
    connection: Connection, worker_id: int, ids: Sequence[int]
) -> Iterator[tuple[int, psycopg.Error]]:
    """Yield which of these jobs cannot be claimed, and why; try by halves."""
    if not ids:
        return
    try:
        try_to_claim(connection, worker_id, ids)
    except psycopg.Error as error:
        if not is_of_row(error):
            raise
        if len(ids) == 1:
            yield ids[0], error
            return
        middle = len(ids) // 2
        yield from unclaimable(connection, worker_id, ids[:middle])
        yield from unclaimable(connection, worker_id, ids[middle:])


def try_to_claim(connection: Connection, worker_id: int, ids: Sequence[int]) -> None:
    """Claim jobs and roll it back; raise what a claim would raise."""
    try:
        with connection.transaction():
            connection.execute(NOW)
            parameters = {"worker_id": worker_id, "ids": array(ids)}
            connection.execute(statement("try_claim"), parameters)
            raise RolledBack
    except RolledBack:
        return
