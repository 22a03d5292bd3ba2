"""Children of real workers: what ends them, and what they leave."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from django.db import connection

from pgjobs.features.isolation import execution
from pgjobs.features.isolation.child_process import ChildProcess
from tests.processes import (
    ROOT,
    WorkerProcess,
    drain,
    process_environment,
    shared_queue,
    wait_for,
    wait_for_status,
)
from tests.support import isolated_tasks as isolated

pytestmark = shared_queue

MODULES = {"TASK_MODULES": ["tests.support.isolated_tasks"], "TIMEOUT_GRACE": 0.3}

SCRIPT = """
import django
django.setup()
from pgjobs import drain
from tests.support.isolated_tasks import add

print("started")
job = add.enqueue(1, 2)
drain()
job.refresh_from_db()
print(job.status, job.return_value)
"""


def is_there(pid: int) -> bool:
    """Whether a process is there, if only as a zombie."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def pids_in(path: Path) -> list[int]:
    return [int(pid) for pid in path.read_text().split()[:-1]]


@pytest.fixture
def start():
    workers = []

    def start(*arguments: str) -> WorkerProcess:
        workers.append(WorkerProcess(*arguments, settings=MODULES))
        return workers[-1]

    yield start
    for worker in workers:
        if worker.is_alive:
            worker.kill()


def held(start, tmp_path, *arguments: str, **options):
    """Return a job that runs, its worker, and the processes that it has."""
    path = tmp_path / "pids"
    job = isolated.hold.using(**options).enqueue(str(path))
    worker = start(*arguments)
    wait_for(lambda: path.exists() and path.read_text().endswith("."))
    return job, worker, pids_in(path)


def test_kill_of_the_worker_ends_all_descendants_within_a_second(start, tmp_path):
    _, worker, pids = held(start, tmp_path)
    worker.kill()
    wait_for(lambda: not any(map(is_there, pids)), timeout=5)


def test_time_limit_ends_all_descendants_before_the_job_is_released(start, tmp_path):
    job, worker, pids = held(start, tmp_path, timeout=0.5, max_attempts=1)
    wait_for_status(job, "FAILED")
    assert not any(map(is_there, pids))
    assert "took longer than 0.5 s" in job.reason
    assert worker.stop() == 0


def test_grace_of_a_stopping_worker_is_that_of_children(start, tmp_path):
    job, worker, pids = held(start, tmp_path, "--grace", "0.5")
    assert worker.stop() == 3, worker.printed
    assert not any(map(is_there, pids))
    job.refresh_from_db()
    assert (job.status, job.crashes, job.failures) == ("READY", 0, 0)


def test_signals_to_all_processes_do_not_end_children(start, tmp_path):
    job, worker, (child, keeper, _) = held(start, tmp_path)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        os.kill(child, number)
        os.kill(keeper, number)
    job.cancel()
    wait_for_status(job, "CANCELLED")
    assert worker.stop() == 0


def test_death_of_a_child_is_a_crash_and_leaves_nobody(start, tmp_path):
    job, worker, pids = held(start, tmp_path, max_crashes=1)
    os.kill(pids[0], signal.SIGKILL)
    wait_for_status(job, "FAILED")
    assert job.reason == "Its process died: signal 9 (SIGKILL) (crash 1 of 1)."
    assert not any(map(is_there, pids))
    assert worker.stop() == 0


def test_death_of_a_keeper_is_a_crash_of_its_job(start, tmp_path):
    job, worker, (child, keeper, grandchild) = held(start, tmp_path, max_crashes=1)
    os.kill(keeper, signal.SIGKILL)
    wait_for_status(job, "FAILED")
    assert job.crashes == 1
    wait_for(lambda: not is_there(child))
    os.kill(grandchild, signal.SIGKILL)  # nobody else knows of it
    assert worker.stop() == 0


