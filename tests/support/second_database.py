"""Two databases of one server, each with a queue: "default" and "eu"."""

import os

import psycopg
import pytest
from django.core.management import call_command
from django.db import connections
from psycopg import sql

from pgjobs.models import Worker
from tests import harness
from tests.processes import LONGEST_TEST, WorkerProcess, database_url
from tests.settings import TEST_DATABASE
from tests.support.known_alias import known_alias

SECOND = f"{TEST_DATABASE}_eu"


def on_server(statement: str, name: str) -> None:
    with psycopg.connect(database_url(), autocommit=True) as server:
        server.execute(sql.SQL(statement).format(sql.Identifier(name)))


def drop(name: str) -> None:
    """Drop a database, as the superuser: only a superuser ends a session of its own."""
    harness.let_go()
    with harness.connect() as server:
        statement = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)")
        server.execute(statement.format(sql.Identifier(name)))


@pytest.fixture(scope="session")
def second_database(django_db_setup, django_db_blocker):
    """Create the database "eu" and migrate it, as a project adds a shard."""
    drop(SECOND)
    on_server("CREATE DATABASE {}", SECOND)
    default = connections["default"].settings_dict
    with known_alias("eu", {**default, "NAME": SECOND}):
        with django_db_blocker.unblock():
            call_command("migrate", database="eu", verbosity=0)
            connections["eu"].close()
        yield
    drop(SECOND)


@pytest.fixture(autouse=True)
def two_databases(second_database, monkeypatch):
    """Let each test know both databases, and the workers that it starts."""
    monkeypatch.setitem(os.environ, "PGJOBS_TEST_SECOND", SECOND)


@pytest.fixture
def start(two_databases, transactional_db):
    """Start `runjobs` with both databases; returns at once."""
    started = []

    def run(*arguments: str, **how) -> WorkerProcess:
        started.append(WorkerProcess(*arguments, **how))
        return started[-1]

    yield run
    for worker in started:
        if worker.is_alive:
            worker.process.terminate()
            worker.wait(LONGEST_TEST)
        worker.log.close()


def workers_of(alias: str) -> list[int]:
    return list(Worker.objects.using(alias).values_list("pid", flat=True))
