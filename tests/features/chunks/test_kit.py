"""Tests of projects run calls, too: at once, and on their own thread."""

import pytest
from django.test import override_settings

from pgjobs import enqueue, enqueue_many
from pgjobs.exceptions import InvalidTask
from pgjobs.models import Job
from pgjobs.testing import perform, run_jobs
from tests.processes import drain, shared_queue

from .tasks import (
    Index,
    async_squares,
    calls_in,
    enqueue_all,
    marking,
    patient,
    picky,
    raising,
    squares,
)

pytestmark = shared_queue


@pytest.mark.parametrize("task", [squares, async_squares])
def test_run_jobs_runs_a_call(task, path):
    enqueue_all(task, path, range(12))
    jobs = run_jobs()
    assert [job.return_value for job in jobs] == [pk * pk for pk in range(12)]
    assert [len(call) for call in calls_in(path)] == [10, 2]


def test_nobody_waits_for_chunk_wait_in_tests_and_drains(path):
    enqueue_all(patient, path, [1, 2])
    assert set(Job.objects.values_list("status", flat=True)) == {"SCHEDULED"}
    run_jobs()
    enqueue_all(patient, path, [3, 4])
    drain()
    assert calls_in(path) == [[1, 2], [3, 4]]
    assert set(Job.objects.values_list("status", flat=True)) == {"SUCCESSFUL"}


def test_run_jobs_raises_what_a_call_raises(path):
    enqueue_all(raising, path, range(3), tenant=1)
    with pytest.raises(ValueError, match="no good"):
        run_jobs()
    assert set(Job.objects.values_list("status", flat=True)) == {
        "SUCCESSFUL",
        "SCHEDULED",
    }


def test_perform_returns_an_outcome_for_each_member(path):
    given = [{"path": path, "pk": 3}, Index(path, 4), Index(path, 6), Index(path, 7)]
    done = perform(marking, given)
    assert [each.outcome for each in done] == [
        *("SUCCESSFUL", "FAILED", "RETRIED", "SUCCESSFUL")
    ]
    assert done[3].return_value == {"seven": 7}
    assert done[2].delay == 3600
    assert not Job.objects.exists()


def test_perform_of_one_bound_job_is_a_call_of_one(path):
    assert perform(squares.bind(path=path, pk=3)).return_value == 9


def test_perform_wants_one_list(path):
    for wrong in ((), (5,), ([],), ([1],), ([{"path": path, "pk": 1}], 2)):
        with pytest.raises(InvalidTask):
            perform(squares, *wrong)


def test_perform_bisects(path):
    members = [Index(path, pk, tenant=int(pk == 2)) for pk in range(4)]
    with pytest.raises(ValueError, match="poisoned"):
        perform(picky, members)
    assert calls_in(path) == [[0, 1, 2, 3], [0, 1], [2, 3], [2], [3]]


@override_settings(PGJOBS={"MODE": "inline"})
def test_mode_inline_runs_a_call_at_once(path):
    job = enqueue(squares, path=path, pk=4)
    assert (job.status, job.return_value) == ("SUCCESSFUL", 16)
    enqueue_many([squares.bind(path=path, pk=pk) for pk in (1, 2)])
    assert calls_in(path) == [[4], [1, 2]]
