"""Tasks in a process of their own."""

import os
import socket

from pgjobs.features.isolation import keeper
from pgjobs.features.isolation.output import Output
from pgjobs.models import Attempt, Job, Progress
from tests import tasks
from tests.processes import drain, running_worker, shared_queue, wait_for
from tests.support import isolated_tasks as isolated

pytestmark = shared_queue


def ended(job: Job) -> Job:
    drain()
    job.refresh_from_db()
    return job


def log_of(job: Job) -> str:
    return Progress.objects.get(job=job).log


def test_body_runs_in_another_process():
    job = ended(isolated.pids.enqueue())
    assert job.status == "SUCCESSFUL", job.reason
    child, keeper = job.return_value
    assert os.getpid() not in (child, keeper)


def test_result_of_arguments_comes_back():
    job = ended(isolated.add.enqueue(2, b=3))
    assert (job.status, job.return_value) == ("SUCCESSFUL", 5), job.reason


def test_exception_comes_back_as_text():
    job = ended(isolated.fail_with.enqueue("broken"))
    assert (job.status, job.reason) == ("FAILED", "ValueError: broken")
    attempt = Attempt.objects.get(job=job)
    assert attempt.exception_class == "ValueError"
    assert "in fail_with" in attempt.traceback


def test_log_and_progress_are_stored():
    job = ended(isolated.report.enqueue())
    assert job.status == "SUCCESSFUL", job.reason
    progress = Progress.objects.get(job=job)
    assert "a line" in progress.log
    assert (progress.done, progress.total, progress.message) == (1, 2, "half")


def test_coroutine_is_isolated_too():
    job = ended(isolated.await_pid.enqueue())
    assert job.status == "SUCCESSFUL", job.reason
    assert job.return_value != os.getpid()


def test_atomic_task_commits_in_its_process():
    ended(isolated.enqueue_and_fail.enqueue(False))
    assert Job.objects.filter(task="tests.noop").count() == 1


def test_atomic_task_that_fails_leaves_nothing():
    job = ended(isolated.enqueue_and_fail.using(max_attempts=1).enqueue(True))
    assert job.status == "FAILED"
    assert not Job.objects.filter(task="tests.noop").exists()


def test_steps_work_inside():
    job = ended(isolated.step_twice.enqueue())
    assert job.status == "SUCCESSFUL", job.reason
    assert len(set(job.return_value)) == 1


def test_segmentation_fault_is_a_crash_of_its_job_alone():
    others = [tasks.noop.enqueue() for _ in range(5)]
    job = ended(isolated.segfault.enqueue())
    assert (job.status, job.crashes, job.failures) == ("FAILED", 2, 0), job.reason
    assert job.reason == "Its process died: signal 11 (SIGSEGV) (crash 2 of 2)."
    assert log_of(job).count("about to crash") == 2
    ids = [other.pk for other in others]
    assert Job.objects.filter(pk__in=ids, status="SUCCESSFUL").count() == 5


def test_exit_of_the_process_is_a_crash():
    job = ended(isolated.leave.enqueue(3))
    assert job.status == "FAILED"
    assert job.reason == "Its process died: exit code 3 (crash 1 of 1)."


def test_time_limit_ends_python_code_by_an_exception():
    job = ended(isolated.sleep.using(timeout=0.3).enqueue(60))
    assert (job.status, job.failures) == ("FAILED", 1), job.reason
    assert "took longer than 0.3 s" in job.reason


def test_time_limit_kills_c_code(settings):
    settings.PGJOBS = {**settings.PGJOBS, "TIMEOUT_GRACE": 0.3}
    job = ended(isolated.hold_the_gil.using(timeout=0.3).enqueue(60))
    assert (job.status, job.failures) == ("FAILED", 1), job.reason
    assert "took longer than 0.3 s" in job.reason


def test_cancel_kills_c_code(settings):
    settings.PGJOBS = {**settings.PGJOBS, "TIMEOUT_GRACE": 0.3}
    job = isolated.hold_the_gil.enqueue(60)
    with running_worker():
        wait_for(lambda: Job.objects.running().exists())
        job.cancel()
        wait_for(lambda: Job.objects.get(pk=job.pk).status == "CANCELLED")
    assert Job.objects.get(pk=job.pk).reason


def test_memory_limit_kills_and_fails():
    job = ended(isolated.fill.enqueue(400))
    assert (job.status, job.failures) == ("FAILED", 1), job.reason
    assert "MB of 150 MB" in job.reason


def test_look_at_the_memory_that_outlasts_its_job_kills_no_other_one(monkeypatch):
    worker, control = socket.socketpair()

    def measured_slowly(pid):
        worker.send(b"limit 0\n")  # as the job ends
        return 1_000_000_000

    monkeypatch.setattr(keeper, "proportional", measured_slowly)
    with worker, control:
        one = keeper.Keeper(control.fileno(), os.getpid(), -1)
        one.limit = 1_000_000
        assert not one.is_too_large()
        assert one.obey()
        assert one.limit == 0


def test_output_is_kept_with_the_job():
    job = ended(isolated.write.enqueue())
    assert job.status == "SUCCESSFUL", job.reason
    for line in ("from Python", "from C", "from a program"):
        assert line in log_of(job)


def test_half_a_line_of_a_job_does_not_come_into_the_log_of_the_next_one():
    """Values in it may be masked by its own job alone."""
    output = Output(1)
    held: list[str] = []
    log: list[str] = []
    output.begin(held.append)
    os.write(output.write_end, b"half")
    output.begin(None)
    output.end()
    output.begin(log.append)
    os.write(output.write_end, b"whole\n")
    output.end()
    output.close_far_end()
    output.close()
    assert (held, log) == (["half"], ["whole"])
