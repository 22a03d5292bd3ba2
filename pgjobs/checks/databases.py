"""System checks of the connection, and with --database of the server."""

from collections.abc import Iterator
from textwrap import shorten

import psycopg
from django.apps import apps
from django.conf import settings as django_settings
from django.core.checks import CheckMessage, Error, Warning, register
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from ..base.connections import pool_size
from ..base.database_choice import queue_databases
from ..conf import problems, settings
from ..database.schema import functions_astray

SUPPORTED_SERVER = 140000
ISOLATION_LEVELS = (psycopg.IsolationLevel.READ_COMMITTED, None)


@register("pgjobs")
def check_connection_settings(**kwargs) -> list[CheckMessage]:
    """Check the database's entry in DATABASES, without connecting."""
    if any(problems()):
        return []  # PGJOBS["DATABASE"] may be what is wrong
    return [
        message
        for alias in queue_databases()
        for message in problems_of_connection(alias)
    ]


def problems_of_connection(alias: str) -> list[CheckMessage]:
    if alias not in connections:
        is_default = alias == settings.DATABASE
        name = "DATABASE" if is_default else "DATABASES"
        return [
            Error(
                f"PGJOBS[{name!r}] names {alias!r}, which DATABASES does not have.",
                hint=f"DATABASES has {', '.join(sorted(connections))}.",
                id="pgjobs.E003",
            )
        ]
    connection = connections[alias]
    if connection.vendor != "postgresql":
        return [
            Error(
                "pgjobs needs PostgreSQL.",
                hint=f"DATABASES[{alias!r}] uses {connection.display_name}.",
                id="pgjobs.E004",
            )
        ]
    return list(connection_problems(alias, connection))


def connection_problems(
    alias: str, connection: BaseDatabaseWrapper
) -> Iterator[CheckMessage]:
    from django.db.backends.postgresql.psycopg_any import is_psycopg3

    options = connection.settings_dict["OPTIONS"]
    if not is_psycopg3:
        yield Error(
            "pgjobs needs psycopg 3, but Django uses psycopg2.",
            hint="pip install 'psycopg[binary]', and uninstall psycopg2.",
            id="pgjobs.E005",
        )
    if not connection.settings_dict["AUTOCOMMIT"]:
        yield Error(
            f"DATABASES[{alias!r}]['AUTOCOMMIT'] is False.",
            hint="Jobs would be enqueued only when code commits by hand.",
            id="pgjobs.E006",
        )
    if options.get("isolation_level") not in ISOLATION_LEVELS:
        yield Error(
            f"The isolation level of DATABASES[{alias!r}] is not READ COMMITTED.",
            hint="The acts on jobs rely on seeing what others have committed. Give the "
            "queue a database alias of its own (PGJOBS['DATABASE']).",
            id="pgjobs.E007",
        )
    yield from pool_problems(alias)


def pool_problems(alias: str) -> Iterator[CheckMessage]:
    """Yield a warning if jobs would wait for each other's connection."""
    size = pool_size(alias)
    if size is not None and size < settings.CONCURRENCY:
        yield Warning(
            f"The connection pool of DATABASES[{alias!r}] has {size} connections for "
            f"{settings.CONCURRENCY} slots of a worker.",
            hint="Set OPTIONS['pool']['max_size'] to at least PGJOBS['CONCURRENCY'], "
            "or jobs wait for each other and time out.",
            id="pgjobs.W008",
        )


@register("pgjobs")
def check_tenants(**kwargs) -> list[CheckMessage]:
    """Check that all tenants share one queue (django-tenants and its like)."""
    config = apps.get_app_config("pgjobs")
    names = {config.name, f"{type(config).__module__}.{type(config).__qualname__}"}
    if names.isdisjoint(getattr(django_settings, "TENANT_APPS", ())):
        return []
    return [
        Error(
            "pgjobs is in TENANT_APPS: jobs would be stored in the schema of each "
            "tenant, where no worker looks for them.",
            hint="Put 'pgjobs' into SHARED_APPS only. PGJOBS['META'] and "
            "['MIDDLEWARE'] carry the tenant to its job.",
            id="pgjobs.E026",
        )
    ]


