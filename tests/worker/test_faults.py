"""Broken connections, lost answers, outages: nothing lost, nothing double, no spin."""

import os
import subprocess
import sys
import time
from collections import Counter
from logging import WARNING
from types import SimpleNamespace

import psycopg
import pytest
from django.db import connection

from pgjobs import enqueue, enqueue_many, signals
from pgjobs.base import connections
from pgjobs.base.connections import connect
from pgjobs.models import Attempt, Job, Worker
from pgjobs.worker.connections import listener as listening
from pgjobs.worker.connections.bell import Bell
from pgjobs.worker.connections.connection import OwnConnection, Watchdog, cut
from tests import harness, pooler, tasks
from tests.processes import (
    ROOT,
    SOON,
    running_worker,
    shared_queue,
    statements_of_workers,
    wait_for,
    wait_for_all,
    wait_for_status,
)
from tests.settings import OWNER
from tests.support.proxy import Proxy
from tests.support.server import PrivateServer

pytestmark = shared_queue

BRISK = {"HEARTBEAT_INTERVAL": 0.4, "LEASE_DURATION": 3}
OUTAGE = 3.5  # seconds; more than the lease
IMPATIENT = {**BRISK, "TASK_MODULES": ["tests.support.impatient"]}


def execute(query, parameters=None):
    with connection.cursor() as cursor:
        cursor.execute(query, parameters)
        return cursor.fetchall() if cursor.description else []


def terminate(role: str) -> int:
    """Terminate the workers' connections of this role; return how many there were."""
    rows = execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE application_name LIKE %s AND datname = current_database()",
        [f"pgjobs:{role}:%"],
    )
    return len(rows)


@pytest.fixture
def path(tmp_path) -> str:
    return str(tmp_path / "lines")


@pytest.fixture
def proxy():
    proxy = Proxy()
    yield proxy
    proxy.close()


# Terminated connections


@pytest.mark.direct
@pytest.mark.parametrize(
    ("role", "times"), [("loop", 10), ("listen", 10), ("heartbeat", 3), ("%", 10)]
)
def test_terminated_connections_cost_no_job_and_run_none_twice(
    settings, path, role, times
):
    settings.PGJOBS = {"HEARTBEAT_INTERVAL": 1, "LEASE_DURATION": 4}
    jobs = 0
    with running_worker(slots=4, poll=600), running_worker(slots=4, poll=600):
        for _ in range(times):
            enqueue_many([tasks.note.bind(path, str(jobs + n)) for n in range(20)])
            jobs += 20
            wait_for(lambda: terminate(role), "there is something to terminate")
        wait_for_all("SUCCESSFUL")
        wait_for_status(enqueue(tasks.noop), "SUCCESSFUL", timeout=SOON)
    assert Counter(tasks.lines(path)) == {str(number): 1 for number in range(jobs)}
    assert not Job.objects.filter(crashes__gt=0).exists()


@pytest.mark.direct
def test_listening_resumes_after_its_connection_was_terminated():
    with running_worker(poll=600) as loop:
        first = loop.listener.connection
        terminate("listen")
        wait_for(lambda: loop.listener.connection not in (None, first))
        wait_for_status(enqueue(tasks.noop), "SUCCESSFUL", timeout=SOON)


@pytest.mark.direct
def test_end_of_each_job_is_announced_once_whatever_is_terminated(settings):
    settings.PGJOBS = BRISK
    finished = []

    def receive(sender, job, **kwargs):
        finished.append(job.pk)

    signals.job_finished.connect(receive)
    try:
        jobs = []
        with running_worker(slots=4, poll=600):
            for _ in range(8):
                jobs += enqueue_many([tasks.noop.bind() for _ in range(20)])
                wait_for(lambda: terminate("loop"))
            wait_for_all("SUCCESSFUL")
    finally:
        signals.job_finished.disconnect(receive)
    assert Counter(finished) == {job.pk: 1 for job in jobs}


# Lost answers


