"""The signals of attempts, ends and workers."""

import asyncio
import threading

import pytest
from django.db import connection, transaction
from django.db.backends.signals import connection_created

from pgjobs import enqueue, enqueue_many, signals, task
from pgjobs.models import Job, Worker
from pgjobs.worker.upkeep import announcer
from tests import tasks
from tests.actors import execute
from tests.processes import (
    UPKEEP,
    drain,
    run,
    running_worker,
    shared_queue,
    statements_of_workers,
    wait_for,
)

pytestmark = shared_queue

OF_JOBS = (
    "job_enqueued",
    "job_started",
    "job_retried",
    "job_finished",
    "job_succeeded",
    "job_failed",
    "job_cancelled",
)


@pytest.fixture
def connect():
    """Connects receivers for the length of a test."""
    connected = []

    def connect(name: str, receiver) -> None:
        getattr(signals, name).connect(receiver, weak=False)
        connected.append((name, receiver))

    yield connect
    for name, receiver in connected:
        getattr(signals, name).disconnect(receiver)


@pytest.fixture
def heard(connect):
    """The signals of jobs that are sent while the test runs."""
    received = []
    for name in OF_JOBS:

        def receive(sender, job, name=name, **named):
            assert sender is Job
            received.append((name, job.status, named.get("error")))

        connect(name, receive)
    return received


def names(heard) -> list[str]:
    return [name for name, *_ in heard]


@task(max_attempts=2, backoff=lambda failures: 0)
def fail_in_two():
    raise ValueError("no")


def test_success_is_announced(heard):
    run(tasks.noop)
    ends = ["job_finished", "job_succeeded"]
    assert names(heard) == ["job_enqueued", "job_started", *ends]


def test_retry_and_failure_are_announced_with_their_errors(heard):
    run(fail_in_two)
    # Ends are announced beside the loop: another attempt may have begun by then.
    ends = [name for name in names(heard) if name != "job_started"]
    assert ends == ["job_enqueued", "job_retried", "job_finished", "job_failed"]
    assert names(heard).count("job_started") == 2
    errors = [str(error) for name, _, error in heard if error is not None]
    assert errors == ["no", "no"]


def test_acts_of_operators_are_announced(heard):
    jobs = [enqueue(tasks.noop) for _ in range(3)]
    heard.clear()
    jobs[0].cancel()
    jobs[1].fail("by hand")
    jobs[2].succeed(5)
    expected = ["job_cancelled", "job_failed", "job_succeeded"]
    assert names(heard) == [x for each in expected for x in ("job_finished", each)]
    assert [error for _, _, error in heard] == [None] * 6


def test_receiver_that_raises_harms_nothing(connect, heard, caplog):
    def refuse(**named):
        raise ValueError("not interested")

    connect("job_failed", refuse)
    connect("worker_started", refuse)
    assert run(tasks.fail_with, "no").status == "FAILED"
    assert "refuse failed" in caplog.text
    assert names(heard)[-1] == "job_failed"


def test_query_of_a_receiver_that_fails_leaves_the_callers_transaction_alone(
    connect, heard
):
    connect("job_enqueued", lambda **named: execute("SELECT 1 / 0"))
    with transaction.atomic():
        job = enqueue(tasks.noop)
        enqueue_many([tasks.noop.bind()])
    job.refresh_from_db()
    assert Job.objects.count() == 2


def test_receiver_that_exits_leaves_the_other_ends_to_be_announced(connect, heard):
    def leave(**named):
        raise SystemExit(1)

    connect("job_failed", leave)
    for _ in range(2):
        enqueue(tasks.fail_with, "no")
    drain()
    assert names(heard).count("job_failed") == 2


def test_real_cancellation_of_a_receiver_goes_through(connect):
    begun = []

    async def wait(**named):
        begun.append(asyncio.current_task())
        asyncio.get_running_loop().call_soon(begun[0].cancel)
        await asyncio.sleep(600)

    connect("job_enqueued", wait)
    with pytest.raises(asyncio.CancelledError):
        enqueue(tasks.noop)


EXITS = [SystemExit, GeneratorExit, asyncio.CancelledError]


