"""Isolated jobs whose worker dies, and not their own process."""

from tests import tasks
from tests.actors import Hand
from tests.processes import shared_queue
from tests.support import isolated_tasks as isolated

pytestmark = shared_queue

BESIDE = "Worker lost, perhaps by another job beside it."


def lost(job) -> tuple:
    """Let a worker die under the job; return what it then says."""
    hand = Hand()
    assert hand.claim_one().id == job.pk
    hand.vanish()
    Hand("rescuer").rescue()
    job.refresh_from_db()
    return job.status, job.crashes, job.reason


def test_loss_of_the_worker_counts_as_for_plain_jobs_before_the_last_crash():
    job = isolated.add.using(max_crashes=3).enqueue(1)
    assert lost(job) == ("READY", 1, "Worker lost (crash 1 of 3).")
    assert lost(job) == ("READY", 2, "Worker lost (crash 2 of 3).")


def test_loss_of_the_worker_is_no_last_crash_of_an_innocent_isolated_job():
    """With one crash left it runs beside others, so the loss says little about it."""
    job = isolated.add.using(max_crashes=2).enqueue(1)
    assert lost(job) == ("READY", 1, "Worker lost (crash 1 of 2).")
    assert lost(job) == ("READY", 1, BESIDE)
    assert lost(job) == ("READY", 1, BESIDE)


def test_isolated_job_that_always_loses_its_worker_fails_in_the_end():
    job = isolated.add.using(max_crashes=2).enqueue(1)
    states = [lost(job)[0] for _ in range(5)]
    assert states == ["READY"] * 4 + ["FAILED"]
    assert job.reason == "Worker lost (crash 2 of 2)."


def test_isolated_job_that_may_crash_once_never_runs_again():
    assert lost(isolated.add.using(max_crashes=1).enqueue(1))[0] == "FAILED"


def test_plain_job_with_one_crash_left_pays_for_the_loss():
    job = tasks.noop.using(max_crashes=2).enqueue()
    assert [lost(job)[0] for _ in range(2)] == ["READY", "FAILED"]
