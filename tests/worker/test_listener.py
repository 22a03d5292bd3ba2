"""What wakes a sleeping worker; with notifications off, the poll."""

import os
import threading
from datetime import timedelta
from math import inf
from time import monotonic
from types import SimpleNamespace

import psycopg
import pytest
from django.db import connection, transaction

from pgjobs import enqueue, signals
from pgjobs.base.connections import parameters_of
from pgjobs.models import Job
from pgjobs.worker import ExitCode, claimer
from pgjobs.worker.connections.bell import Bell
from pgjobs.worker.connections.connection import OwnConnection
from pgjobs.worker.connections.listener import Listener
from tests import tasks
from tests.actors import session
from tests.processes import (
    SOON,
    WorkerThread,
    running_worker,
    shared_queue,
    statements_of_workers,
    wait_for,
    wait_for_all,
    wait_for_pass,
    wait_for_status,
)
from tests.settings import DIRECT

pytestmark = shared_queue


def execute(query, *parameters):
    with connection.cursor() as cursor:
        cursor.execute(query, parameters)
        return cursor.fetchall() if cursor.description else []


def backends(role: str) -> list[int]:
    """The process ids of the server for the workers' connections of this role."""
    rows = execute(
        "SELECT pid FROM pg_stat_activity"
        " WHERE application_name LIKE %s AND datname = current_database()",
        f"pgjobs:{role}:%",
    )
    return [pid for (pid,) in rows]


@pytest.fixture
def sleeper(settings):
    """A worker that fetches once a minute unless it is woken."""
    # No sweep soon finds jobs of which no notification came.
    settings.PGJOBS = {"HEARTBEAT_INTERVAL": 600, "LEASE_DURATION": 3_600}
    with running_worker(poll=600, name="sleeper") as loop:
        wait_for(lambda: loop.bell.alarm, "the worker sleeps")
        yield loop


def test_enqueued_job_wakes_the_worker(sleeper):
    for _ in range(20):
        wait_for_status(enqueue(tasks.noop), "SUCCESSFUL", timeout=SOON)


def test_idle_worker_lets_its_first_job_begin_before_it_goes_on(
    sleeper, monkeypatch, tmp_path
):
    handed_over = []
    monkeypatch.setattr(claimer, "sleep", handed_over.append)
    held, path = enqueue(tasks.hold, str(tmp_path / "held")), str(tmp_path / "held")
    wait_for(lambda: tasks.lines(path), "the job runs")
    assert handed_over == [0]
    wait_for_status(enqueue(tasks.noop), "SUCCESSFUL")
    assert handed_over == [
        0
    ]  # beside a job that runs, it would cost more than it saves
    tasks.let_go(path)
    wait_for_status(held, "SUCCESSFUL")


def test_job_that_waits_to_be_admitted_wakes_the_worker(sleeper):
    job = tasks.noop.using(lock="door").enqueue()
    wait_for_status(job, "SUCCESSFUL", timeout=SOON)
    job.retry()
    wait_for(lambda: Job.objects.get().life == 2)
    wait_for_status(job, "SUCCESSFUL", timeout=SOON)
    later = tasks.noop.using(run_after=timedelta(hours=1), max_running=1).enqueue()
    later.run_now()
    wait_for_status(later, "SUCCESSFUL", timeout=SOON)


def test_end_of_a_job_by_hand_wakes_the_worker_for_the_next_in_line(sleeper):
    first = tasks.noop.using(lock="door", run_after=timedelta(hours=1)).enqueue()
    second = tasks.noop.using(lock="door").enqueue()
    wait_for(lambda: waits_for_lock(second), "the second waits for the first")
    first.cancel()
    wait_for_status(second, "SUCCESSFUL", timeout=SOON)


def test_deletion_of_a_job_wakes_the_worker_for_the_next_in_line(sleeper):
    first = tasks.noop.using(lock="door", run_after=timedelta(hours=1)).enqueue()
    second = tasks.noop.using(lock="door").enqueue()
    wait_for(lambda: waits_for_lock(second), "the second waits for the first")
    first.delete()
    wait_for_status(second, "SUCCESSFUL", timeout=SOON)