@pytest.mark.direct
def test_job_whose_claim_went_unheard_is_released_and_runs_once(
    start_worker, path, proxy
):
    start_worker("--poll", "600", DATABASE_URL=proxy.url)
    wait_until_listening(proxy)
    proxy.swallow_answers_from(tasks.note.name.encode(), "loop")
    job = enqueue(tasks.note, path, "started")
    wait_for_status(job, "RUNNING")
    assert tasks.lines(path) == []
    proxy.cut("loop")
    wait_for_status(job, "SUCCESSFUL")
    assert tasks.lines(path) == ["started"]
    assert (job.attempts, job.failures, job.crashes) == (2, 0, 0)
    attempt = Attempt.objects.get(job=job)
    assert attempt.outcome == "RELEASED"
    assert attempt.message == "Released: the answer to its claim was lost."


@pytest.mark.direct
@pytest.mark.parametrize(
    ("task", "status"), [(tasks.hold, "SUCCESSFUL"), (tasks.hold_and_fail, "FAILED")]
)
def test_outcome_whose_recording_went_unheard_counts_once(
    start_worker, path, proxy, task, status
):
    calm = {"HEARTBEAT_INTERVAL": 60, "LEASE_DURATION": 200}
    worker = start_worker("--poll", "600", settings=calm, DATABASE_URL=proxy.url)
    wait_until_listening(proxy)
    job = enqueue(task, path)
    wait_for(lambda: tasks.lines(path), "the job runs")
    proxy.swallow_answers("loop")
    tasks.let_go(path)
    wait_for_status(job, status)
    proxy.cut("loop")
    wait_for(lambda: f"#{job.pk} {status} " in worker.printed)
    assert worker.stop() == 0
    assert "Completed 3 jobs\n" in worker.printed
    assert "lost" not in worker.printed
    assert len(tasks.lines(path)) == 1
    assert Attempt.objects.count() == (status == "FAILED")


# Connections that are stuck


@pytest.mark.direct
def test_stuck_connections_are_cut_and_everything_goes_on(start_worker, path, proxy):
    job = enqueue(tasks.hold, path)
    worker = start_worker("--poll", "600", settings=IMPATIENT, DATABASE_URL=proxy.url)
    wait_until_listening(proxy)
    proxy.freeze()
    tasks.let_go(path)
    wait_for_status(job, "SUCCESSFUL")
    assert "stuck and cut" in worker.printed
    assert tasks.lines(path) == [str(worker.pid)]
    wait_for(lambda: len(proxy.linked("listen")) == 2, "it listens again")
    wait_for_status(enqueue(tasks.noop), "SUCCESSFUL", timeout=SOON)
    assert worker.stop() == 0


def test_stuck_connection_may_be_closed_just_before_it_is_cut():
    """An error would end the thread that cuts the others."""
    connection = connect("default", "test", "stuck")
    connection.close()
    cut(connection)


@pytest.mark.direct
def test_listening_that_went_silent_is_noticed_by_the_missing_echo(start_worker, proxy):
    worker = start_worker("--poll", "600", settings=BRISK, DATABASE_URL=proxy.url)
    wait_until_listening(proxy)
    proxy.freeze("listen")
    job = enqueue(tasks.noop)
    lost = "LISTEN connection lost, polling: no echo"
    wait_for(lambda: lost in worker.printed, "it notices")
    wait_for_status(job, "SUCCESSFUL", timeout=SOON)
    assert worker.stop() == 0


def wait_until_listening(proxy) -> None:
    """Wait for a worker that hears of jobs, and has made the fetch due to that."""
    wait_for(lambda: proxy.linked("listen"), "it connects to listen")
    wait_for_status(enqueue(tasks.noop), "SUCCESSFUL", timeout=SOON)
    query = (
        "SELECT 1 FROM pg_stat_activity JOIN pg_locks USING (pid)"
        " WHERE application_name LIKE 'pgjobs:listen:%'"
        " AND datname = current_database() AND classid = 1885825646"
    )
    wait_for(lambda: execute(query), "it listens")
    wait_for_status(enqueue(tasks.noop), "SUCCESSFUL", timeout=SOON)


