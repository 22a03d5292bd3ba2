"""When a worker replaces the processes of isolated jobs, and when it ends them."""

from pgjobs.features.isolation import pool
from pgjobs.worker.exit_code import ExitCode
from tests import tasks
from tests.features.isolation.test_processes import is_there
from tests.processes import (
    WorkerThread,
    drain,
    running_worker,
    shared_queue,
    wait_for,
    wait_for_status,
)
from tests.support import isolated_tasks as isolated

pytestmark = shared_queue


def child_of(job) -> int:
    job.refresh_from_db()
    assert job.status == "SUCCESSFUL", job.reason
    return job.return_value[0]


def test_process_is_replaced_after_its_number_of_jobs(settings):
    settings.PGJOBS = {**settings.PGJOBS, "ISOLATED_JOBS_PER_CHILD": 2}
    jobs = [isolated.pids.enqueue() for _ in range(4)]
    drain(slots=1)
    first, second, third, fourth = map(child_of, jobs)
    assert (first, third) == (second, fourth)
    assert first != third


def test_process_that_has_grown_is_replaced(monkeypatch):
    monkeypatch.setattr(pool, "GROWTH", 20_000_000)
    jobs = [isolated.keep.enqueue(each) for each in (0, 40, 0)]
    drain(slots=1)
    first, grown, third = map(child_of, jobs)
    assert first == grown
    assert third != grown


def test_process_without_work_ends(monkeypatch):
    monkeypatch.setattr(pool, "IDLE_SECONDS", 0.2)
    with running_worker(slots=1):
        first = isolated.pids.enqueue()
        wait_for_status(first, "SUCCESSFUL")
        wait_for(lambda: not is_there(child_of(first)))
        assert child_of(wait_for_status(isolated.pids.enqueue(), "SUCCESSFUL"))


def test_process_in_which_django_cannot_be_set_up_counts_nothing(monkeypatch, caplog):
    monkeypatch.setattr(pool, "settings_module", lambda: "tests.no_such_settings")
    job = isolated.add.enqueue(1)
    with running_worker(slots=2):
        wait_for_status(job, "SCHEDULED")
        wait_for_status(tasks.noop.enqueue(), "SUCCESSFUL")
    assert (job.failures, job.crashes) == (0, 0)
    assert "its process cannot start: ModuleNotFoundError" in job.reason
    assert "has no process" in caplog.text


def test_worker_that_has_grown_ends_its_processes_before_it_is_replaced():
    job = isolated.pids.enqueue()
    worker = WorkerThread(slots=1, max_memory=1)
    assert worker.join() == ExitCode.RESTART
    assert not any(map(is_there, [child_of(job), job.return_value[1]]))
