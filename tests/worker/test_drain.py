"""runjobs --drain: everything that is READY, and then an end."""

import threading
from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import call_command
from django.db import transaction
from django.db.backends.signals import connection_created
from django.utils import timezone

import pgjobs
from pgjobs import Retry, current_job, enqueue, enqueue_many, task
from pgjobs.models import Job
from tests import tasks
from tests.processes import (
    drain,
    running_worker,
    shared_queue,
    wait_for,
    wait_for_status,
)

pytestmark = shared_queue


def printed(*arguments: str) -> list[str]:
    """Drain by command and return the summary that it printed at the end."""
    out = StringIO()
    call_command("runjobs", "--drain", *arguments, stdout=out)
    lines = out.getvalue().splitlines()
    (begin,) = (i for i, line in enumerate(lines) if line.startswith("Completed "))
    return lines[begin:]


def test_drain_counts_the_jobs_that_it_finished():
    enqueue_many([tasks.noop.bind() for _ in range(3)])
    assert printed() == ["Completed 3 jobs"]
    enqueue(tasks.fail_with, "no")
    assert printed() == ["Completed 1 job", "Failed: 1."]
    assert printed() == ["Completed 0 jobs"]


def test_drain_leaves_no_receiver_and_no_thread_in_its_process():
    before = connection_created.receivers[:], threading.active_count()
    enqueue(tasks.noop)
    assert pgjobs.drain() == 1
    wait_for(lambda: threading.active_count() == before[1], "its threads have ended")
    assert connection_created.receivers == before[0]


def test_job_that_is_tried_again_counts_once():
    enqueue(fail_twice)
    assert printed() == ["Completed 1 job", "Attempts to be retried: 2."]
    assert Job.objects.get().attempts == 3


@task
def fail_twice():
    if current_job().attempt < 3:
        raise Retry(after=0)


def test_drain_of_an_empty_queue_ends_with_code_0(start_worker):
    worker = start_worker("--drain", registered=False)
    assert worker.wait() == 0
    assert worker.printed.splitlines()[-1] == "Completed 0 jobs"


def test_drain_runs_what_becomes_ready_meanwhile():
    enqueue(enqueue_another, 5)
    assert printed("--concurrency", "1") == ["Completed 6 jobs"]


@task
def enqueue_another(more: int):
    if more:
        enqueue_another.enqueue(more - 1)


@pytest.mark.parametrize("listen", [True, False])
def test_drain_runs_what_becomes_due_while_the_last_job_runs(listen):
    enqueue(enqueue_later, 0.1)
    assert drain(slots=1, poll=600, listen=listen).finished == 2


@task
def enqueue_later(seconds: float):
    """Enqueue a job for a moment that comes while this one runs."""
    tasks.noop.using(run_after=timedelta(seconds=seconds)).enqueue()
    tasks.sleep(2 * seconds)


def test_drain_says_what_is_left_and_why(tmp_path):
    due = timezone.now() + timedelta(days=1)
    tasks.noop.using(run_after=due, lock="door").enqueue()
    tasks.noop.using(run_after=due + timedelta(days=1)).enqueue()
    tasks.noop.using(lock="door").enqueue()
    held = tasks.hold.using(queue_name="slow").enqueue(str(tmp_path / "held"))
    with running_worker(queues=("slow",)):
        wait_for_status(held, "RUNNING")
        enqueue(tasks.noop)
        lines = printed()
        tasks.let_go(tmp_path / "held")
    assert lines == [
        "Completed 1 job",
        f"Left: 2 scheduled, the next for {due:%F %T} UTC.",
        "Left: 1 waiting for a lock.",
        "Left: 1 running.",
    ]


def test_drain_ignores_what_is_left_in_other_queues():
    tasks.noop.using(queue_name="other").enqueue()
    tasks.noop.using(queue_name="other", run_after=timedelta(days=1)).enqueue()
    enqueue(tasks.noop)
    assert printed("--queues", "default") == ["Completed 1 job"]
    assert printed("--exclude", "other") == ["Completed 0 jobs"]


def test_drain_does_not_wait_for_jobs_that_other_workers_run(tmp_path):
    held = enqueue(tasks.hold, str(tmp_path / "held"))
    with running_worker(slots=1):
        wait_for_status(held, "RUNNING")
        assert drain().finished == 0
        tasks.let_go(tmp_path / "held")


def test_quiet_drain_prints_only_its_results():
    enqueue(tasks.noop)
    out = StringIO()
    call_command("runjobs", "--drain", verbosity=0, stdout=out)
    assert out.getvalue() == ""


# From Python


def test_python_drains_too_and_returns_the_number_of_jobs():
    enqueue_many([tasks.noop.bind() for _ in range(3)])
    enqueue(tasks.fail_with, "no")
    assert pgjobs.drain() == 4
    assert pgjobs.drain() == 0


def test_python_drains_chosen_queues_with_so_many_slots():
    enqueue(enqueue_another, 2)
    enqueue(tasks.noop.using(queue_name="other"))
    assert pgjobs.drain(queues=["other"], concurrency=1) == 1
    assert pgjobs.drain(concurrency=1) == 3


def test_python_does_not_drain_inside_a_transaction():
    with (
        transaction.atomic(),
        pytest.raises(RuntimeError, match="inside a transaction"),
    ):
        pgjobs.drain()
