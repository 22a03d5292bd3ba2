"""A test that commits begins with what the code declares, and with no other row."""

import os
import signal

import pytest
from django.apps import apps
from django.contrib.auth.models import Permission
from django.core.management import CommandError, call_command
from django.core.management.sql import emit_post_migrate_signal
from django.db import connection

from pgjobs import enqueue_many
from pgjobs.features.definitions.definitions import declared, differences
from pgjobs.features.events import declare as events
from pgjobs.features.events.declare import row_of
from pgjobs.models import Queue, Schedule, Subscription
from tests import harness
from tests.actors import execute, in_thread, session
from tests.conftest import LONGEST
from tests.processes import ROOT, shared_queue, wait_for
from tests.settings import OWNER, TEST_DATABASE
from tests.support import emptying, hung
from tests.support.emptying import FEW_PAGES
from tests.support.kept_connections import tidy
from tests.tasks import noop

pytestmark = shared_queue


def empty() -> None:
    """Do what Django does after a test that commits."""
    options = {"allow_cascade": True, "inhibit_post_migrate": True}
    call_command("flush", interactive=False, reset_sequences=False, **options)


def test_what_is_declared_is_stored_again():
    for _ in range(2):  # the second time it is copied
        empty()
        emit_post_migrate_signal(verbosity=0, interactive=False, db="default")
        assert not any(differences("default", declared()))
        rows = {
            (task.name, subscribed.event): row_of(task, subscribed)
            for task, subscribed in events.declarations()
        }
        assert not Subscription.objects.differences(rows, others_go=True)
        assert Schedule.objects.exists()


def test_new_rows_have_ids_of_their_own_where_what_is_declared_was_copied():
    """A test may have made the tables again, and their sequences with them."""
    for _ in range(2):
        ids = {"first": Subscription.objects.order_by("pk").values_list("pk")[0][0]}
        empty()
        execute("SELECT setval('pgjobs_subscription_id_seq', %(first)s, false)", ids)
        emit_post_migrate_signal(verbosity=0, interactive=False, db="default")
    assert Subscription.objects.create(task="tests.noop", event="new").pk


@pytest.mark.parametrize("count", [1, 2_000])
def test_nothing_is_left_of_few_jobs_or_many(count):
    enqueue_many([noop.bind()] * count)
    pages = execute("SELECT pg_relation_size('pgjobs_job') / 8192")[0][0]
    assert (pages > FEW_PAGES) == (count > 1)
    empty()
    with connection.cursor() as cursor:
        for model in apps.get_app_config("pgjobs").get_models():
            cursor.execute(f"SELECT count(*) FROM {model._meta.db_table}")
            assert cursor.fetchone() == (0,), model


def test_table_of_another_app_that_refers_to_a_job_is_emptied_with_it():
    job = noop.enqueue()
    execute("CREATE TABLE referring (job_id bigint REFERENCES pgjobs_job)")
    try:
        execute("INSERT INTO referring VALUES (%(id)s)", {"id": job.pk})
        empty()
        assert execute("SELECT count(*) FROM referring") == [(0,)]
    finally:
        execute("DROP TABLE referring")


def test_row_of_a_transaction_that_ends_late_does_not_stay(monkeypatch):
    with session() as other:
        other.begin()
        other.execute("INSERT INTO pgjobs_queue (name) VALUES ('late')")
        monkeypatch.setattr(emptying, "PATIENCE", 0.05)
        with pytest.raises(CommandError):
            empty()  # waits, but not for ever
        monkeypatch.undo()
        other.commit()
    empty()
    assert not Queue.objects.exists()


# What a session holds that waits for another lock.
HELD = """
SELECT relation::regclass::text
FROM pg_locks AS held JOIN pg_database ON pg_database.oid = held.database
WHERE datname = current_database() AND locktype = 'relation'
    AND granted AND mode = 'AccessExclusiveLock' AND EXISTS (
        SELECT FROM pg_locks AS wanted
        WHERE NOT wanted.granted AND wanted.pid = held.pid
    )
"""