@pytest.mark.direct
def test_connection_that_is_stuck_as_it_begins_to_listen_is_replaced(
    start_worker, proxy
):
    proxy.deadly = b"LISTEN"
    worker = start_worker("--poll", "600", settings=IMPATIENT, DATABASE_URL=proxy.url)
    wait_for(lambda: proxy.linked("listen"), "it connects to listen")
    proxy.deadly = b""
    wait_for(lambda: "LISTEN failed, polling" in worker.printed, "it notices")
    wait_until_listening(proxy)
    assert worker.stop() == 0


@pytest.fixture
def stuck_roles(proxy, monkeypatch):
    """Let each connection of pgjobs' own hang as it assumes the role of Django's."""
    ends = {"host": "127.0.0.1", "port": proxy.port}
    parameters = connections.parameters_of("default") | ends
    monkeypatch.setattr(connections, "parameters_of", lambda alias: parameters)
    options = connection.settings_dict["OPTIONS"]
    monkeypatch.setitem(options, "assume_role", parameters["user"])
    proxy.deadly = b"SET ROLE"


@pytest.fixture
def watchdog(monkeypatch):
    monkeypatch.setattr(Watchdog, "TICK", 0.1)
    watchdog = Watchdog()
    yield watchdog
    watchdog.stop()


@pytest.mark.direct
@pytest.mark.timeout(60)
def test_connection_that_is_stuck_as_it_assumes_its_role_is_cut(stuck_roles, watchdog):
    own = OwnConnection("default", "loop", "stuck", watchdog, limit=0.1)
    with pytest.raises(psycopg.OperationalError):
        own.open()
    assert own.connection is None


@pytest.mark.direct
@pytest.mark.timeout(60)
def test_listener_that_is_stuck_as_it_assumes_its_role_tries_again(
    stuck_roles, watchdog, monkeypatch
):
    monkeypatch.setattr(listening, "SUBSCRIBE_SECONDS", 0.1)
    options = SimpleNamespace(listen=True, database="default", name="stuck")
    listener = listening.Listener(options, 1, Bell(), watchdog, None, None)
    listener.connect()
    assert (listener.state, listener.failures) == ("connecting", 1)
    listener.close()


@pytest.mark.direct
@pytest.mark.parametrize("deadly", [b"", b"LISTEN"])
def test_worker_stops_although_its_connections_are_stuck(start_worker, proxy, deadly):
    proxy.deadly = deadly
    worker = start_worker("--poll", "600", settings=IMPATIENT, DATABASE_URL=proxy.url)
    wait_for(lambda: proxy.linked("listen"), "it connects to listen")
    if not deadly:
        wait_until_listening(proxy)
    proxy.freeze("loop")
    proxy.freeze("heartbeat")
    assert worker.stop() == 0


# A database that refuses


def test_locked_table_delays_but_loses_nothing(path):
    job = enqueue(tasks.hold, path)
    with running_worker(slots=2, poll=0.1):
        wait_for(lambda: tasks.lines(path), "the job runs")
        with connect("default", "test", "lock") as other, other.transaction():
            other.execute("LOCK TABLE pgjobs_job IN ACCESS EXCLUSIVE MODE")
            tasks.let_go(path)
            wait_for(lambda: waiting_for_lock(other, "pgjobs:loop:%"))
        wait_for_status(job, "SUCCESSFUL")
        assert job.attempts == 1


def waiting_for_lock(other, name) -> bool:
    query = (
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE wait_event_type = 'Lock' AND application_name LIKE %s"
    )
    other.execute("SELECT pg_stat_clear_snapshot()")  # a transaction keeps what it saw
    return other.execute(query, [name]).fetchone()[0] > 0


@pytest.mark.direct
def test_read_only_period_is_survived_and_outcomes_are_recorded_after_it(path):
    name = connection.ops.quote_name(connection.settings_dict["NAME"])
    job = enqueue(tasks.hold, path)
    with running_worker(slots=2, poll=600) as loop:
        wait_for(lambda: tasks.lines(path), "the job runs")
        execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
        try:
            terminate("%")
            tasks.let_go(path)
            wait_for(lambda: loop.faults.pause > 0.2, "it has met the fault")
            late = enqueue(tasks.noop)
        finally:
            execute(f"ALTER DATABASE {name} RESET default_transaction_read_only")
        wait_for_status(job, "SUCCESSFUL")
        wait_for_status(late, "SUCCESSFUL")
    assert (job.attempts, job.crashes) == (1, 0)


