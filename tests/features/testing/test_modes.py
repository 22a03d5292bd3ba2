"""PGJOBS["MODE"]: jobs that run as they are enqueued, or not at all."""

from datetime import timedelta

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import Group
from django.core import mail
from django.db import connection, transaction

from pgjobs import Retry, aenqueue, chain, current_job, enqueue, enqueue_many, publish
from pgjobs import task as declare
from pgjobs.exceptions import JobFailed
from pgjobs.models import Job, Worker
from pgjobs.queue.inserting import without_notify
from pgjobs.testing import (
    assert_enqueued,
    capture_jobs,
    override_mode,
    run_jobs,
)
from tests import standard_tasks, tasks
from tests.actors import session
from tests.support.checks import found

pytestmark = pytest.mark.django_db


@override_mode("inline")
def test_job_has_run_when_enqueue_returns():
    job = enqueue(tasks.add, 2, b=3)
    assert (job.status, job.return_value) == ("SUCCESSFUL", 5)
    jobs = enqueue_many([tasks.echo.bind(1), tasks.echo.bind(2)])
    assert [job.return_value for job in jobs] == [1, 2]
    assert not Worker.objects.exists()


@override_mode("inline")
def test_error_of_the_task_is_raised_to_the_caller():
    with pytest.raises(ValueError, match=r"^no$"):
        enqueue(tasks.fail_with, "no")
    assert Job.objects.get().status == "FAILED"


@override_mode("inline")
def test_caller_that_rolls_back_undoes_the_job_too():
    with pytest.raises(ValueError, match="no"), transaction.atomic():
        enqueue(insert, "x")
        enqueue(tasks.fail_with, "no")
    assert not Group.objects.exists()
    assert not Job.objects.exists()


@declare
def insert(name: str):
    Group.objects.create(name=name)


@override_mode("inline")
def test_job_that_a_job_enqueues_has_run_as_well():
    job = enqueue(enqueue_inner)
    assert job.return_value == ["SUCCESSFUL", 4]


@declare
def enqueue_inner():
    inner = enqueue(tasks.add, 3)
    return [inner.status, inner.return_value]


@override_mode("inline")
def test_job_that_must_wait_stays_in_the_queue():
    later = enqueue(tasks.noop.using(run_after=timedelta(hours=1)))
    asks_for_more = enqueue(ask_for_more)
    assert (later.status, asks_for_more.status) == ("SCHEDULED", "SCHEDULED")
    follower = enqueue(tasks.noop.using(after=later))
    assert (follower.status, follower.waiting_for) == ("WAITING", "predecessor")
    assert_enqueued(tasks.noop, count=2)


@declare
def ask_for_more():
    raise Retry(after=60)


@override_mode("inline")
def test_job_that_waits_for_the_one_that_enqueues_it_runs_after_it():
    job = enqueue(enqueue_for_own_lock.using(lock="door"))
    assert job.return_value == "WAITING"
    assert Job.objects.get(task="tests.noop").status == "SUCCESSFUL"


@declare
def enqueue_for_own_lock():
    return enqueue(tasks.noop.using(lock="door")).status


@override_mode("inline")
def test_chain_runs_in_its_order():
    first, last = enqueue(chain(tasks.echo.bind("first"), tasks.echo.bind("last")))
    assert [first.status, last.status] == ["SUCCESSFUL", "SUCCESSFUL"]
    assert first.finished_at < last.started_at


@override_mode("inline")
def test_event_is_delivered_before_publish_returns(stored_handlers):
    publish("tle.refreshed", {"satellite_id": 5})
    assert Job.objects.exists()
    assert {job.attempts for job in Job.objects.all()} == {1}


@override_mode("inline")
def test_failed_assertion_explains_that_the_job_has_run():
    with capture_jobs() as jobs:
        enqueue(tasks.noop)
    assert [job.task for job in jobs] == ["tests.noop"]
    with pytest.raises(AssertionError, match=r'mode "inline".*capture_jobs\(\)'):
        assert_enqueued(tasks.noop)


@pytest.mark.django_db(transaction=True, available_apps=["pgjobs", "tests"])
@override_mode("inline")
def test_job_runs_inline_without_a_transaction_too():
    job = enqueue(enqueue_inner)
    assert not connection.in_atomic_block
    assert job.return_value == ["SUCCESSFUL", 4]


