"""Workers that are killed under a call: nothing is lost, and the guilty one fails."""

import pytest

from pgjobs import enqueue_many
from pgjobs.models import Attempt, Job
from tests.actors import execute
from tests.processes import shared_queue, wait_for
from tests.tasks import let_go, lines, noop

from .tasks import calls_in, enqueue_all, holding, picky
from .test_bisection import poison, statuses

pytestmark = [shared_queue, pytest.mark.slow]
BRISK = {
    "HEARTBEAT_INTERVAL": 0.4,
    "LEASE_DURATION": 1.6,
    "TASK_MODULES": ["tests.features.chunks.tasks"],
}


def run_to_the_end(start_worker) -> int:
    """Start a worker in place of each that dies; return how many have died."""
    for number in range(30):
        worker = start_worker(settings=BRISK)
        wait_for(lambda worker=worker: not worker.is_alive or is_over())
        if is_over():
            return number
    raise AssertionError("the workers die all the time")


def is_over() -> bool:
    return not Job.objects.filter(finished_at=None).exists()


def test_job_that_kills_its_process_is_alone_after_halvings(
    start_worker,
    path,
):
    jobs = enqueue_all(picky, path, range(8))
    poison(jobs[5], 3)
    assert run_to_the_end(start_worker) == 6
    assert statuses(jobs) == [*["SUCCESSFUL"] * 5, "FAILED", *["SUCCESSFUL"] * 2]
    rows = [Job.objects.get(pk=job.pk) for job in jobs]
    assert [row.crashes for row in rows] == [0, 0, 0, 0, 0, 3, 0, 0]
    killed = [call for call in calls_in(path) if 5 in call]
    assert [len(call) for call in killed] == [8, 4, 2, 1, 1, 1]
    assert sum(pk == 3 for call in calls_in(path) for pk in call) == 2


def test_no_other_job_is_in_the_process_of_a_half(start_worker, path):
    jobs = enqueue_all(picky, path, range(4))
    poison(jobs[0], 3)
    enqueue_many([noop.bind() for _ in range(50)])
    run_to_the_end(start_worker)
    crashed = Attempt.objects.filter(outcome="CRASHED", job__task=noop.name)
    lost = set(crashed.values_list("number", flat=True))
    assert lost <= {1}  # by the first crash alone
    assert statuses(jobs) == ["FAILED", *["SUCCESSFUL"] * 3]
    assert not Job.objects.filter(task=noop.name).exclude(status="SUCCESSFUL").exists()


def test_jobs_of_a_killed_call_run_again_in_halves(start_worker, path):
    jobs = enqueue_all(holding, path, range(6))
    worker = start_worker(settings=BRISK)
    wait_for(lambda: calls_in(path))
    worker.kill()
    let_go(path + ".go")
    run_to_the_end(start_worker)
    assert statuses(jobs) == ["SUCCESSFUL"] * 6
    assert calls_in(path) == [[*range(6)], [0, 1, 2], [3, 4, 5]]
    assert set(Job.objects.values_list("crashes", "attempts")) == {(0, 2)}


@pytest.mark.parametrize("where", ["before", "after"])
def test_worker_that_dies_around_the_second_claim_loses_nothing(
    start_worker,
    path,
    where,
):
    jobs = enqueue_all(holding, path, range(6))
    let_go(path + ".go")
    worker = start_worker(settings=BRISK, **{"PGJOBS_TEST_DIES": f"gather {where}"})
    wait_for(lambda: not worker.is_alive)
    assert not lines(path)
    assert run_to_the_end(start_worker) == 0
    assert statuses(jobs) == ["SUCCESSFUL"] * 6
    called = [pk for call in calls_in(path) for pk in call]
    assert sorted(called) == [*range(6)]
    assert max(Job.objects.values_list("crashes", flat=True)) <= 1
    assert execute("SELECT count(*) FROM pgjobs_job WHERE worker_id IS NOT NULL") == [
        (0,)
    ]
