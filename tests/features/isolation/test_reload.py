"""`runjobs --reload` with processes of isolated jobs."""

from pgjobs.models import Job
from tests.features.isolation.test_processes import is_there
from tests.processes import ROOT, WorkerProcess, shared_queue, wait_for, wait_for_status

pytestmark = shared_queue

CODE = """
import os
from pgjobs import task

@task(name="isolated.version", isolated=True)
def version():
    return [{}, os.getpid()]
"""


def run() -> Job:
    """Enqueue a job of the changing module, which this process does not import."""
    return Job.objects.create(task="isolated.version")


def test_processes_of_old_code_end_when_the_worker_is_reloaded(tmp_path):
    module = tmp_path / "changing.py"
    module.write_text(CODE.format(1))
    worker = WorkerProcess(
        "--reload",
        settings={"TASK_MODULES": ["changing"]},
        PYTHONPATH=f"{ROOT}:{ROOT / 'example_project'}:{tmp_path}",
        PYTHONDONTWRITEBYTECODE="1",
    )
    try:
        first, old = wait_for_status(run(), "SUCCESSFUL").return_value
        module.write_text(CODE.format(2))
        wait_for(lambda: not is_there(old))
        second, new = wait_for_status(run(), "SUCCESSFUL").return_value
        assert (first, second) == (1, 2)
    finally:
        worker.stop()
    assert not is_there(new)
