"""Functions find their tables after a schema was renamed; tenants share one queue."""

import pytest
from django.core.checks import run_checks
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import override_settings

from pgjobs import enqueue
from pgjobs.database.schema import follow_schema, functions_astray
from tests.tasks import noop

FIXED = """
SELECT oid::regprocedure::text FROM pg_proc
WHERE proname LIKE 'pgjobs\\_%' AND proconfig IS NOT NULL
"""


def found(**options) -> set[str]:
    return {each.id for each in run_checks(tags=["pgjobs"], **options)}


@pytest.fixture
def astray(db):
    """Leave the functions as a renamed schema leaves them."""
    with connection.cursor() as cursor:
        cursor.execute(FIXED)
        for (function,) in cursor.fetchall():
            cursor.execute(f"ALTER ROUTINE {function} SET search_path = old, pg_temp")


@pytest.mark.django_db
def test_functions_that_look_for_their_tables_in_the_right_schema_are_left_alone():
    assert functions_astray(connection) == []
    assert "pgjobs.W025" not in found(databases=["default"])


def test_functions_follow_a_renamed_schema(astray):
    assert "pgjobs.W025" in found(databases=["default"])
    follow_schema(connection)
    assert "pgjobs.W025" not in found(databases=["default"])
    assert enqueue(noop.using(lock="a")).status == "WAITING"


@pytest.fixture
def tenant(transactional_db):
    """Let Django's connections look into a schema of their own first."""
    with connection.cursor() as cursor:
        cursor.execute("CREATE SCHEMA tenant CREATE TABLE pgjobs_job ()")
        cursor.execute("SHOW search_path")
        (path,) = cursor.fetchone()
        cursor.execute(f"SET search_path = tenant, {path}")
    yield
    with connection.cursor() as cursor:
        cursor.execute(f"SET search_path = {path}")
        cursor.execute("DROP SCHEMA tenant CASCADE")


def test_worker_refuses_a_schema_that_only_djangos_connections_see(tenant):
    with pytest.raises(CommandError, match=r"schema tenant, but workers look into \w+"):
        call_command("runjobs", "--drain")


@pytest.mark.parametrize("name", ["pgjobs", "pgjobs.apps.PgjobsConfig"])
def test_queue_for_each_tenant_is_an_error(name):
    # Of itself Django 6.1 asks all databases, too.
    with override_settings(TENANT_APPS=["shop", name]):
        assert "pgjobs.E026" in found(databases=[])
    with override_settings(TENANT_APPS=["shop"], SHARED_APPS=[name]):
        assert "pgjobs.E026" not in found(databases=[])