def test_stopped_child_is_killed_at_its_limit(start, tmp_path):
    job, worker, pids = held(start, tmp_path, timeout=1, max_attempts=1)
    os.kill(pids[0], signal.SIGSTOP)
    wait_for_status(job, "FAILED")
    assert not any(map(is_there, pids))
    assert worker.stop() == 0


def test_stopped_keeper_does_not_keep_the_child_alive(start, tmp_path):
    job, worker, pids = held(start, tmp_path, timeout=1, max_attempts=1)
    os.kill(pids[1], signal.SIGSTOP)
    wait_for_status(job, "FAILED")
    wait_for(lambda: not any(map(is_there, pids[:2])))
    os.kill(pids[2], signal.SIGKILL)
    assert worker.stop() == 0


def test_query_of_a_killed_child_ends_in_the_server(start):
    job = isolated.query.using(timeout=0.5, max_attempts=1).enqueue(60)
    worker = start()
    wait_for_status(job, "FAILED")

    def is_over():
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT "
                "pg_sleep(6%%' AND state = 'active' AND pid <> pg_backend_pid()",
                [],
            )
            return not cursor.fetchone()[0]

    wait_for(is_over, timeout=20)
    assert worker.stop() == 0


def test_idle_child_that_dies_is_replaced_without_a_crash(start):
    first = isolated.pids.enqueue()
    worker = start("--concurrency", "1")
    child, keeper = wait_for_status(first, "SUCCESSFUL").return_value
    second = isolated.pids.enqueue()
    assert wait_for_status(second, "SUCCESSFUL").return_value == [child, keeper]
    os.kill(child, signal.SIGKILL)
    third = wait_for_status(isolated.pids.enqueue(), "SUCCESSFUL")
    assert (third.crashes, third.attempts) == (0, 1)
    assert third.return_value != [child, keeper]
    wait_for(lambda: not is_there(keeper))
    assert worker.stop() == 0
    assert not is_there(third.return_value[0])


@pytest.mark.parametrize("task", [isolated.close_all, isolated.garble])
def test_body_that_spoils_its_descriptors_harms_itself_alone(task):
    job = task.enqueue()
    other = isolated.add.enqueue(1)
    drain()
    job.refresh_from_db()
    other.refresh_from_db()
    assert other.status == "SUCCESSFUL", other.reason
    assert job.status in ("FAILED", "SUCCESSFUL"), job.reason


def test_script_that_drains_needs_no_guard(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", str(script)],
        env=process_environment(MODULES, DJANGO_SETTINGS_MODULE="tests.settings"),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert ran.stdout == "started\nSUCCESSFUL 3\n", ran.stderr


def test_job_that_is_cancelled_and_crashes_is_cancelled(start, tmp_path):
    job, worker, pids = held(start, tmp_path)
    os.kill(pids[0], signal.SIGSTOP)  # the exception does not reach it
    job.cancel()
    os.kill(pids[0], signal.SIGKILL)
    wait_for_status(job, "CANCELLED")
    assert worker.stop() == 0


def test_body_that_forks_returns_once():
    job = isolated.fork_twice.enqueue()
    drain()
    job.refresh_from_db()
    assert (job.status, job.return_value) == ("SUCCESSFUL", "parent"), job.reason


def test_flood_of_output_blocks_no_body():
    job = isolated.flood.using(timeout=60).enqueue()
    drain()
    job.refresh_from_db()
    assert job.status == "SUCCESSFUL", job.reason


def test_job_that_its_child_takes_too_late_has_begun_once(monkeypatch, tmp_path):
    path = tmp_path / "pids"
    kill = ChildProcess.kill

    def kill_late(child):
        wait_for(path.exists)
        kill(child)

    monkeypatch.setattr(execution, "TAKE_SECONDS", 0.0)
    monkeypatch.setattr(ChildProcess, "kill", kill_late)
    job = isolated.hold.using(max_crashes=1).enqueue(str(path))
    drain()
    job.refresh_from_db()
    assert (job.status, job.crashes) == ("FAILED", 1), job.reason