def empty_before_deadlocks_of_others() -> None:
    harness.execute("SET deadlock_timeout = '1s'")
    empty()


def test_deadlock_with_a_worker_that_still_ends_goes_on_after_its_end():
    names = connection.introspection.django_table_names(only_existing=True)
    last = [name for name in names if name.startswith("pgjobs_")][-1]
    with harness.connect(TEST_DATABASE) as other:
        other.execute("SET deadlock_timeout = '1min'")
        other.execute("BEGIN")
        other.execute(f"SELECT FROM {last}")
        with in_thread(empty_before_deadlocks_of_others) as emptied:
            held = wait_for(lambda: execute(HELD), "it has locked some tables")
            other.execute(f"SELECT FROM {held[0][0]}")
            other.execute("COMMIT")
            emptied.result(timeout=60)


def test_connection_is_kept_as_good_as_new():
    kept = connection.connection
    zone = execute("SHOW timezone")
    execute(f"SET ROLE {harness.POWERLESS}")
    execute("SET statement_timeout = '10min'")
    execute("SET timezone = 'Asia/Tokyo'")
    execute("LISTEN there")
    execute("CREATE TEMPORARY TABLE here AS SELECT 1 AS one")
    execute("SELECT pg_advisory_lock(1)")
    tidy(None)
    assert connection.connection is kept
    assert execute("SELECT current_user, to_regclass('here')") == [(OWNER, None)]
    assert execute("SHOW statement_timeout") == [("0",)]
    assert execute("SHOW timezone") == zone
    assert execute("SELECT pg_listening_channels()") == []
    locks = (
        "SELECT FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory'"
    )
    assert execute(locks) == []


def interrupt_the_harness() -> None:
    """Let a signal end a statement of the harness, as the time limit of a test does."""

    def give_up(*_):
        raise InterruptedError

    def interrupt_once_it_sleeps() -> None:
        sleeps = (
            "SELECT FROM pg_stat_activity"
            " WHERE wait_event = 'PgSleep' AND datname = current_database()"
        )
        with harness.connect(TEST_DATABASE) as other:
            wait_for(lambda: other.execute(sleeps).rowcount, "the harness sleeps")
        os.kill(os.getpid(), signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, give_up)
    try:
        with in_thread(interrupt_once_it_sleeps), pytest.raises(InterruptedError):
            harness.execute("SELECT pg_sleep(600)")
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_statement_of_a_test_that_hung_occupies_no_later_test():
    interrupt_the_harness()
    assert "SELECT pg_sleep(600)" in hung.sessions()
    hung.end_sessions()
    assert "SELECT pg_sleep(600)" not in hung.sessions()
    assert harness.execute("SELECT 1") == execute("SELECT 1") == [(1,)]


def test_harness_takes_no_connection_that_a_statement_still_occupies():
    interrupt_the_harness()
    occupied = harness.kept[TEST_DATABASE]
    assert harness.execute("SELECT 1") == [(1,)]
    occupied.cancel_safe()
    occupied.close()


def test_permissions_are_kept():
    before = set(Permission.objects.values_list("pk", "content_type_id", "codename"))
    assert before
    empty()
    after = set(Permission.objects.values_list("pk", "content_type_id", "codename"))
    assert after == before


def lose_it() -> None:
    pid = connection.connection.info.backend_pid
    with session() as other:
        other.execute("SELECT pg_terminate_backend(%(pid)s, 10000)", {"pid": pid})


def open_a_transaction() -> None:
    connection.set_autocommit(False)


def connect_in_another_way() -> None:
    connection.close()
    connection.settings_dict["OPTIONS"]["application_name"] = "another"
    connection.ensure_connection()
    del connection.settings_dict["OPTIONS"]["application_name"]


@pytest.mark.parametrize(
    "change", [lose_it, open_a_transaction, connect_in_another_way]
)
def test_connection_that_a_test_has_broken_is_not_kept(change):
    change()
    tidy(None)
    assert connection.connection is None


def test_files_that_begin_first_exist():
    assert [name for name in LONGEST if not (ROOT / "tests" / name).exists()] == []
