"""Isolated jobs beside others: who waits for whom."""

from pgjobs import enqueue
from pgjobs.models import Job
from tests import tasks
from tests.processes import running_worker, shared_queue, wait_for, wait_for_status
from tests.support import isolated_tasks as isolated

pytestmark = shared_queue


def test_isolated_job_with_one_crash_left_runs_beside_others(tmp_path):
    path = str(tmp_path / "held")
    held = enqueue(tasks.hold, path)
    with running_worker(slots=3):
        wait_for_status(held, "RUNNING")
        alone = isolated.sleep.using(max_crashes=1).enqueue(30)
        wait_for_status(alone, "RUNNING")
        wait_for_status(tasks.noop.enqueue(), "SUCCESSFUL")
        alone.refresh_from_db()
        held.refresh_from_db()
        assert (alone.status, held.status) == ("RUNNING", "RUNNING")
        alone.cancel()
        tasks.let_go(path)
        wait_for_status(alone, "CANCELLED")


def test_job_of_a_queue_with_units_and_one_crash_left_runs_beside_others(tmp_path):
    path = str(tmp_path / "held")
    held = enqueue(tasks.hold, path)
    with running_worker(slots=3, units=10):
        wait_for_status(held, "RUNNING")
        job = isolated.leave.enqueue(3)
        wait_for_status(job, "FAILED")
        assert Job.objects.get(pk=held.pk).status == "RUNNING"
        tasks.let_go(path)
        wait_for_status(held, "SUCCESSFUL")


def test_crash_keeps_no_other_isolated_job_from_its_end():
    jobs = [isolated.add.enqueue(each) for each in range(8)]
    crashing = [isolated.leave.enqueue(1) for _ in range(3)]
    with running_worker(slots=4):
        wait_for(lambda: not Job.objects.filter(finished_at=None).exists())
    for each, job in enumerate(jobs):
        job.refresh_from_db()
        assert (job.return_value, job.crashes) == (each + 1, 0)
    assert all(Job.objects.get(pk=job.pk).crashes == 1 for job in crashing)
