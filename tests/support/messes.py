"""Tasks that leave something behind, and one that looks for it."""

import os
import socket
import threading

from django.db import connections, transaction
from django.utils import timezone, translation
from psycopg import sql

from pgjobs import task
from tests import harness

MESSES = {}


def mess(function):
    MESSES[function.__name__] = function
    return function


def statement(name: str, *texts: str) -> None:
    def execute(connection):
        with connection.cursor() as cursor:
            for text in texts:
                cursor.execute(text)

    MESSES[name] = execute


statement("setting", "SET statement_timeout = '9s'")
statement("setting after a comment", "/* no */ -- harm\nSET statement_timeout = '9s'")
statement("setting by function", "SELECT set_config('statement_timeout', '9s', false)")
statement("setting in a block", "DO $$ BEGIN SET statement_timeout = '9s'; END $$")
statement("setting after another", "SELECT 1; SET statement_timeout = '9s'")
statement("search path", "SET search_path TO pg_catalog")
statement("time zone of the session", "SET TIME ZONE 'Asia/Tokyo'")
statement("role", f"SET ROLE {harness.POWERLESS}")
statement("read only", "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY")
statement("temporary table", "CREATE TEMPORARY TABLE left_behind (id int)")
statement("temporary result", "SELECT 1 AS id INTO TEMP left_behind")
statement("advisory lock", "SELECT pg_advisory_lock(4711)")
statement("try advisory lock", "SELECT pg_try_advisory_lock_shared(4711)")
statement("listen", "LISTEN left_behind")
statement("prepared statement", "PREPARE left_behind AS SELECT 1")
statement("cursor", "DECLARE left_behind CURSOR WITH HOLD FOR SELECT 1")
statement("transaction", "BEGIN", "DELETE FROM pgjobs_job WHERE task = 'tests.noop'")
statement(
    "own function",
    "CREATE OR REPLACE FUNCTION set_in_test() RETURNS void LANGUAGE sql "
    "SET search_path = public AS $$ SELECT $$",
    "CREATE OR REPLACE FUNCTION set_in_test() RETURNS void LANGUAGE plpgsql "
    "AS $$ BEGIN PERFORM set_config('statement_timeout', '9s', false); END $$",
)
statement("call of an own function", "SELECT set_in_test()")


@mess
def beside_django(connection):
    connection.ensure_connection()
    connection.connection.execute("SET statement_timeout = '9s'")


@mess
def composed(connection):
    with connection.cursor() as cursor:
        cursor.execute(sql.SQL("SET statement_timeout = {}").format(sql.Literal("9s")))


@mess
def open_block(connection):
    transaction.atomic(using=connection.alias).__enter__()
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM pgjobs_job WHERE task = 'tests.noop'")


@mess
def aborted_block(connection):
    transaction.atomic(using=connection.alias).__enter__()
    try:
        connection.cursor().execute("SELECT broken")
    except Exception:  # noqa: BLE001  (whatever it is)
        return


@mess
def closed_in_a_block(connection):
    transaction.atomic(using=connection.alias).__enter__()
    connection.cursor().execute("SELECT 1")
    connection.close()


@mess
def no_autocommit(connection):
    connection.set_autocommit(False)
    connection.cursor().execute("DELETE FROM pgjobs_job WHERE task = 'tests.noop'")


@mess
def no_autocommit_beside_django(connection):
    connection.ensure_connection()
    connection.connection.autocommit = False


@mess
def closed(connection):
    connection.cursor().execute("SELECT 1")
    connection.close()


@mess
def closed_beside_django(connection):
    connection.ensure_connection()
    connection.connection.close()


@mess
def cut(connection):
    """Health checks are on; without them the next job would fail once."""
    connection.ensure_connection()
    with socket.socket(fileno=os.dup(connection.connection.fileno())) as end:
        end.shutdown(socket.SHUT_RDWR)


@mess
def all_closed(connection):
    connections.close_all()


@mess
def wrapper(connection):
    def refuse(*args):
        raise RuntimeError("left behind")

    connection.execute_wrappers.append(refuse)


@mess
def language(connection):
    translation.activate("fr")
    timezone.activate("Asia/Tokyo")


@task
def leave(name: str, alias: str):
    MESSES[name](connections[alias])


SESSION = """
SELECT json_build_object(
    'settings', (
        SELECT json_agg(name || '=' || setting ORDER BY name) FROM pg_settings
        WHERE name IN ('statement_timeout', 'search_path', 'TimeZone',
                       'default_transaction_read_only')
    ),
    'role', current_user,
    'temporary tables', (
        SELECT count(*) FROM pg_class WHERE relnamespace = pg_my_temp_schema()
    ),
    'locks', (
        SELECT count(*) FROM pg_locks
        WHERE locktype = 'advisory' AND pid = pg_backend_pid()
    ),
    'channels', (SELECT count(*) FROM pg_listening_channels()),
    'prepared', (SELECT count(*) FROM pg_prepared_statements),
    'cursors', (SELECT count(*) FROM pg_cursors WHERE is_holdable),
    'jobs', (SELECT count(*) FROM pgjobs_job WHERE task = 'tests.noop')
)
"""


@task(max_attempts=1)
def look_at_session(alias: str) -> dict:
    connection = connections[alias]
    found = {
        "atomic": connection.in_atomic_block,
        "autocommit": connection.get_autocommit(),
    }
    with transaction.atomic(using=alias), connection.cursor() as cursor:
        cursor.execute(SESSION)
        found["session"] = cursor.fetchone()[0]
    return {
        **found,
        "language": translation.get_language(),
        "time zone": timezone.get_current_timezone_name(),
        "thread": threading.current_thread().name,
    }
