"""The checker knows which changes of a job are legal, and lets good ones pass."""

import pytest

from chaos.checker.evidence import POISON
from tests.chaos.histories import FIRST, OPERATOR, SECOND, broken, kill, ran_once


def test_job_that_runs_once_is_fine(story):
    ran_once(story)
    assert broken(story.evidence()) == set()


def test_rescue_of_a_killed_workers_job_is_fine(story):
    story.enqueue(1)
    story.claim(1, worker=1)
    story.rescue(1)
    story.claim(1, worker=2)
    story.succeed(1, SECOND)
    assert broken(story.evidence(faults=[kill(story.time - 3)])) == set()


def test_operators_retry_is_fine(story):
    ran_once(story)
    retry = {"status": "READY", "life": 2, "attempts": 0, "recorded_attempt": None}
    story.write(1, OPERATOR, **retry)
    story.claim(1)
    story.succeed(1)
    assert broken(story.evidence()) == set()


def test_failure_and_backoff_are_fine(story):
    story.enqueue(1, max_attempts=2)
    story.claim(1)
    story.write(1, FIRST, status="SCHEDULED", failures=1, worker_id=None)
    story.write(1, SECOND, status="READY")
    story.claim(1)
    story.succeed(1)
    assert broken(story.evidence()) == set()


def test_poison_may_be_anything(story):
    story.write(1, POISON, status="RUNNING", worker_id=10**18, attempts=1)
    assert broken(story.evidence(effects=[])) == set()


@pytest.mark.parametrize(
    "changes",
    [
        {"status": "READY"},
        {"status": "SUCCESSFUL", "life": 2},
        {"status": "FAILED"},
        {"status": "RUNNING", "worker_id": 1},
    ],
)
def test_finished_job_stays_as_it_is(story, changes):
    ran_once(story)
    story.write(1, FIRST, **changes)
    assert "illegal transition" in broken(story.evidence())


@pytest.mark.parametrize(
    "changes",
    [
        {"crashes": 0},
        {"token": 1},
        {"failures": 1},
        {"crashes": 2},
        {"attempts": 0},
    ],
)
def test_rescue_that_counts_wrongly_is_illegal(story, changes):
    story.enqueue(1)
    story.claim(1)
    story.rescue(1, **changes)
    evidence = story.evidence(faults=[kill(story.time - 1)])
    assert "illegal transition" in broken(evidence)


def test_rescue_after_the_last_crash_is_illegal(story):
    story.enqueue(1, max_crashes=1)
    story.claim(1)
    story.rescue(1)
    assert "illegal transition" in broken(story.evidence())


def test_retry_after_the_last_failure_is_illegal(story):
    story.enqueue(1, max_attempts=1)
    story.claim(1)
    story.write(1, FIRST, status="SCHEDULED", failures=1, worker_id=None)
    assert "illegal transition" in broken(story.evidence())


def test_retry_of_a_job_that_is_to_be_cancelled_is_illegal(story):
    story.enqueue(1)
    story.claim(1)
    story.write(1, OPERATOR, cancel_requested_at="now")
    story.write(1, FIRST, status="READY", worker_id=None)
    assert "illegal transition" in broken(story.evidence())


def test_cancel_without_an_operator_is_illegal(story):
    story.enqueue(1)
    story.write(1, FIRST, status="CANCELLED")
    assert "illegal transition" in broken(story.evidence())


def test_locked_job_is_not_ready_from_the_start(story):
    story.enqueue(1, lock="door")
    assert "illegal transition" in broken(story.evidence())


def test_two_ends_of_one_life_are_noticed(story):
    ran_once(story)
    story.write(1, FIRST, status="RUNNING", worker_id=1)
    story.succeed(1)
    assert "double completion" in broken(story.evidence())


def test_token_of_two_claims_is_noticed(story):
    for job_id in (1, 2):
        story.enqueue(job_id)
        story.claim(job_id, token=5)
        story.succeed(job_id)
    assert broken(story.evidence()) == {"token used twice"}


def test_end_recorded_by_another_worker_is_noticed(story):
    story.enqueue(1)
    story.claim(1, worker=1)
    story.succeed(1, SECOND)
    assert broken(story.evidence()) == {"recorded by a stale worker"}


def test_result_of_another_attempt_is_noticed(story):
    story.enqueue(1)
    story.claim(1)
    story.rescue(1)
    story.claim(1, worker=2)
    story.succeed(1, SECOND, recorded_attempt=1)
    evidence = story.evidence(faults=[kill(story.time - 3)])
    assert broken(evidence) == {"recorded by a stale worker"}


@pytest.mark.parametrize("pid", [None, 102])
def test_rescue_from_a_worker_that_met_no_fault_is_noticed(story, pid):
    story.enqueue(1)
    story.claim(1, worker=1)
    story.rescue(1)
    story.claim(1, worker=2)
    story.succeed(1, SECOND)
    faults = [kill(story.time - 3, pid)] if pid else []
    assert broken(story.evidence(faults=faults)) == {"taken from a living worker"}


def test_innocent_that_failed_is_noticed(story):
    story.enqueue(1, task="project.bystander", max_attempts=1)
    story.claim(1)
    story.write(1, FIRST, status="FAILED", failures=1, worker_id=None)
    assert broken(story.evidence()) == {"innocents failed"}


def test_guilty_one_that_succeeded_is_noticed(story):
    ran_once(story, task="project.doomed")
    assert broken(story.evidence()) == {"innocents failed"}


def test_job_that_an_operator_failed_is_fine(story):
    story.enqueue(1)
    story.write(1, OPERATOR, status="FAILED")
    assert broken(story.evidence()) == set()


def lost_before_it_began(story, **changes):
    """Lose the worker of a job that may have waited there."""
    reason = "Worker lost, perhaps before the job began."
    story.rescue(1, **{"crashes": 0, "reason": reason, **changes})


def test_loss_of_a_job_that_may_have_waited_counts_with_the_next_one(story):
    story.enqueue(1)
    story.claim(1)
    lost_before_it_began(story)
    story.claim(1)
    story.rescue(1, crashes=2)
    story.claim(1, worker=2)
    story.succeed(1, SECOND)
    kills = [kill(story.time - ago) for ago in (5, 3)]
    assert broken(story.evidence(faults=kills)) == set()


def test_second_loss_that_does_not_count_is_noticed(story):
    story.enqueue(1)
    for _ in range(2):
        story.claim(1)
        lost_before_it_began(story)
    story.claim(1, worker=2)
    story.succeed(1, SECOND)
    assert "illegal transition" in broken(story.evidence())


def test_claim_by_an_admission_is_fine(story):
    story.enqueue(1, status="WAITING", lock="door")
    story.claim(1, waiting_for=None)
    story.succeed(1)
    assert broken(story.evidence()) == set()


@pytest.mark.parametrize("held_back", [{"units": 2}, {"max_crashes": 1}])
def test_admission_may_not_claim_what_only_a_fetch_decides(story, held_back):
    story.enqueue(1, status="WAITING", lock="door", **held_back)
    story.claim(1, waiting_for=None)
    story.succeed(1)
    assert broken(story.evidence()) == {"illegal transition"}
