"""Another alias of a database, which the project knows for a while."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connections


@contextmanager
def known_alias(alias: str, settings: dict) -> Iterator[None]:
    """Let the project know a database by this alias."""
    connections.databases[alias] = settings
    try:
        yield
    finally:
        # Whoever takes the alias next must not get this connection.
        connections[alias].close()
        del connections[alias]
        del connections.databases[alias]