@register("pgjobs", "database")
def check_server(databases=None, **kwargs) -> list[CheckMessage]:
    """Check the servers themselves. Only `check --database` and `migrate` do so."""
    if any(problems()):
        return []
    return [
        message
        for alias in queue_databases()
        if alias in (databases or ())
        for message in problems_of_server(alias)
    ]


def problems_of_server(alias: str) -> list[CheckMessage]:
    connection = connections[alias]
    if connection.vendor != "postgresql":
        return []
    connection.ensure_connection()
    return [
        *old_server(connection),
        *isolation_of_server(connection),
        *makers_of_functions(connection),
        *ascii_only(connection),
        *functions_left_behind(connection),
    ]


def old_server(connection) -> Iterator[CheckMessage]:
    version = connection.pg_version
    if version < SUPPORTED_SERVER:
        message = (
            f"The server is PostgreSQL {version // 10000}; pgjobs supports 14 and up."
        )
        yield Warning(message, id="pgjobs.W013")


def isolation_of_server(connection) -> Iterator[CheckMessage]:
    """Check the defaults of the server, the database and the role."""
    with connection.cursor() as cursor:
        cursor.execute("SHOW default_transaction_isolation")
        (level,) = cursor.fetchone()
    if level != "read committed":
        yield Error(
            f"Transactions on the database {connection.alias!r} begin as {level}: "
            "two of them that change the same job at a time would raise an error.",
            hint="Set default_transaction_isolation to 'read committed' for the "
            "database or the role, or only for these connections: OPTIONS['options'] = "
            "'-c default_transaction_isolation=read\\ committed'.",
            id="pgjobs.E015",
        )


def ascii_only(connection) -> Iterator[CheckMessage]:
    with connection.cursor() as cursor:
        cursor.execute("SHOW server_encoding")
        (encoding,) = cursor.fetchone()
    if encoding == "SQL_ASCII":
        yield Warning(
            f"The encoding of the database {connection.alias!r} is SQL_ASCII. Servers "
            "before PostgreSQL 16 refuse other characters in arguments there, and "
            "errors and logs of jobs are stored with escapes for them.",
            hint="Dump the database and restore it into one whose encoding is UTF8.",
            id="pgjobs.W024",
        )


def functions_left_behind(connection) -> Iterator[CheckMessage]:
    """Check that the functions look for tables where the tables are."""
    if found := functions_astray(connection):
        functions = shorten(", ".join(name for name, _ in found), 200)
        yield Warning(
            f"The tables of pgjobs are in the schema {found[0][1]}, but functions look "
            f"for them elsewhere, as after ALTER SCHEMA ... RENAME: {functions}. No "
            "worker can start.",
            hint=f"Run 'manage.py migrate --database {connection.alias}', which lets "
            "them follow the tables.",
            id="pgjobs.W025",
        )


# Roles that may create functions and operators on the search path of workers.
MAKERS = """
SELECT nspname, string_agg(rolname, ', ' ORDER BY rolname)
FROM pg_namespace JOIN pg_roles
    ON has_schema_privilege(pg_roles.oid, pg_namespace.oid, 'CREATE')
WHERE nspname = ANY (current_schemas(false))
    AND NOT rolsuper AND rolname <> current_user AND rolname NOT LIKE 'pg\\_%'
    AND NOT pg_has_role(pg_roles.oid, nspowner, 'USAGE')
GROUP BY nspname ORDER BY nspname
"""


def makers_of_functions(connection) -> Iterator[CheckMessage]:
    with connection.cursor() as cursor:
        cursor.execute(MAKERS)
        rows = cursor.fetchall()
    for schema, roles in rows:
        yield Warning(
            f"Other roles may create objects in the schema {schema!r}: "
            f"{shorten(roles, 200, placeholder=' ...')}. An operator that one of them "
            "makes there may run with the rights of a worker.",
            hint=f"REVOKE CREATE ON SCHEMA {schema} FROM PUBLIC, or from these roles.",
            id="pgjobs.W023",
        )
