"""Deploys that add or remove `isolated=True` while such jobs wait.

A row says what its task was when the job was enqueued; the code has changed since.
"""

import os

import pytest

from pgjobs import enqueue_many, task
from pgjobs.models import Job, Queue
from pgjobs.tasks.registry import registry
from tests.processes import drain, running_worker, shared_queue, wait_for
from tests.support import isolated_tasks as isolated
from tests.tasks import hold_and_fail, let_go

pytestmark = shared_queue


@task
def own_pid() -> int:
    return os.getpid()


def results(of) -> list:
    jobs = Job.objects.filter(task=of.name)
    assert {job.status for job in jobs} == {"SUCCESSFUL"}
    assert {(job.failures, job.crashes) for job in jobs} == {(0, 0)}
    return [job.return_value for job in jobs]


def waiting_as_isolated(number: int, **columns) -> None:
    """Leave jobs whose task was isolated as they were enqueued, and is not now."""
    enqueue_many([own_pid.bind()] * number)
    Job.objects.update(keys={"isolated": True}, **columns)


@pytest.mark.parametrize("bound", [None, 1])
def test_jobs_whose_task_is_not_isolated_any_more_run_in_the_slots(bound):
    waiting_as_isolated(7)
    drain(slots=3, isolated=bound)
    assert results(own_pid) == [os.getpid()] * 7


def test_worker_without_processes_runs_such_jobs_once_no_task_is_isolated(monkeypatch):
    plain = {
        origin: each
        for origin, each in registry.tasks.items()
        if not each.options.isolated
    }
    monkeypatch.setattr(registry, "tasks", plain)
    monkeypatch.setattr(registry, "sources", [])
    waiting_as_isolated(3)
    drain(slots=2, isolated=0)
    assert results(own_pid) == [os.getpid()] * 3


@pytest.mark.parametrize("limits", [{}, {"max_running": 50}])
def test_jobs_whose_task_is_not_isolated_any_more_fill_the_slots(limits, tmp_path):
    Queue.objects.create(name="default", **limits)
    path = str(tmp_path / "go")
    enqueue_many([hold_and_fail.bind(path)] * 4)
    Job.objects.update(keys={"isolated": True})
    with running_worker(slots=4, isolated=1, poll=300, listen=False):
        wait_for(lambda: Job.objects.running().count() == 4)
        let_go(path)
        wait_for(lambda: not Job.objects.filter(finished_at=None).exists())


@pytest.mark.parametrize("state", [{}, {"max_crashes": 1}])
def test_jobs_whose_task_has_become_isolated_run_in_processes(state):
    enqueue_many([isolated.pids.bind()] * 5)
    Job.objects.update(keys=None, **state)
    drain(slots=3, isolated=1)
    found = results(isolated.pids)
    assert len(found) == 5
    assert os.getpid() not in {pid for pids in found for pid in pids}
