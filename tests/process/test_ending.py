"""A worker ends when it is asked to, whatever hangs; and what its jobs fork, too."""

import os
import signal
import threading

import pytest

from pgjobs import enqueue, enqueue_many, signals
from pgjobs.models import Worker
from pgjobs.worker import ExitCode
from pgjobs.worker.upkeep import announcer
from pgjobs.worker.upkeep.announcer import Announcer
from tests import tasks
from tests.processes import (
    SOON,
    WorkerThread,
    shared_queue,
    wait_for,
    wait_for_all,
    wait_for_status,
)
from tests.support import hanging

pytestmark = shared_queue

SLOW = {"TASK_MODULES": ["tests.support.slow_receiver"]}
HANGING = {"TASK_MODULES": ["tests.support.hanging"]}


def start_with_late_receivers(start_worker, *arguments):
    """Start a worker whose receivers are minutes behind its jobs."""
    enqueue_many([tasks.noop.bind() for _ in range(400)])
    worker = start_worker(*arguments, settings=SLOW)
    wait_for_all("SUCCESSFUL")
    return worker


def signal_until_it_says(worker, text: str) -> None:
    """Signal more than once: two signals at the same time count as one.

    A signal that comes while Python ends would kill the process.
    """

    def has_said() -> bool:
        if text in worker.printed:
            return True
        worker.send(signal.SIGTERM)
        return False

    wait_for(has_said, "the worker has heard a second signal", timeout=SOON)


def test_receivers_get_no_more_than_the_grace(start_worker):
    worker = start_with_late_receivers(start_worker, "--grace", "1")
    worker.send(signal.SIGTERM)
    assert worker.wait(SOON) == ExitCode.GRACE_OVER
    assert "A receiver of a signal is stuck, or slow: unsent=" in worker.printed
    assert not Worker.objects.exists()


def test_second_signal_ends_a_worker_whose_receivers_are_late(start_worker):
    worker = start_with_late_receivers(start_worker, "--grace", "600")
    signal_until_it_says(worker, "unsent=")
    assert worker.wait(SOON) == ExitCode.SECOND_SIGNAL


def test_recycled_worker_waits_for_receivers_no_longer_than_its_grace(start_worker):
    jobs = [tasks.noop.bind() for _ in range(400)]
    enqueue_many(jobs)
    worker = start_worker("--max-jobs", "400", "--grace", "1", settings=SLOW)
    assert worker.wait(SOON) == ExitCode.STOPPED
    assert "unsent=" in worker.printed


def test_second_signal_ends_a_worker_that_waits_for_a_receiver_of_its_start():
    go_on = threading.Event()

    def receive(sender, worker, **kwargs):
        go_on.wait()

    signals.worker_started.connect(receive)
    try:
        with WorkerThread(poll=600) as worker:
            wait_for(lambda: worker.loop.phase == "running", "it starts")
            worker.loop.stop()
            worker.loop.stop()
            assert worker.join(timeout=SOON) == ExitCode.SECOND_SIGNAL
    finally:
        go_on.set()
        signals.worker_started.disconnect(receive)


def test_announcements_that_receivers_are_too_slow_for_are_dropped_and_counted(
    monkeypatch, caplog
):
    monkeypatch.setattr(announcer, "MOST_WAITING", 3)
    begun, go_on, heard = threading.Event(), threading.Event(), []

    def hold():
        begun.set()
        go_on.wait()

    slow = Announcer("default")
    slow.put(hold)
    assert begun.wait(SOON)
    for number in range(5):
        slow.put(lambda number=number: heard.append(number))
    assert "late: waiting=3" in caplog.text
    assert "dropped=1" in caplog.text
    go_on.set()
    assert slow.stop(lambda: float("inf"))
    assert heard == [2, 3, 4]


def test_thread_that_a_job_has_left_keeps_no_worker_from_ending(start_worker):
    worker = start_worker("--grace", "0", settings=HANGING)
    wait_for_status(enqueue(hanging.leave_thread), "SUCCESSFUL")
    assert worker.stop() == ExitCode.STOPPED


def test_second_signal_ends_a_worker_whose_main_thread_is_in_c_code(start_worker, path):
    """Python calls no handler then: a name that is being resolved, say."""
    stuck = {"settings": {"TASK_MODULES": ["tests.support.stuck"]}, "STUCK": path}
    worker = start_worker("--grace", "600", **stuck)
    wait_for(lambda: tasks.lines(path), "its main thread is stuck")
    signal_until_it_says(worker, "The worker does not end by itself")
    assert worker.wait(SOON) == ExitCode.SECOND_SIGNAL


def test_first_signal_ends_a_worker_that_is_stuck_after_its_grace(start_worker, path):
    stuck = {"settings": {"TASK_MODULES": ["tests.support.stuck"]}, "STUCK": path}
    worker = start_worker("--grace", "0", **stuck)
    wait_for(lambda: tasks.lines(path), "its main thread is stuck")
    worker.send(signal.SIGTERM)
    assert worker.wait(SOON) == ExitCode.GRACE_OVER


def test_pool_of_processes_in_a_task_works_and_ends(start_worker):
    worker = start_worker("--processes", "2", settings=HANGING, registered=False)
    jobs = [enqueue(hanging.square_in_pool, [1, 2, 3]) for _ in range(3)]
    for job in jobs:
        job = wait_for_status(job, "SUCCESSFUL", "FAILED")
        assert (job.return_value, job.attempts) == ([1, 4, 9], 1), job.reason
    assert worker.stop() == ExitCode.STOPPED
    assert "died" not in worker.printed


@pytest.mark.parametrize("arguments", [[], ["--processes", "1"]])
def test_signal_ends_a_forked_process_and_not_its_worker(start_worker, arguments):
    worker = start_worker(*arguments, settings=HANGING, registered=False)
    wait_for(Worker.objects.exists, "it is registered")
    before = set(Worker.objects.values_list("id", flat=True))
    for _ in range(3):
        job = wait_for_status(enqueue(hanging.end_child_by_signal), "SUCCESSFUL")
        assert (job.return_value, job.attempts) == (-signal.SIGTERM, 1)
    assert set(Worker.objects.values_list("id", flat=True)) == before
    assert worker.stop() == ExitCode.STOPPED


@pytest.mark.direct  # behind a pooler no worker has a session lock: the lease ends
def test_death_of_a_worker_shows_although_a_child_of_it_lives_on(start_worker, path):
    """The child has its sockets; with them the session lock would stay, too."""
    quick = {"HEARTBEAT_INTERVAL": 1, "LEASE_DURATION": 3_600, **HANGING}
    start_worker(settings=quick)
    job = enqueue(hanging.leave_child, path)
    child = int(wait_for(lambda: tasks.lines(path), "the child lives")[0])
    try:
        start_worker(settings=quick)
        wait_for_status(job, "FAILED")
    finally:
        os.kill(child, signal.SIGKILL)


@pytest.fixture
def path(tmp_path) -> str:
    return str(tmp_path / "noted")
