"""`runjobs --isolated`: how many isolated jobs a worker runs, and who waits."""

from io import StringIO

import pytest
from django.core.management import call_command

from pgjobs import enqueue_many
from pgjobs.models import Attempt, Job, Queue
from tests import tasks
from tests.processes import (
    drain,
    running_worker,
    shared_queue,
    wait_for,
    wait_for_status,
)
from tests.support import isolated_tasks as isolated

pytestmark = shared_queue


def isolated_jobs():
    return Job.objects.filter(task="isolated.sleep")


def test_isolated_jobs_beyond_the_bound_wait_and_hold_up_no_plain_job():
    enqueue_many([isolated.sleep.bind(30)] * 5)
    with running_worker(slots=4, isolated=2):
        wait_for(lambda: isolated_jobs().running().count() == 2)
        for _ in range(5):
            wait_for_status(tasks.noop.enqueue(), "SUCCESSFUL")
        assert isolated_jobs().running().count() == 2
        for job in isolated_jobs():
            job.cancel()
        wait_for(lambda: not Job.objects.filter(finished_at=None).exists())


def test_jobs_that_wait_for_a_process_are_not_claimed():
    enqueue_many([isolated.add.bind(each) for each in range(12)])
    drain(slots=6, isolated=1)
    for job in Job.objects.all():
        assert (job.status, job.attempts, job.crashes) == ("SUCCESSFUL", 1, 0)
        assert not job.reason
    assert not Attempt.objects.exists()


def test_row_of_a_plain_insert_says_that_it_is_isolated_once_it_was_put_back():
    enqueue_many([isolated.sleep.bind(30)] * 3)
    Job.objects.update(keys=None)
    with running_worker(slots=3, isolated=1):
        wait_for(
            lambda: (
                isolated_jobs().ready().filter(keys__has_key="isolated").count() == 2
            )
        )
        wait_for_status(tasks.noop.enqueue(), "SUCCESSFUL")
        for job in isolated_jobs():
            job.cancel()
        wait_for(lambda: not Job.objects.filter(finished_at=None).exists())


def test_worker_without_processes_takes_no_isolated_job():
    job = isolated.add.enqueue(1)
    plain = tasks.noop.enqueue()
    drain(isolated=0)
    plain.refresh_from_db()
    job.refresh_from_db()
    assert (plain.status, job.status, job.attempts) == ("SUCCESSFUL", "READY", 0)


def test_end_of_an_isolated_job_lets_the_next_one_begin_at_once():
    jobs = enqueue_many([isolated.add.bind(each) for each in range(6)])
    with running_worker(slots=2, isolated=1, poll=300, listen=False):
        for job in jobs:
            wait_for_status(job, "SUCCESSFUL")


@pytest.mark.parametrize(
    ("task", "values"), [(isolated.fail_with, ["no"]), (isolated.leave, [3])]
)
def test_isolated_job_that_fails_lets_the_next_one_begin_at_once(task, values):
    jobs = enqueue_many([task.bind(*values) for _ in range(3)])
    with running_worker(slots=2, isolated=1, poll=300, listen=False):
        for job in jobs:
            wait_for_status(job, "FAILED")


def test_isolated_jobs_with_a_lock_begin_one_after_the_other_at_once():
    locked = isolated.add.using(lock="one")
    jobs = enqueue_many([locked.bind(1), isolated.add.bind(2), locked.bind(3)])
    with running_worker(slots=3, isolated=1, poll=300, listen=False):
        for job in jobs:
            wait_for_status(job, "SUCCESSFUL")


def test_plain_jobs_behind_isolated_ones_need_no_poll():
    enqueue_many([isolated.sleep.bind(30)] * 3)
    plain = enqueue_many([tasks.noop.bind()] * 3)
    with running_worker(slots=4, isolated=1, poll=300, listen=False):
        for job in plain:
            wait_for_status(job, "SUCCESSFUL")
        assert isolated_jobs().running().count() == 1
        isolated_jobs().ready().delete()
        isolated_jobs().get().cancel()
        wait_for(lambda: not Job.objects.filter(finished_at=None).exists())


def test_isolated_jobs_of_a_queue_with_a_limit_hold_up_no_plain_job():
    Queue.objects.create(name="default", max_running=3)
    enqueue_many([isolated.sleep.bind(30)] * 4)
    with running_worker(slots=4, isolated=1):
        wait_for(lambda: isolated_jobs().running().count() == 1)
        wait_for_status(tasks.noop.enqueue(), "SUCCESSFUL")
        assert isolated_jobs().running().count() == 1
        for job in isolated_jobs():
            job.cancel()
        wait_for(lambda: not Job.objects.filter(finished_at=None).exists())


def test_command_says_how_many_isolated_jobs_it_runs_and_takes_no_more():
    job = isolated.add.enqueue(1)
    out = StringIO()
    call_command("runjobs", "--drain", "--isolated=0", "--max-time=20", stdout=out)
    lines = out.getvalue().splitlines()
    assert "4 slots, at most 0 isolated jobs at a time" in lines[0]
    assert lines[-1] == "Left: 1 ready."
    job.refresh_from_db()
    assert (job.status, job.attempts) == ("READY", 0)
