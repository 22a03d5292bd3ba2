"""One bad job of a call is found by halves, and no other one pays for it."""

from math import ceil, log2

import pytest

from pgjobs.models import Attempt, Job
from tests.processes import drain, shared_queue

from .tasks import async_picky, calls_in, enqueue_all, picky

pytestmark = shared_queue


def poison(job: Job, tenant: int) -> None:
    job.kwargs["tenant"] = tenant
    job.save(update_fields=["kwargs"])


def most_calls(number: int) -> int:
    return 1 + 2 * ceil(log2(number))


def statuses(jobs) -> list[str]:
    found = Job.objects.in_bulk([job.pk for job in jobs])
    return [found[job.pk].status for job in jobs]


@pytest.mark.parametrize("task", [picky, async_picky])
@pytest.mark.parametrize("place", [0, 17, 39])
def test_job_that_raises_is_alone_soon(task, place, path):
    jobs = enqueue_all(task.using(max_attempts=1), path, range(40))
    poison(jobs[place], 1)
    drain()
    expected = ["SUCCESSFUL"] * 40
    expected[place] = "FAILED"
    assert statuses(jobs) == expected
    called = calls_in(path)
    assert len(called) <= most_calls(40)
    assert called[-1] == [place] or called[-2] == [place]
    assert set(Job.objects.values_list("attempts", flat=True)) == {1}
    assert Attempt.objects.count() == 1


def test_halves_of_a_level_run_before_their_halves(path):
    jobs = enqueue_all(picky.using(max_attempts=1), path, range(8))
    poison(jobs[0], 1)
    drain()
    assert calls_in(path) == [
        *([*range(8)], [0, 1, 2, 3], [4, 5, 6, 7], [0, 1], [2, 3], [0], [1])
    ]


def test_nine_tenths_of_the_others_end_within_ten_calls(path):
    jobs = enqueue_all(picky.using(max_attempts=1), path, range(64))
    poison(jobs[63], 1)
    drain()
    bad = [call for call in calls_in(path)[:10] if 63 not in call]
    assert sum(map(len, bad)) >= 0.9 * 63


def test_outage_costs_few_calls_and_is_kept_in_parts(path):
    jobs = enqueue_all(picky, path, range(64))
    Job.objects.update(kwargs={"path": path, "pk": 1, "tenant": 1})
    loop = drain(max_jobs=1)
    assert loop.finished == 0
    assert len(calls_in(path)) == most_calls(64)
    rows = [Job.objects.get(pk=job.pk) for job in jobs]
    assert {(row.attempts, row.failures) for row in rows} == {(1, 1)}
    parts = {row.chunk.get("part") for row in rows}
    assert None not in parts
    first = [row.pk for row in rows if row.chunk["part"] == rows[0].chunk["part"]]
    Job.objects.update(kwargs={"path": path, "pk": 2, "tenant": 0})
    drain()
    assert set(statuses(jobs)) == {"SUCCESSFUL"}
    assert (
        max(map(len, calls_in(path)[most_calls(64) :])) == len(first) or len(parts) > 1
    )


def test_time_out_fails_all_and_is_not_bisected(path):
    jobs = enqueue_all(picky.using(max_attempts=1), path, range(4))
    poison(jobs[2], 2)
    drain()
    assert calls_in(path) == [[0, 1, 2, 3]]
    assert statuses(jobs) == ["FAILED"] * 4
    assert "took longer than 1 s" in Job.objects.first().reason