def waits_for_lock(job: Job) -> bool:
    return Job.objects.filter(pk=job.pk, line="lock door").exists()


def test_job_inserted_by_sql_wakes_the_worker(sleeper):
    execute("INSERT INTO pgjobs_job (task) VALUES ('tests.noop'), ('tests.noop')")
    wait_for_all("SUCCESSFUL", timeout=SOON)
    assert Job.objects.count() == 2


def test_job_wakes_the_worker_when_its_transaction_commits(sleeper):
    with transaction.atomic():
        job = enqueue(tasks.noop)
        wait_for_status(outside(tasks.noop), "SUCCESSFUL", timeout=SOON)
        job.refresh_from_db()
        assert (job.status, job.attempts) == ("READY", 0)
    wait_for_status(job, "SUCCESSFUL", timeout=SOON)


def outside(task) -> Job:
    """Enqueue a job on another connection."""
    with psycopg.connect(**parameters_of("default"), autocommit=True) as own:
        row = own.execute(
            "INSERT INTO pgjobs_job (task) VALUES (%s) RETURNING id", [task.name]
        ).fetchone()
    return Job(pk=row[0], task=task.name)


def test_delayed_job_starts_when_it_is_due(sleeper):
    job = tasks.noop.using(run_after=timedelta(seconds=0.3)).enqueue()
    wait_for_status(job, "SUCCESSFUL", timeout=SOON)
    late = (job.started_at - job.run_after).total_seconds()
    assert 0 <= late < SOON


def test_delayed_job_does_not_wait_for_a_later_one(sleeper):
    tasks.noop.using(run_after=timedelta(seconds=30)).enqueue()
    job = tasks.noop.using(run_after=timedelta(seconds=0.3)).enqueue()
    wait_for_status(job, "SUCCESSFUL", timeout=SOON)


def test_retry_and_run_now_wake_the_worker(sleeper):
    job = enqueue(tasks.noop)
    wait_for_status(job, "SUCCESSFUL", timeout=SOON)
    job.retry()
    wait_for(lambda: Job.objects.get().life == 2)
    wait_for_status(job, "SUCCESSFUL", timeout=SOON)
    later = tasks.noop.using(run_after=timedelta(hours=1)).enqueue()
    later.run_now()
    wait_for_status(later, "SUCCESSFUL", timeout=SOON)


@pytest.mark.parametrize("lock", [None, "door"])
def test_job_that_another_worker_releases_wakes_this_one(lock, tmp_path):
    path = str(tmp_path / "held")
    job = tasks.hold.using(lock=lock).enqueue(path)
    with WorkerThread(grace=0, slots=1) as leaver:
        wait_for(lambda: tasks.lines(path), "the job runs")
        with running_worker(poll=600) as loop:
            wait_for(lambda: loop.bell.alarm, "the other worker sleeps")
            assert leaver.stop() == ExitCode.GRACE_OVER
            wait_for(lambda: len(tasks.lines(path)) == 2, "it runs again", SOON)
            tasks.let_go(path)
            wait_for_status(job, "SUCCESSFUL")
    assert (job.attempts, job.failures) == (2, 0)


def test_job_enqueued_while_the_worker_starts_is_not_slept_through(start_worker):
    worker = start_worker("--poll", "600", registered=False)
    jobs = []
    while len(jobs) < 100 and not jobs_have_run(jobs):
        jobs.append(enqueue(tasks.noop))
        transaction.get_connection().close()
    wait_for_all("SUCCESSFUL", timeout=SOON)
    assert worker.stop() == 0


def jobs_have_run(jobs) -> bool:
    return Job.objects.finished().exists()


@pytest.mark.listening
def test_jobs_of_unserved_queues_do_not_wake_the_worker():
    with running_worker(poll=600, queues=("mail",)) as loop:
        wait_for(lambda: loop.listener.state == "on", "the worker listens")
        wait_for(
            lambda: loop.bell.alarm and not loop.listener.is_new,
            "the worker sleeps",
        )
        wait_for_pass(loop)  # it may just have begun to listen, and is about to fetch
        heard = loop.heartbeat.last_heard
        with statements_of_workers() as executed:
            tasks.noop.using(queue_name="other").enqueue()
            wait_for(lambda: loop.heartbeat.last_heard > heard, "it is notified")
            wait_for_pass(loop)
        job = tasks.noop.using(queue_name="mail").enqueue()
        wait_for_status(job, "SUCCESSFUL", timeout=SOON)
    assert "loop record_and_claim" not in executed
    assert Job.objects.ready().count() == 1