def test_claims_that_fail_are_tried_at_growing_intervals_and_logged_once(caplog):
    with running_worker(poll=600) as loop, statements_of_workers() as executed:
        with connect("default", "test", "lock") as other:
            other.execute("ALTER TABLE pgjobs_job RENAME TO pgjobs_elsewhere")
            try:
                backoff = loop.claimer.backoff
                wait_for(lambda: backoff.lasts(time.monotonic()) > 1.0)
            finally:
                other.execute("ALTER TABLE pgjobs_elsewhere RENAME TO pgjobs_job")
        assert executed.count("loop record_and_claim") < 20
        assert loop.faults.since is None, "the database is there"
        wait_for_status(enqueue(tasks.noop), "SUCCESSFUL")
    told = [record.message for record in caplog.records if record.levelno >= WARNING]
    told = [each for each in told if each.startswith("Claiming")]
    assert len(told) == 2
    assert told[0].startswith("Claiming failed, trying again in")
    assert told[1].startswith("Claiming works again after")


# A database that is away


@pytest.fixture(scope="module")
def server():
    server = PrivateServer()
    with server.connect() as superuser:
        harness.make_owner(superuser)
        superuser.execute(f"ALTER DATABASE postgres OWNER TO {OWNER}")
    subprocess.run(
        [sys.executable, "-m", "django", "migrate", "pgjobs", "-v", "0"],
        check=True,
        timeout=60,
        cwd=ROOT,
        env={
            **os.environ,
            "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'example_project'}",
            "DATABASE_URL": f"{server.url}/postgres",
        },
    )
    yield server
    server.remove()


def on_private_server(server) -> dict:
    """Return how a brisk worker starts on it, which is never behind a pooler."""
    return {
        "settings": {**BRISK, "LISTEN": True},
        "DATABASE_URL": f"{server.url}/postgres",
        "PGJOBS_IN_TEST_PROCESS": "",
    }


def job_on(server, task, argument) -> dict:
    query = (
        "INSERT INTO pgjobs_job (task, kwargs)"
        " VALUES (%s, jsonb_build_object('path', %s::text)) RETURNING id"
    )
    with server.connect() as own:
        return own.execute(query, [task.name, argument]).fetchone()[0]


def state_on(server, id) -> tuple:
    query = "SELECT status, attempts, crashes FROM pgjobs_job WHERE id = %s"
    with server.connect() as own:
        return own.execute(query, [id]).fetchone()


def test_outage_costs_no_job_and_no_processor_time(start_worker, server, path):
    """Two workers lose their database and find it again; neither takes the other for
    dead, and what ended meanwhile is recorded."""
    how = {"registered": False, **on_private_server(server)}
    workers = [
        start_worker("--poll", "600", "--concurrency", "1", **how) for _ in range(2)
    ]
    ids = [job_on(server, tasks.hold, path) for _ in range(2)]
    wait_for(lambda: len(tasks.lines(path)) == 2, "both run a job")
    used = sum(worker.cpu_seconds for worker in workers)
    server.stop("immediate")
    begun = time.monotonic()
    tasks.let_go(path)
    wait_for(lambda: time.monotonic() > begun + OUTAGE, "the outage lasts a while")
    used = sum(worker.cpu_seconds for worker in workers) - used
    # Two that spin would use twice the outage, two that wait a tenth of it.
    assert used < 0.5 * OUTAGE, "the workers spin"
    assert all(worker.is_alive for worker in workers)
    server.start()
    wait_for(lambda: {state_on(server, id) for id in ids} == {("SUCCESSFUL", 1, 0)})
    id = job_on(server, tasks.hold, path)
    wait_for(lambda: state_on(server, id)[0] == "SUCCESSFUL", timeout=SOON)
    assert [worker.stop() for worker in workers] == [0, 0]
    assert len(tasks.lines(path)) == 3


