"""The superuser of the tests' server. No code of the package ever runs as this role.

It makes roles and databases, empties tables, fills them without triggers, reads
counters, and breaks things. Everything else is done by the ordinary role that owns the
tests' databases: `tests.settings.OWNER`.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

import psycopg
from psycopg import sql
from psycopg.pq import TransactionStatus

from tests.settings import OWNER, SCHEMA, SERVER_URL, TEST_DATABASE

POWERLESS = f"{OWNER}_powerless"
# Each session of a superuser has this name; tests/support/superusers.py looks for
# others.
APPLICATION = "tests.harness"
OCCUPIED = {TransactionStatus.ACTIVE, TransactionStatus.UNKNOWN}
# One that is kept for each database, because to connect takes longer than most tests.
kept: dict[str, psycopg.Connection] = {}


def server_url(database: str = "postgres") -> str:
    """Return the superuser's URL of a database."""
    server = urlsplit(SERVER_URL)
    query = "&".join(filter(None, [server.query, f"application_name={APPLICATION}"]))
    return server._replace(path=f"/{database}", query=query).geturl()


def connect(database: str = "postgres") -> psycopg.Connection:
    """Connect as the superuser, who commits each statement by itself."""
    return psycopg.connect(
        server_url(database), autocommit=True, options=f"-c search_path={SCHEMA}"
    )


def keep(database: str) -> psycopg.Connection:
    """Return the superuser's connection to a database, which stays open.

    A statement that a test's time limit has interrupted still occupies its connection.
    """
    own = kept.get(database)
    if own is None or own.closed or own.info.transaction_status in OCCUPIED:
        kept[database] = connect(database)
    return kept[database]


def let_go() -> None:
    """Close what is kept: nobody can drop a database that a session uses."""
    while kept:
        kept.popitem()[1].close()


def execute(
    query: str, parameters: dict | list | None = None, database: str = TEST_DATABASE
) -> list[tuple]:
    """Run a statement as the superuser in a transaction of its own; return its rows."""
    cursor = keep(database).execute(query, parameters)
    return cursor.fetchall() if cursor.description else []


def make_owner(server: psycopg.Connection) -> None:
    """Make the role that owns the tests' databases, without any further right.

    It may become a role that may do nothing.
    """
    known = "SELECT FROM pg_auth_members WHERE member = to_regrole(%s)"
    if server.execute(known, [OWNER]).rowcount:
        return
    server.execute(
        f"CREATE ROLE {OWNER} LOGIN CREATEDB NOSUPERUSER NOCREATEROLE"
        f" NOREPLICATION NOBYPASSRLS PASSWORD '{OWNER}';"
        f"CREATE ROLE {POWERLESS} ROLE {OWNER}"
    )


def make_template(server: psycopg.Connection) -> None:
    """Make the database of which those of the tests are copies: it has their schema."""
    name = f"{OWNER}_template"
    server.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
    server.execute(f"CREATE DATABASE {name} OWNER {OWNER}")
    with connect(name) as template:
        template.execute(f"CREATE SCHEMA {SCHEMA} AUTHORIZATION {OWNER}")


def let_in(role: sql.Identifier, database: str) -> None:
    """Let a role use our schema, as everybody may use `public`."""
    grant = sql.SQL(f"GRANT USAGE ON SCHEMA {SCHEMA} TO {{}}").format(role)
    with connect(database) as server, suppress(psycopg.errors.InvalidSchemaName):
        server.execute(grant)


@contextmanager
def role(
    name: str, attributes: str = "", database: str = TEST_DATABASE
) -> Iterator[str]:
    """Make a role for the length of a block. Without LOGIN the owner may become it.

    `database`: where the role may get rights, which it loses at the end. Gives its
    name, which no other run on the server uses.
    """
    name = f"{name}_{TEST_DATABASE}"
    quoted = sql.Identifier(name)
    with connect() as server:
        server.execute(sql.SQL("DROP ROLE IF EXISTS {}").format(quoted))
        server.execute(sql.SQL(f"CREATE ROLE {{}} {attributes}").format(quoted))
        server.execute(sql.SQL("GRANT {} TO {}").format(quoted, sql.Identifier(OWNER)))
    if SCHEMA != "public":
        let_in(quoted, database)
    try:
        yield name
    finally:
        with connect(database) as server:
            server.execute(sql.SQL("DROP OWNED BY {}").format(quoted))
            server.execute(sql.SQL("DROP ROLE {}").format(quoted))
