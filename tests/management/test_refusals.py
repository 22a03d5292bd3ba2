"""What the commands say when the database refuses: the cure, and no traceback."""

import re
import threading
from io import StringIO

import psycopg
import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from psycopg import sql

from pgjobs.models import Job
from tests import harness
from tests.actors import session
from tests.processes import shared_queue, wait_for

pytestmark = shared_queue

WRITING = [
    ("enqueuejob", "tests.noop"),
    ("runjobs", "--drain"),
    ("prunejobs", "--older", "0s"),
]
COMMANDS = [*WRITING, ("jobstatus",)]


@pytest.fixture
def connect_with(monkeypatch):
    """Let Django and pgjobs connect with other OPTIONS from now on."""

    def change(**options):
        for name, value in options.items():
            monkeypatch.setitem(connection.settings_dict["OPTIONS"], name, value)
        connection.close()

    yield change
    monkeypatch.undo()
    connection.close()


@pytest.fixture
def owner():
    """A session that may do everything."""
    with session() as owner:
        yield owner


@pytest.fixture
def stranger(owner, connect_with):
    """Act as a role that may only connect. Its name must be quoted."""
    with harness.role('stranger"') as name:
        connect_with(assume_role=name)
        yield sql.Identifier(name).as_string(None)
        connection.close()


def refusal(command: tuple[str, ...]) -> str:
    with pytest.raises(CommandError) as refused:
        run(command)
    assert refused.value.returncode == 1
    return str(refused.value)


def run(command: tuple[str, ...]) -> None:
    call_command(*command, stdout=StringIO(), stderr=StringIO())


@pytest.mark.parametrize("command", WRITING)
def test_message_says_that_the_database_is_read_only(connect_with, command):
    connect_with(options="-c default_transaction_read_only=on")
    told = refusal(command)
    assert "The database 'default' is read-only: cannot execute " in told
    assert "default_transaction_read_only off" in told


def test_database_that_is_read_only_has_a_status(connect_with):
    connect_with(options="-c default_transaction_read_only=on")
    run(("jobstatus",))


def test_role_that_may_do_nothing_learns_what_it_needs(stranger):
    for command in COMMANDS:
        told = refusal(command)
        assert "permission denied for table django_migrations" in told
        assert told.count("GRANT ") == 5


def test_rights_that_the_error_names_are_enough_for_all_commands(stranger, owner):
    told = refusal(("runjobs", "--drain"))
    owner.execute(told.partition("run:")[2])
    for command in COMMANDS:
        run(command)
    assert not Job.objects.exists()  # run, and then pruned


def test_role_that_may_only_read_the_migrations_learns_the_missing_rights(
    stranger, owner
):
    owner.execute(f"GRANT SELECT ON django_migrations TO {stranger}")
    for command in COMMANDS:
        assert re.search(
            "permission denied for (table|function) pgjobs_", refusal(command)
        )


@pytest.mark.parametrize("command", COMMANDS)
def test_schema_without_tables_is_to_be_migrated(connect_with, command):
    connect_with(options="-c search_path=pg_catalog")
    assert "run 'manage.py migrate pgjobs --database default' first" in refusal(command)


@pytest.mark.parametrize("command", COMMANDS)
def test_table_that_is_gone_although_migrated_is_named(owner, command):
    table = "pgjobs_worker" if command[0] in ("runjobs", "jobstatus") else "pgjobs_job"
    owner.execute(f"ALTER TABLE {table} RENAME TO hidden")
    try:
        told = refusal(command)
    finally:
        owner.execute(f"ALTER TABLE hidden RENAME TO {table}")
    assert f'relation "{table}" does not exist' in told
    assert "migrate pgjobs --database default" in told


@pytest.mark.parametrize("command", COMMANDS)
def test_server_that_cancels_a_command_is_quoted(connect_with, owner, command):
    table = "pgjobs_worker" if command[0] in ("runjobs", "jobstatus") else "pgjobs_job"
    connect_with(options="-c statement_timeout=150")
    owner.begin()
    owner.execute(f"LOCK TABLE {table}")
    assert "'default' failed: canceling statement due to" in refusal(command)


def test_fault_of_ours_keeps_its_traceback(monkeypatch):
    monkeypatch.setattr("pgjobs.worker.session.statement", lambda name: "SELECT 1/0")
    with pytest.raises(psycopg.errors.DivisionByZero):
        run(("runjobs", "--drain"))


def test_worker_that_is_refused_leaves_neither_session_nor_thread(owner, monkeypatch):
    monkeypatch.setattr("pgjobs.worker.session.statement", lambda name: "SELECT 1/0")
    before = set(threading.enumerate())
    with pytest.raises(psycopg.errors.DivisionByZero) as refused:
        run(("runjobs", "--drain", "--name", "refused"))
    sessions = "SELECT 1 FROM pg_stat_activity WHERE application_name LIKE '%refused'"
    wait_for(lambda: owner.execute(sessions) == [], "its session has ended")
    started = set(threading.enumerate()) - before
    assert not any(thread.name == "pgjobs-watchdog" for thread in started)
    assert refused.tb  # which would keep the session alive
