"""Isolated tasks in the kit for tests."""

import os

import pytest
from django.db import transaction

from pgjobs.exceptions import MemoryLimitExceeded, RemoteError
from pgjobs.models import Job
from pgjobs.testing import perform, run_jobs
from tests.processes import shared_queue
from tests.support import isolated_tasks as isolated


@pytest.mark.django_db
def test_kit_runs_isolated_tasks_in_place():
    isolated.pids.enqueue()
    (job,) = run_jobs()
    assert job.return_value[0] == os.getpid()
    assert perform(isolated.pids.bind()).return_value[0] == os.getpid()


@pytest.mark.django_db
def test_processes_in_a_transaction_are_refused():
    isolated.pids.enqueue()
    with pytest.raises(RuntimeError, match="TransactionTestCase"):
        run_jobs(isolated=True)
    assert Job.objects.ready().exists()


@shared_queue
def test_kit_runs_isolated_tasks_in_processes_if_asked_to():
    jobs = [isolated.pids.enqueue(), isolated.enqueue_and_fail.enqueue(False)]
    first, second, third = run_jobs(isolated=True)
    assert [first.pk, second.pk] == [job.pk for job in jobs]
    assert first.return_value[0] != os.getpid()
    assert (second.status, third.task) == ("SUCCESSFUL", "tests.noop")


@shared_queue
def test_kit_raises_what_comes_back_from_a_process():
    isolated.fail_with.enqueue("broken")
    with pytest.raises(RemoteError, match="ValueError: broken") as caught:
        run_jobs(isolated=True)
    assert caught.value.class_path == "ValueError"
    isolated.fill.enqueue(400)
    with pytest.raises(MemoryLimitExceeded, match="of 150 MB"):
        run_jobs(isolated=True)


@shared_queue
def test_kit_does_not_raise_what_a_task_decides():
    with transaction.atomic():
        isolated.decide.enqueue("snooze")
        isolated.decide.enqueue("fail")
    snoozed, failed = run_jobs(isolated=True)
    assert (snoozed.status, failed.status) == ("SCHEDULED", "FAILED")
