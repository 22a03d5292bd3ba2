"""runjobs --reload: new code, once the running jobs have ended."""

import os
import signal
from pathlib import Path

import pytest
from django.utils import autoreload
from django.utils.autoreload import StatReloader

from pgjobs.management import runjobs
from pgjobs.models import Job
from pgjobs.worker import ExitCode
from tests import tasks
from tests.processes import ROOT, shared_queue, wait_for, wait_for_status

pytestmark = shared_queue

CODE = """
from pgjobs import task
from tests.tasks import hold

@task(name="answer")
def answer(path: str) -> int:
    hold(path)
    return {}
"""


@pytest.fixture
def module(tmp_path) -> Path:
    """A module with a task, to be changed under the worker."""
    path = tmp_path / "code" / "changing.py"
    path.parent.mkdir()
    path.write_text(CODE.format(1))
    return path


def run(path: Path) -> Job:
    """Enqueue a job of the changing module, which this process does not import."""
    return Job.objects.create(task="answer", kwargs={"path": str(path)})


def test_new_code_runs_once_the_running_job_has_ended(start_worker, module, tmp_path):
    held, free = tmp_path / "held", tmp_path / "free"
    tasks.let_go(free)
    worker = start_worker(
        "--reload",
        registered=False,
        settings={"TASK_MODULES": ["changing", "tests.support.hasty"]},
        PYTHONPATH=f"{ROOT}:{ROOT / 'example_project'}:{module.parent}",
        PYTHONDONTWRITEBYTECODE="1",
    )
    old = run(held)
    wait_for(lambda: tasks.lines(held), "the job runs")
    assert worker.printed.startswith(f"1 worker process of {worker.pid}: 4 slots, ")
    module.write_text(CODE.format(2))
    new = run(free)
    tasks.let_go(held)
    wait_for_status(old, "SUCCESSFUL")
    wait_for_status(new, "SUCCESSFUL")
    assert (old.return_value, old.attempts) == (1, 1)

    module.write_text("def (")
    wait_for(lambda: "waiting for a change" in worker.printed, "the code is broken")
    assert "SyntaxError" in worker.printed
    module.write_text(CODE.format(3))
    mended = wait_for_status(run(free), "SUCCESSFUL")
    assert mended.return_value == 3

    worker.send(signal.SIGTERM)
    assert worker.wait() == ExitCode.STOPPED
    assert "Completed 3 jobs" in worker.printed.splitlines()


class Looked(Exception):
    """The reloader has looked at the files for the first time."""


@pytest.mark.parametrize(("later", "changes"), [(1, 1), (-1, 0)])
def test_change_before_the_first_look_is_seen(module, monkeypatch, later, changes):
    started_at = module.stat().st_mtime + 3_600
    seen = []

    class Slow(StatReloader):
        def __init__(self):
            super().__init__()
            os.utime(module, (started_at + later,) * 2)

        def run_loop(self):
            raise Looked

    monkeypatch.setattr(autoreload, "get_reloader", Slow)
    monkeypatch.setattr(runjobs, "own_directories", lambda: {module.parent})
    with pytest.raises(Looked):
        runjobs.watch_on(lambda: seen.append("changed"), started_at)
    assert len(seen) == changes