def test_quick_restarts_get_no_living_worker_rescued(start_worker, server, path):
    """All session locks go at once, but the workers come back one by one."""
    how = {"registered": False, **on_private_server(server)}
    for _ in range(2):
        start_worker("--poll", "600", "--concurrency", "1", **how)
    ids = [job_on(server, tasks.hold, path) for _ in range(2)]
    wait_for(lambda: len(tasks.lines(path)) == 2, "both run a job")
    for _ in range(2):
        server.stop("fast")
        server.start()
        restarted = time.monotonic()
        wait_for(lambda now=restarted: time.monotonic() > now + 0.6, "they are back")
    tasks.let_go(path)
    wait_for(lambda: {state_on(server, id)[0] for id in ids} == {"SUCCESSFUL"})
    assert {state_on(server, id) for id in ids} == {("SUCCESSFUL", 1, 0)}
    assert len(tasks.lines(path)) == 2


# A pooler that gives every transaction another session


@pytest.fixture
def pgbouncer(proxy):
    """The URL of a PgBouncer in transaction mode before the tests' server."""
    try:
        pooler.program()
    except pooler.NotInstalled as error:
        pytest.skip(str(error))
    # Not the server's socket, which is its user's own.
    with pooler.pooling(proxy.url, sessions=4) as url:
        yield url


@pytest.mark.direct
def test_worker_runs_behind_a_pooler_by_polling(start_worker, path, pgbouncer):
    brisk = {"HEARTBEAT_INTERVAL": 0.1, "LEASE_DURATION": 2}
    worker = start_worker("--poll", "0.1", settings=brisk, DATABASE_URL=pgbouncer)
    job = tasks.enqueue_notes.enqueue(path, 30)
    enqueue_many([tasks.sleep.bind(0.01) for _ in range(20)])
    wait_for_status(job, "SUCCESSFUL")
    wait_for_all("SUCCESSFUL")
    beats = set()
    while len(beats) < 10:  # psycopg prepares what is executed more than five times
        beats.add(Worker.objects.get().heartbeat_at)
    assert not Worker.objects.get().holds_session_lock
    assert leaks(pgbouncer) == set()
    assert worker.stop() == 0
    assert Counter(tasks.lines(path)) == {str(number): 1 for number in range(30)}
    assert "LISTEN is impossible through a pooler" in worker.printed
    assert "failed" not in worker.printed
    assert "Database fault" not in worker.printed


@pytest.mark.direct
def test_locked_row_delays_nothing_else_behind_a_pooler(start_worker, path, pgbouncer):
    worker = start_worker("--poll", "0.1", DATABASE_URL=pgbouncer)
    held = enqueue(tasks.hold, path)
    wait_for(lambda: tasks.lines(path), "it runs")
    with connect("default", "test", "lock") as other, other.transaction():
        other.execute("SELECT FROM pgjobs_job WHERE id = %s FOR UPDATE", [held.pk])
        tasks.let_go(path)
        for _ in range(3):
            wait_for_status(enqueue(tasks.noop), "SUCCESSFUL", timeout=SOON)
    wait_for_status(held, "SUCCESSFUL")
    assert worker.stop() == 0


def leaks(url) -> set:
    """Return what earlier clients have left in the sessions of the pool."""
    name = connection.settings_dict["NAME"]
    found = set()
    clients = [psycopg.connect(url.replace("/postgres", f"/{name}")) for _ in range(4)]
    for client in clients:
        found.update(
            client.execute(
                "SELECT name || ' = ' || setting FROM pg_settings WHERE name IN"
                " ('enable_seqscan', 'enable_hashjoin', 'statement_timeout',"
                "  'plan_cache_mode') AND setting <> reset_val"
            ).fetchall()
        )
        found.update(client.execute("SELECT name FROM pg_prepared_statements"))
        found.update(
            client.execute(
                "SELECT locktype FROM pg_locks WHERE pid = pg_backend_pid()"
                " AND locktype = 'advisory'"
            )
        )
    for client in clients:
        client.close()
    return found