@pytest.mark.django_db(transaction=True, available_apps=["pgjobs", "tests"])
def test_job_runs_inline_in_async_code():
    from asgiref.sync import async_to_sync

    with override_mode("inline"):
        job = async_to_sync(aenqueue)(count_in_async_code)
    assert job.return_value == [1, 1]


@declare
async def count_in_async_code():
    return [await Job.objects.acount(), current_job().attempt]


@override_mode("manual")
def test_manual_mode_only_records():
    enqueue(tasks.noop)
    assert_enqueued(tasks.noop)
    assert len(run_jobs()) == 1


@pytest.mark.direct
@pytest.mark.django_db(transaction=True)
@override_mode("manual")
def test_manual_mode_wakes_no_worker():
    with session() as listening:
        listening.listen("pgjobs", "pgjobs_admission")
        enqueue(tasks.noop)
        with transaction.atomic():
            enqueue_many([tasks.noop.bind(), tasks.noop.using(lock="a").bind()])
            enqueue(tasks.noop.using(unique=True))
            publish("order.paid", {"path": "here"})
        assert listening.heard() == []
        with override_mode("queue"):
            enqueue(tasks.noop)
        assert listening.heard() == [("pgjobs", "default")]


@pytest.mark.direct
@pytest.mark.django_db(transaction=True)
def test_jobs_inserted_after_those_of_the_manual_mode_wake_a_worker():
    with session() as listening:
        listening.listen("pgjobs")
        with transaction.atomic():
            with override_mode("manual"):
                enqueue(tasks.noop)
            with pytest.raises(ZeroDivisionError), without_notify("default"):
                enqueue(tasks.noop)
                raise ZeroDivisionError
            enqueue(tasks.noop.using(queue_name="other"))
        assert listening.heard() == [("pgjobs", "other")]
    assert Job.objects.count() == 2


def test_mode_ends_with_its_block():
    with override_mode("inline"):
        with override_mode("manual"):
            assert enqueue(tasks.noop).status == "READY"
        assert enqueue(tasks.noop).status == "SUCCESSFUL"
    assert enqueue(tasks.noop).status == "READY"


def test_other_settings_stay_as_they_are(settings):
    settings.PGJOBS = {"CONCURRENCY": 7}
    with override_mode("inline"):
        assert settings.PGJOBS == {"CONCURRENCY": 7, "MODE": "inline"}
    assert settings.PGJOBS == {"CONCURRENCY": 7}


def test_unknown_mode_is_refused():
    with pytest.raises(ValueError, match="one of queue, inline, manual, got 'eager'"):
        override_mode("eager")


def test_mode_is_warned_of_where_debug_is_off(settings, monkeypatch):
    # Other tests of this process may have added a database.
    settings.PGJOBS = {"MODE": "inline", "DATABASE": "default"}
    assert found() == {}  # this is a test
    monkeypatch.delattr(mail, "outbox")
    assert "the request that enqueues a job runs it" in found()["pgjobs.W046"]
    settings.PGJOBS = {"MODE": "manual", "DATABASE": "default"}
    assert "no worker runs the jobs" in found()["pgjobs.W046"]
    settings.DEBUG = True
    assert found() == {}


@override_mode("inline")
def test_job_that_has_run_inline_has_a_result_to_wait_for():
    assert enqueue(tasks.add, 2, b=3).wait(timeout=2) == 5
    assert async_to_sync(enqueue(tasks.add, 2, b=3).await_result)() == 5


def test_job_that_has_run_in_the_test_has_a_result_to_wait_for():
    job = enqueue(tasks.add, 2, b=3)
    with pytest.raises(RuntimeError, match="inside a transaction"):
        job.wait(timeout=2)
    run_jobs()
    assert job.wait(timeout=2) == 5


def test_failure_of_a_job_that_has_run_in_the_test_is_raised_by_wait():
    job = enqueue(tasks.fail_with.using(max_attempts=1), "no")
    run_jobs(raise_errors=False)
    with pytest.raises(JobFailed, match="no"):
        job.wait()


@override_mode("inline")
def test_result_of_a_task_of_django_that_has_run_inline_is_final():
    result = standard_tasks.add.enqueue(1, b=2)
    assert (result.status, result.return_value) == ("SUCCESSFUL", 3)