@pytest.mark.parametrize("name", OF_JOBS)
@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("exit", EXITS)
def test_receiver_that_exits_changes_nothing(
    connect, name, exit, is_async, caplog, request
):
    def leave(**named):
        raise exit

    async def leave_later(**named):
        raise exit

    connect(name, leave_later if is_async else leave)
    received = request.getfixturevalue("heard")  # connected after the one that exits
    run(tasks.noop)
    run(fail_in_two)
    enqueue(tasks.noop).cancel()
    ends = [each for each in names(received) if each != "job_started"]
    enqueued = ["job_enqueued"] * 3
    finished = ["job_finished"] * 3
    others = ["job_succeeded", "job_retried", "job_failed", "job_cancelled"]
    assert sorted(ends) == sorted([*enqueued, *finished, *others])
    assert names(received).count("job_started") == 3
    assert [each.attempts for each in Job.objects.order_by("pk")] == [1, 2, 0]
    assert "failed" in caplog.text


def test_nothing_is_asked_of_the_database_for_an_end_that_nothing_hears(
    connect, django_assert_num_queries
):
    """Jobs that succeed do not pay for a receiver of failures."""
    connect("job_failed", lambda **named: None)
    run(tasks.noop)
    loop = drain()
    assert loop.announcer.thread is None


def test_worker_is_announced_before_its_first_job_and_after_its_last(connect):
    heard = []
    for name in ("worker_started", "worker_stopping"):
        connect(
            name,
            lambda sender, worker, name=name, **named: heard.append(
                (name, worker.name, worker.slots, sender is Worker)
            ),
        )
    connect("job_started", lambda **named: heard.append("job_started"))
    connect("job_succeeded", lambda **named: heard.append("job_succeeded"))
    enqueue(tasks.noop)
    drain(name="anna", slots=3)
    jobs = ["job_started", "job_succeeded"]
    started = ("worker_started", "anna", 3, True)
    assert heard == [started, *jobs, ("worker_stopping", "anna", 3, True)]


def test_receivers_of_ends_do_not_run_on_the_loop(connect):
    threads = []
    connect("job_failed", lambda **named: threads.append(threading.current_thread()))
    run(tasks.fail_with, "no")
    assert [thread.name for thread in threads] == ["pgjobs-announcer"]


def test_thread_of_the_signals_keeps_its_connection_for_the_next_end(
    connect, monkeypatch
):
    """To connect takes the server longer than the query of an end."""
    monkeypatch.setattr(announcer, "IDLE_SECONDS", 3_600)
    connect("job_succeeded", lambda **named: heard.append(1))
    heard, opened = [], []

    def note(**named):
        opened.append(threading.current_thread().name)

    connection_created.connect(note)
    try:
        with running_worker():
            for number in (1, 2, 3):
                enqueue(tasks.noop)
                wait_for(lambda number=number: len(heard) == number)
    finally:
        connection_created.disconnect(note)
    assert opened.count("pgjobs-announcer") == 1


def test_thread_of_the_signals_closes_its_connection_when_nothing_ends(
    connect, monkeypatch
):
    monkeypatch.setattr(announcer, "IDLE_SECONDS", 0.01)
    pids = []

    def receive(**named):
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            pids.extend(cursor.fetchone())

    connect("job_succeeded", receive)
    with running_worker():
        enqueue(tasks.noop)
        wait_for(lambda: pids, "the end is announced")
        wait_for(lambda: not is_connected(pids[0]), "its session has ended")


def is_connected(pid: int) -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM pg_stat_activity WHERE pid = %s", [pid])
        return cursor.fetchone() is not None


def test_worker_without_receivers_runs_no_statement_more(connect):
    with statements_of_workers() as before:
        drain()
    connect("worker_started", lambda **named: None)
    with statements_of_workers() as after:
        drain()
    assert besides_upkeep(before) == besides_upkeep(after)


def besides_upkeep(statements: list[str]) -> set[str]:
    """Return the statements without those for which a worker has times of its own."""
    return {each for each in statements if each.rpartition(" ")[2] not in UPKEEP}
