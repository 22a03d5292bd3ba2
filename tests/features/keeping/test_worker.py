"""What a worker does where a success cannot be deleted, and what others hear of it."""

import logging

import psycopg
import pytest
from django.test import override_settings

from pgjobs import enqueue, enqueue_many, signals, task
from pgjobs.exceptions import ResultGone
from pgjobs.features.desk.tables import Figure
from pgjobs.features.keeping.chore import prune_successes
from pgjobs.models import Job
from pgjobs.queue import waiting
from pgjobs.queue.slices import OLDEST
from pgjobs.queue.upkeep import ALL_DUE
from pgjobs.worker.connections.connection import OwnConnection
from tests.actors import execute, in_thread, session
from tests.processes import (
    WorkerProcess,
    drain,
    running_worker,
    shared_queue,
    wait_for,
)
from tests.tasks import add, echo, hold, noop

pytestmark = shared_queue

briefly = noop.using(keep="failed")
REFUSAL = """
CREATE FUNCTION tests_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.kwargs @> '{"value": "no"}' THEN
        RAISE 'it must stay';
    END IF;
    RETURN OLD;
END
$$
"""
AT_ONCE = """
CREATE TRIGGER tests_refuse BEFORE DELETE ON pgjobs_job
FOR EACH ROW EXECUTE FUNCTION tests_refuse()
"""
AT_COMMIT = """
CREATE CONSTRAINT TRIGGER tests_refuse AFTER DELETE ON pgjobs_job
DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW EXECUTE FUNCTION tests_refuse()
"""


@pytest.fixture
def refusing(request):
    """A trigger of the project that refuses to delete one of the jobs."""
    execute(REFUSAL)
    execute(request.param)
    yield
    execute("DROP TRIGGER tests_refuse ON pgjobs_job")
    execute("DROP FUNCTION tests_refuse()")


# What cannot be deleted


@pytest.mark.parametrize("refusing", [AT_ONCE, AT_COMMIT], indirect=True)
def test_success_whose_row_cannot_be_deleted_is_stored_alone(refusing, caplog):
    values = [*range(20), "no", *range(20)]
    enqueue_many([echo.using(keep="failed").bind(value) for value in values])
    assert drain().finished == 41
    kept = Job.objects.get()
    assert (kept.status, kept.return_value) == ("SUCCESSFUL", "no")
    assert f"cannot be deleted: jobs={kept.pk}: it must stay" in caplog.text


def test_row_that_a_trigger_keeps_in_silence_is_stored(caplog):
    execute(
        "CREATE FUNCTION tests_keep() RETURNS trigger LANGUAGE plpgsql AS"
        " 'BEGIN RETURN NULL; END'"
    )
    execute(
        "CREATE TRIGGER tests_keep BEFORE DELETE ON pgjobs_job"
        " FOR EACH ROW EXECUTE FUNCTION tests_keep()"
    )
    try:
        job = enqueue(briefly)
        drain()
    finally:
        execute("DROP FUNCTION tests_keep() CASCADE")
    job.refresh_from_db()
    assert job.status == "SUCCESSFUL"
    assert "A trigger of the project keeps rows" in caplog.text


def test_answer_that_is_lost_counts_as_recorded(monkeypatch, caplog):
    """The row is gone, and no other worker had the job."""
    caplog.set_level(logging.INFO, "pgjobs")
    plain, lost = OwnConnection.execute, []

    def execute_and_lose(self, query, parameters=None):
        rows = plain(self, query, parameters)
        if "pgjobs_record_or_delete" in query and not lost:
            lost.append(query)
            self.close()
            raise psycopg.OperationalError("the server has closed the connection")
        return rows

    monkeypatch.setattr(OwnConnection, "execute", execute_and_lose)
    job = enqueue(briefly)
    assert drain().finished == 1
    assert lost
    assert not Job.objects.exists()
    assert f"job_id={job.pk}" in caplog.text or f"id={job.pk}" in caplog.text
    assert "lost: it was rescued" not in caplog.text


def test_row_that_somebody_deletes_while_the_job_runs_is_no_success(tmp_path, caplog):
    path = tmp_path / "held"
    enqueue(hold.using(keep="failed"), str(path))
    with running_worker() as loop:
        wait_for(path.exists, "the job runs")
        Job.objects.all().delete()
        go(path)
        wait_for(lambda: not loop.in_flight.jobs, "it has ended")
    assert "lost: it was rescued, ended or deleted meanwhile" in caplog.text


def go(path) -> None:
    path.with_name(path.name + ".go").touch()


def test_job_of_a_worker_that_dies_runs_again_and_is_deleted(tmp_path):
    path = tmp_path / "held"
    job = enqueue(hold.using(keep="failed"), str(path))
    first = WorkerProcess()
    wait_for(path.exists, "the job runs")
    first.kill()
    go(path)
    with running_worker():
        wait_for(lambda: not Job.objects.filter(pk=job.pk).exists(), "it has run again")


# What is heard of it