def test_foreign_notifications_are_only_hints(sleeper):
    for payload in ("", "nonsense", "x" * 7_999, "default', 'default", "ä\n☃"):
        for channel in ("pgjobs", "pgjobs_admission"):
            execute("SELECT pg_notify(%s, %s)", channel, payload)
        execute("SELECT pg_notify('pgjobs_worker_' || %s, %s)", sleeper.id, payload)
    wait_for_status(enqueue(tasks.noop), "SUCCESSFUL", timeout=SOON)


@pytest.mark.listening
@pytest.mark.parametrize("how", ["option", "setting"])
def test_worker_without_notifications_polls(settings, how):
    if how == "setting":
        settings.PGJOBS = {"LISTEN": False}
    with running_worker(poll=0.2, listen=False) as loop:
        wait_for(lambda: loop.bell.alarm, "the worker sleeps")
        for task in (tasks.noop, tasks.noop.using(lock="door")) * 2:
            wait_for_status(enqueue(task), "SUCCESSFUL", timeout=SOON)
        assert backends("listen") == []


def test_worker_can_listen_on_another_connection(settings):
    settings.PGJOBS = {"LISTEN": {**DIRECT, "options": "-c geqo_threshold=7"}}
    with running_worker(poll=600):
        wait_for_status(enqueue(tasks.noop), "SUCCESSFUL", timeout=SOON)


def test_wrong_parameters_to_listen_with_leave_the_poll(settings, caplog):
    settings.PGJOBS = {"LISTEN": {"host": "/nowhere"}}
    with WorkerThread(poll=0.2):
        wait_for_status(enqueue(tasks.noop), "SUCCESSFUL", timeout=SOON)
    assert "LISTEN failed, polling" in caplog.text


@pytest.mark.listening
def test_lost_connection_is_replaced_and_what_it_missed_is_found(sleeper):
    for _ in range(3):
        (backend,) = wait_for(lambda: backends("listen"))
        execute("SELECT pg_terminate_backend(%s, 5000)", backend)
        # Its notification reaches no worker.
        wait_for_status(enqueue(tasks.noop), "SUCCESSFUL", timeout=SOON)
    wait_for(lambda: backends("listen") not in ([], [backend]), "it listens again")


@pytest.mark.listening
def test_what_was_notified_as_its_connection_broke_is_found(settings, monkeypatch):
    """The worker learns of the break only, and does not sleep over it."""
    settings.PGJOBS = {"HEARTBEAT_INTERVAL": 600, "LEASE_DURATION": 3_600}
    with running_worker(poll=600) as loop:
        wait_for(lambda: loop.bell.alarm, "the worker sleeps")
        wait_for_pass(loop)  # it has made the fetch that is due as it begins to listen
        run_pass = loop.run_pass

        def pass_while_the_connection_breaks():
            monkeypatch.undo()
            run_pass()
            with session() as other:
                backend = loop.listener.connection.info.backend_pid
                other.execute(f"SELECT pg_terminate_backend({backend}, 5000)")
                other.execute("INSERT INTO pgjobs_job (task) VALUES ('tests.noop')")

        monkeypatch.setattr(loop, "run_pass", pass_while_the_connection_breaks)
        loop.bell.ring()  # for one more pass
        wait_for(lambda: Job.objects.finished().exists(), timeout=SOON)


@pytest.mark.listening
def test_what_was_notified_before_the_worker_listens_again_is_found(
    sleeper, monkeypatch
):
    enqueued = threading.Event()
    subscribe = sleeper.listener.subscribe

    def subscribe_late(connection):
        assert enqueued.wait(SOON)
        subscribe(connection)

    monkeypatch.setattr(sleeper.listener, "subscribe", subscribe_late)
    execute("SELECT pg_terminate_backend(%s, 5000)", backends("listen")[0])
    wait_for(lambda: sleeper.listener.connecting and sleeper.bell.alarm)
    wait_for_pass(sleeper)
    job = enqueue(tasks.noop)
    wait_for_pass(sleeper)
    job.refresh_from_db()
    assert job.status == "READY"
    enqueued.set()
    wait_for_status(job, "SUCCESSFUL", timeout=SOON)


