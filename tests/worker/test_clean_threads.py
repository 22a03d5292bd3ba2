"""What a job leaves behind in its thread is gone for the next one."""

import json
from datetime import timedelta

import pytest
from django.db import connection

from pgjobs import enqueue, enqueue_many, signals, task
from pgjobs.models import Job
from pgjobs.worker.slots.cleaning import may_change_session
from tests import tasks
from tests.actors import execute
from tests.processes import drain, running_worker, shared_queue, wait_for, wait_for_all
from tests.support import messes

pytestmark = shared_queue

CONNECTING = {
    "a new connection each": {"CONN_MAX_AGE": 0},
    "for ever": {"CONN_MAX_AGE": None},
    "from a pool": {
        "CONN_MAX_AGE": 0,
        "OPTIONS": {"pool": {"min_size": 1, "max_size": 1, "timeout": 5}},
    },
}


@pytest.mark.direct
@pytest.mark.parametrize("connecting", ["for ever", "from a pool"])
def test_next_job_on_the_same_thread_finds_everything_in_order(
    connecting, start_worker
):
    later = tasks.noop.using(run_after=timedelta(hours=1)).enqueue()
    first = enqueue(messes.look_at_session, "default")
    pairs = [
        (enqueue(messes.leave, name, alias), enqueue(messes.look_at_session, alias))
        for alias in ("default", "other")
        for name in messes.MESSES
    ]
    worker = start_worker(
        "--concurrency",
        "1",
        "--drain",
        registered=False,
        settings={"TASK_MODULES": ["tests.support.messes"]},
        PGJOBS_TEST_CONNECTING=json.dumps(CONNECTING[connecting]),
    )
    assert worker.wait() == 0, worker.printed
    first.refresh_from_db()
    in_order = first.return_value
    assert in_order["thread"] == "pgjobs-slot-1"
    assert in_order["session"]["jobs"] == 1
    for messy, look in pairs:
        messy.refresh_from_db()
        look.refresh_from_db()
        what = f"{messy.kwargs}: {messy.reason} {look.reason}"
        assert messy.status == "SUCCESSFUL", what
        assert look.return_value == in_order, what
    later.refresh_from_db()
    assert later.status == "SCHEDULED"


# What counts as changing the session

PLAIN = [
    "SELECT 1",
    'SELECT "a"."b" FROM "a" WHERE "a"."b" = %s',
    "(SELECT 1) UNION (SELECT 2)",
    "/* from a view */ SELECT 1",
    "SELECT EXISTS (SELECT FROM a)",
    "SELECT nextval('a')",
    "SELECT pg_notify('a', 'b')",
    "SELECT pg_advisory_xact_lock(1)",
    "SELECT COUNT(*) FROM a",
    "INSERT INTO a VALUES (%s)",
    "WITH a AS (SELECT 1) UPDATE b SET c = 1",
    "SET LOCAL statement_timeout = 1",
    'SAVEPOINT "s1"',
    "COPY a FROM STDIN",
    "TRUNCATE a;",
]
CHANGING = [
    "SET search_path = a",
    "  set role a",
    "RESET ALL",
    "LISTEN a",
    "CREATE TEMP TABLE a ()",
    "SELECT 1 INTO TEMPORARY a",
    "SELECT pg_advisory_lock(1)",
    "SELECT a, pg_try_advisory_lock(a) FROM b",
    "SELECT set_config('a', 'b', false)",
    "SELECT my_function(1)",
    'SELECT "my"."function" (1)',
    "DO $$ BEGIN END $$",
    "CALL a()",
    "SELECT 1; SET role a",
    "-- SELECT\nSET role a",
    "SELECTED",
    "",
]


@pytest.mark.parametrize("sql", PLAIN)
def test_statement_leaves_the_session_as_it_was(sql):
    assert not may_change_session(sql)


@pytest.mark.parametrize("sql", CHANGING)
def test_statement_may_change_the_session(sql):
    assert may_change_session(sql)


@pytest.mark.direct
def test_jobs_that_change_no_session_keep_their_connection(monkeypatch):
    monkeypatch.setitem(connection.settings_dict, "CONN_MAX_AGE", None)
    jobs = [enqueue(messes.look_at_session, "default") for _ in range(20)]
    jobs += [enqueue(tell_backend) for _ in range(20)]
    drain(slots=1)
    pids = {Job.objects.get(pk=each.pk).return_value for each in jobs[20:]}
    assert len(pids) == 1


@task
def tell_backend() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return cursor.fetchone()[0]


# How many connections


@pytest.mark.direct
def test_connection_that_announces_the_ends_of_jobs_is_closed(monkeypatch):
    monkeypatch.setitem(connection.settings_dict, "CONN_MAX_AGE", None)
    before = backends()
    ended = []

    def receive(job, **kwargs):
        ended.append(job.pk)

    signals.job_finished.connect(receive)
    try:
        with running_worker(slots=1):
            enqueue_many([tasks.count_jobs.bind()] * 3)
            wait_for(lambda: len(ended) == 3)
            wait_for(lambda: backends() - before <= 1 + 3)
    finally:
        signals.job_finished.disconnect(receive)


def backends() -> int:
    """Return how many sessions the database has."""
    sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
    return execute(sql)[0][0]


@pytest.mark.direct
@pytest.mark.parametrize("connecting", CONNECTING)
def test_jobs_leave_no_more_connections_than_slots_and_three(connecting, start_worker):
    how = {**CONNECTING[connecting]}
    if "OPTIONS" in how:
        how["OPTIONS"] = {"pool": {"min_size": 0, "max_size": 3}}
    before = backends()
    worker = start_worker("--concurrency", "3", PGJOBS_TEST_CONNECTING=json.dumps(how))
    enqueue_many([tasks.count_jobs.bind(), tasks.count_jobs_async.bind()] * 30)
    wait_for_all("SUCCESSFUL")
    wait_for(lambda: backends() - before <= 3 + 3)
    if connecting == "for ever":
        assert backends() - before > 3
    assert worker.stop() == 0
    wait_for(lambda: backends() == before)
