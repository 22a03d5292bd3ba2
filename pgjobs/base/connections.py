"""Connections of pgjobs' own, beside Django's: autocommit, named, one user each."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import psycopg
from django.db import connections
from psycopg import sql

from ..conf import is_by_alias, settings
from .forks import keep_private
from .readable import make_readable

LONGEST_APPLICATION_NAME = 63


def parameters_of(alias: str) -> dict[str, Any]:
    """Return Django's connection parameters of this database, for plain psycopg."""
    parameters = connections[alias].get_connection_params()
    for name in ("cursor_factory", "context", "prepare_threshold"):
        parameters.pop(name, None)
    return parameters


def pool_size(alias: str) -> int | None:
    """Return the size of Django's pool of the alias, or None without a pool."""
    pool = connections[alias].settings_dict["OPTIONS"].get("pool")
    if not pool:
        return None
    given = pool if isinstance(pool, dict) else {}
    # psycopg_pool: max_size defaults to min_size, which defaults to 4.
    return given.get("max_size") or given.get("min_size", 4)


def connect(
    alias: str,
    role: str,
    name: str,
    guard: Callable[[psycopg.Connection], AbstractContextManager] = nullcontext,
    **changes: Any,
) -> psycopg.Connection:
    """Open an autocommit connection to the database of this alias.

    `role` and `name` go into the application name, `changes` into the connection
    parameters. `guard` surrounds the statements that are sent here. Raises
    psycopg.OperationalError.
    """
    parameters = parameters_of(alias) | named(role, name) | changes
    # Behind a pooler a prepared statement would stay in a session of other clients.
    connection = psycopg.connect(**parameters, autocommit=True, prepare_threshold=None)
    keep_private(connection)
    try:
        with guard(connection):
            make_readable(connection)
            assume_role(alias, connection)
    except BaseException:
        connection.close()
        raise
    return connection


def listen_changes(alias: str) -> dict[str, Any]:
    """Return the connection parameters that lead a listener around a pooler."""
    given = settings.LISTEN
    if is_by_alias(given):
        return dict(given.get(alias, {}))
    return given if isinstance(given, dict) else {}


def named(role: str, name: str) -> dict[str, Any]:
    application_name = f"pgjobs:{role}:{name}".encode()[:LONGEST_APPLICATION_NAME]
    return {
        "application_name": application_name.decode(errors="ignore"),
        "connect_timeout": 10,
    }


def assume_role(alias: str, connection: psycopg.Connection) -> None:
    """Assume the role of Django's connections (OPTIONS["assume_role"])."""
    role = connections[alias].settings_dict["OPTIONS"].get("assume_role")
    if role:
        connection.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(role)))


def is_pooled(connection: psycopg.Connection) -> bool:
    """Whether the connection leads to a pooler, whose sessions clients share.

    A pooler hands out process ids of its own.
    """
    row = connection.execute("SELECT pg_backend_pid()").fetchone()
    return row is not None and row[0] != connection.info.backend_pid