def test_outcome_that_comes_before_the_sleep_is_not_slept_through(
    settings, tmp_path, monkeypatch
):
    """A slot that puts its outcome down while the loop is busy rings no bell."""
    settings.PGJOBS = {"HEARTBEAT_INTERVAL": 600, "LEASE_DURATION": 3_600}
    path = str(tmp_path / "held")
    with running_worker(poll=600) as loop:
        run_pass = loop.run_pass

        def pass_while_a_job_ends():
            run_pass()
            if tasks.lines(path):
                monkeypatch.undo()
                tasks.let_go(path)
                wait_for(lambda: loop.executor.outcomes, "the job has ended")

        monkeypatch.setattr(loop, "run_pass", pass_while_a_job_ends)
        job = enqueue(tasks.hold, path)
        wait_for(lambda: tasks.lines(path), "the job runs")
        loop.bell.ring()  # for one more pass
        wait_for_status(job, "SUCCESSFUL", timeout=SOON)


def test_worker_that_never_sleeps_hears_its_echoes(settings, caplog, monkeypatch):
    """Its listening connection is not taken for dead while it is busy."""
    settings.PGJOBS = {"HEARTBEAT_INTERVAL": 0.3, "LEASE_DURATION": 3}
    with running_worker(poll=600) as loop, statements_of_workers() as executed:
        monkeypatch.setattr(loop, "wakes_at", lambda: 0.0)
        wait_for(lambda: executed.count("heartbeat heartbeat") > 6)
        monkeypatch.undo()
        wait_for_status(enqueue(tasks.noop), "SUCCESSFUL", timeout=SOON)
    assert "LISTEN connection lost" not in caplog.text


def test_job_that_ends_rings_without_a_notification(sleeper):
    """A free slot, too, ends the sleep: outcomes do not wait for the poll."""
    finished = []

    def receive(sender, job, **kwargs):
        finished.append(job.pk)

    signals.job_finished.connect(receive)
    try:
        job = enqueue(tasks.sleep, 0.05)
        wait_for(lambda: finished == [job.pk], timeout=SOON)
    finally:
        signals.job_finished.disconnect(receive)


def test_bell_wakes_what_sleeps_and_rings_once():
    bell = Bell()
    bell.wake()
    bell.alarm = ["set"]
    bell.wake()
    bell.wake()
    assert os.read(bell.read_end, 4096) == b"!"
    assert bell.alarm == []
    bell.close()


def test_worker_that_expects_nothing_can_sleep_for_ever():
    """A loop that raised at this lost the job that it ran."""
    bell = Bell()
    never = SimpleNamespace(listen=False)
    listener = Listener(never, 1, bell, None, None, {})
    bell.ring()
    assert listener.sleep(inf) == [bell.read_end]
    listener.close()


def test_heartbeat_echoes_only_if_nothing_was_heard_of_late(monkeypatch):
    sent = []
    execute = OwnConnection.execute

    def note(self, text, parameters=None):
        sent.extend([parameters["echoes"]] if "echoes" in (parameters or {}) else [])
        return execute(self, text, parameters)

    monkeypatch.setattr(OwnConnection, "execute", note)
    with running_worker(poll=600, listen=False) as loop:
        for last_heard, echoes in ((monotonic() + 3_600, False), (-inf, True)):
            loop.heartbeat.last_heard = last_heard
            loop.heartbeat.beat()
            assert sent[-1] is echoes


@pytest.mark.listening
def test_echo_of_one_worker_reaches_the_others():
    with running_worker(poll=600) as loop, session() as other:
        wait_for(lambda: loop.listener.state == "on", "the worker listens")
        heard = loop.heartbeat.last_heard
        other.execute("NOTIFY pgjobs_echo")
        wait_for(lambda: loop.heartbeat.last_heard > heard, "it is heard")