def test_receivers_of_signals_get_the_job_as_it_would_be_stored():
    heard = []

    def receive(job, **_):
        heard.append(job)

    signals.job_finished.connect(receive, sender=Job)
    try:
        job = enqueue(add.using(keep="failed"), 1, b=2)
        drain()
    finally:
        signals.job_finished.disconnect(receive, sender=Job)
    (got,) = heard
    assert (got.pk, got.status, got.return_value) == (job.pk, "SUCCESSFUL", 3)
    assert got.kwargs == {"a": 1, "b": 2}
    assert got.finished_at > got.started_at > got.enqueued_at
    assert got.worker_name and got.worker_id is None
    assert not Job.objects.exists()


def test_figures_count_what_is_deleted():
    enqueue_many([briefly.bind()] * 5)
    drain()
    figures = Figure.objects.filter(span=Figure.Span.MINUTE)
    assert sum(figure.successful for figure in figures) == 5


def test_success_is_logged_as_ever(caplog):
    caplog.set_level(logging.INFO, "pgjobs")
    job = enqueue(briefly)
    drain()
    assert f"id={job.pk}" in caplog.text
    assert "SUCCESSFUL" in caplog.text


# Waiting


def test_who_waits_before_the_end_gets_the_result(tmp_path):
    path = tmp_path / "held"
    job = enqueue(hold.using(keep="failed"), str(path))
    with running_worker(), in_thread(job.wait, 60) as result:
        wait_for(lambda: Job.objects.filter(awaited=True).exists(), "somebody waits")
        go(path)
        assert isinstance(result.result(), int)
    assert prune_successes(execute, OLDEST, ALL_DUE).number == 1


def test_who_waits_after_the_deletion_is_told():
    job = enqueue(briefly)
    drain()
    with pytest.raises(ResultGone, match=rf"Job {job.pk} \(tests\.noop\).*keep='all'"):
        job.wait(timeout=5)


def test_who_found_the_row_locked_has_left_a_mark(monkeypatch):
    """The column `awaited` cannot be written then."""
    monkeypatch.setattr(waiting, "HELD_SECONDS", 2.0)
    job = enqueue(echo.using(keep="failed"), 5)
    with session() as other:
        other.begin()
        other.execute("SELECT FROM pgjobs_job FOR NO KEY UPDATE")
        with in_thread(job.wait, 60) as result:
            wait_for(marks, "it has left its mark")
            other.commit()
            drain()
            assert Job.objects.get().awaited is False
            assert prune_successes(execute, OLDEST, ALL_DUE).number == 0
            assert result.result() == 5
    wait_for(lambda: not marks(), "the mark goes with the connection")
    assert prune_successes(execute, OLDEST, ALL_DUE).number == 1


def marks() -> list:
    return execute(
        "SELECT objid FROM pg_locks WHERE locktype = 'advisory'"
        " AND classid = 1885825635"
    )


def test_nobody_leaves_a_mark_for_a_job_that_is_kept():
    job = enqueue(noop)
    with in_thread(job.wait, 60) as result:
        wait_for(lambda: Job.objects.filter(awaited=True).exists(), "somebody waits")
        assert not marks()
        drain()
        assert result.result() is None


# What is stored all the same


def test_atomic_job_is_stored_and_pruned():
    job = enqueue(atomic_add.using(keep="failed"), 1)
    drain()
    job.refresh_from_db()
    assert (job.status, job.return_value) == ("SUCCESSFUL", 2)
    assert prune_successes(execute, OLDEST, ALL_DUE).number == 1


@task(name="tests.keeping.atomic_add", atomic=True)
def atomic_add(a: int) -> int:
    return a + 1


@pytest.mark.parametrize(("setting", "pruned"), [("failed", 1), ("all", 0)])
def test_setting_of_the_worker_decides_about_an_atomic_job_of_a_plain_insert(
    setting, pruned
):
    execute(
        "INSERT INTO pgjobs_job (task, kwargs)"
        " VALUES ('tests.keeping.atomic_add', '{\"a\": 1}')"
    )
    with override_settings(PGJOBS={"KEEP": setting}):
        drain()
    assert Job.objects.get().status == "SUCCESSFUL"
    assert prune_successes(execute, OLDEST, ALL_DUE).number == pruned


def test_jobs_with_a_lock_are_stored_and_pruned():
    enqueue_many([noop.using(keep="failed", lock="a").bind()] * 3)
    drain()
    assert Job.objects.filter(status="SUCCESSFUL").count() == 3
    assert prune_successes(execute, OLDEST, ALL_DUE).number == 3


def test_worker_prunes_what_was_stored():
    enqueue(noop.using(keep="failed", lock="a"))
    drain()
    with running_worker() as loop:
        loop.upkeep["prune_successes"].due = 0.0
        loop.bell.ring()
        wait_for(lambda: not Job.objects.exists(), "it is pruned")


def test_worker_of_one_queue_deletes_too():
    enqueue_many([noop.using(keep="failed", queue_name="one").bind()] * 30)
    drain(queues=("one",))
    assert not Job.objects.exists()
