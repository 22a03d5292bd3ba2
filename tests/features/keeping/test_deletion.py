"""With keep="failed" a success is deleted, unless something needs its row."""

import pytest
from django.test import override_settings

from pgjobs import chain, current_job, enqueue, enqueue_many, result, task
from pgjobs.models import Batch, Job
from tests.actors import execute
from tests.features.chunks.tasks import calls_in, enqueue_all, index
from tests.processes import drain, shared_queue
from tests.support import isolated_tasks
from tests.tasks import add, count_jobs_async, echo, fail_with, noop

pytestmark = shared_queue

KEEP = {"KEEP": "failed"}
briefly = noop.using(keep="failed")


@task(name="tests.keeping.waits", deadline=600)
def waits() -> bool:
    return current_job().wait_for("approval", bool)


@pytest.fixture(autouse=True)
def nothing_fails(caplog):
    """A deletion that fails is made up for, so that no test would notice."""
    yield
    assert "cannot be deleted" not in caplog.text


def is_there(job: Job) -> bool:
    return Job.objects.filter(pk=job.pk).exists()


def test_success_is_deleted():
    job = enqueue(briefly)
    assert job.keep == "failed"
    assert drain().finished == 1
    assert not is_there(job)


def test_failure_is_kept():
    job = enqueue(fail_with.using(keep="failed"), "no")
    drain()
    job.refresh_from_db()
    assert job.status == "FAILED"


def test_success_is_kept_without_the_option():
    job = enqueue(noop)
    drain()
    job.refresh_from_db()
    assert (job.status, job.keep) == ("SUCCESSFUL", None)


def test_hundred_successes_are_deleted_and_those_beside_them_are_kept():
    gone = enqueue_many([echo.using(keep="failed").bind(i) for i in range(100)])
    kept = enqueue_many([echo.bind(i) for i in range(100)])
    assert drain().finished == 200
    assert not Job.objects.filter(pk__in=[job.pk for job in gone]).exists()
    values = [Job.objects.get(pk=job.pk).return_value for job in kept]
    assert values == list(range(100))


@override_settings(PGJOBS=KEEP)
def test_setting_decides_where_neither_task_nor_job_says_it():
    gone, kept = enqueue(noop), enqueue(noop.using(keep="all"))
    assert (gone.keep, kept.keep) == ("failed", "all")
    drain()
    assert (is_there(gone), is_there(kept)) == (False, True)


def test_row_says_what_the_setting_was_when_it_was_enqueued():
    kept = enqueue(noop)
    with override_settings(PGJOBS=KEEP):
        gone = enqueue(noop)
        drain()
    assert (is_there(gone), is_there(kept)) == (False, True)


@pytest.mark.parametrize("setting", ["all", "failed"])
def test_setting_of_the_worker_decides_about_a_plain_insert(setting):
    execute("INSERT INTO pgjobs_job (task) VALUES ('tests.noop')")
    (job,) = Job.objects.all()
    assert job.keep == "worker"
    with override_settings(PGJOBS={"KEEP": setting}):
        drain()
    assert is_there(job) is (setting == "all")


def test_job_of_a_batch_is_kept():
    batch = Batch.objects.create()
    job = enqueue(briefly.using(batch=batch))
    drain()
    assert is_there(job)


def test_predecessor_is_kept_for_its_successor():
    first, last = enqueue(chain(add.using(keep="failed").bind(1, 2), echo.bind(result)))
    drain()
    last.refresh_from_db()
    assert last.return_value == 3
    assert is_there(first)


def test_job_after_one_job_keeps_it_until_it_ends():
    first = enqueue(briefly)
    enqueue(noop.using(after=[first]))
    drain()
    assert is_there(first)


@pytest.mark.parametrize("each", [isolated_tasks.await_pid, count_jobs_async])
def test_success_is_deleted_wherever_it_has_run(each):
    job = enqueue(each.using(keep="failed"))
    drain()
    assert not is_there(job)
    assert not execute("SELECT FROM pgjobs_note")


def test_members_of_a_call_are_deleted(tmp_path):
    path = str(tmp_path / "calls")
    jobs = enqueue_all(index.using(keep="failed"), path, range(4))
    drain()
    assert calls_in(path) == [[0, 1, 2, 3]]
    assert not any(map(is_there, jobs))
    assert not execute("SELECT FROM pgjobs_note")


def test_job_that_has_waited_is_deleted_with_its_waits():
    job = enqueue(waits.using(keep="failed"))
    drain()
    assert job.answer("approval", True)
    execute("UPDATE pgjobs_waitnote SET due_at = now()")
    drain()
    assert not is_there(job)
    for table in ("step", "wait", "answer", "note"):
        assert not execute(f"SELECT FROM pgjobs_{table}")
