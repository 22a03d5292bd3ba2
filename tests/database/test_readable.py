"""What servers and roles print in styles of their own, and what the driver reads."""

from datetime import timedelta

import psycopg
import pytest
from django.core.checks import run_checks
from django.db import connections
from psycopg import sql

from pgjobs.base.connections import connect
from pgjobs.base.database_errors import is_of_row
from pgjobs.checks.databases import ascii_only
from tests.processes import database_url
from tests.settings import TEST_DATABASE

STYLES = (
    "-c IntervalStyle=iso_8601 -c DateStyle=German",
    "-c IntervalStyle=sql_standard -c DateStyle=SQL,DMY",
    "-c IntervalStyle=postgres_verbose -c DateStyle=Postgres",
)
VALUES = "SELECT interval '1 day', now(), now()::date"


@pytest.mark.django_db
@pytest.mark.parametrize("options", STYLES)
def test_connection_of_our_own_reads_a_session_of_any_style(options):
    with connect("default", "look", "style", options=options) as own:
        day, now, today = own.execute(VALUES).fetchone()
    assert (day, now.date()) == (timedelta(days=1), today)


@pytest.mark.direct
@pytest.mark.django_db
@pytest.mark.parametrize("options", STYLES)
def test_connection_of_django_reads_a_session_of_any_style(options):
    django = connections["default"].copy()
    given = django.settings_dict
    django.settings_dict = {
        **given,
        "OPTIONS": {**given["OPTIONS"], "options": options},
    }
    try:
        with django.cursor() as cursor:
            cursor.execute(VALUES)
            day, now, _ = cursor.fetchone()
    finally:
        django.close()
    assert day == timedelta(days=1)
    assert now is not None


@pytest.mark.django_db
def test_session_that_can_be_read_stays_as_it_is():
    options = "-c IntervalStyle=postgres -c DateStyle=ISO,DMY"
    with connect("default", "look", "style", options=options) as own:
        assert own.execute("SHOW DateStyle").fetchone() == ("ISO, DMY",)


@pytest.fixture
def ascii_database():
    """A database as LANG=C makes it on old servers."""
    name = f"{TEST_DATABASE}_ascii"
    with psycopg.connect(database_url(), autocommit=True) as server:
        drop = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(
            sql.Identifier(name)
        )
        create = "CREATE DATABASE {} ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0"
        server.execute(drop)
        server.execute(sql.SQL(create).format(sql.Identifier(name)))
        yield name
        server.execute(drop)


def test_character_that_a_database_does_not_know_is_a_fault_of_its_row(ascii_database):
    where = {"dbname": ascii_database, "client_encoding": "UTF8", "autocommit": True}
    with psycopg.connect(database_url(), **where) as own:
        # Old servers raise the same for JSON.
        with pytest.raises(psycopg.Error) as raised:
            own.execute(r"SELECT unistr('\2603')")
        assert raised.value.sqlstate == "0A000"
        assert is_of_row(raised.value)
        with pytest.raises(psycopg.Error) as raised:
            own.execute("CREATE TABLE t (a int); PREPARE p AS SELECT * FROM t")
            own.execute("ALTER TABLE t ADD b int")
            own.execute("EXECUTE p")
        assert raised.value.sqlstate == "0A000"
        assert not is_of_row(raised.value)


@pytest.mark.django_db
def test_encoding_that_knows_ascii_only_is_reported(ascii_database):
    django = connections["default"].copy("ascii")
    django.settings_dict = {**django.settings_dict, "NAME": ascii_database}
    try:
        (message,) = ascii_only(django)
    finally:
        django.close()
    assert message.id == "pgjobs.W024"


@pytest.mark.django_db
def test_usual_encoding_is_not_reported():
    found = run_checks(tags=["pgjobs"], databases=["default"])
    assert "pgjobs.W024" not in {each.id for each in found}
