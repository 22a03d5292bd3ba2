"""Which outcomes a worker records now, and what it holds: without a worker."""

import pytest

from pgjobs.queue.claiming import ClaimedJob
from pgjobs.queue.recording import Completed, Success, Unsuccessful, release
from pgjobs.worker.in_flight import FAILED_OVER, InFlight


def job(id: int, **values) -> ClaimedJob:
    columns = dict.fromkeys(ClaimedJob._fields, 0)
    columns |= {"id": id, "lease_token": id, "task": "tests.noop"}
    columns |= {"max_crashes": 3, "is_keyed": False}
    return ClaimedJob(**columns | values)


def holding(*jobs: ClaimedJob) -> InFlight:
    in_flight = InFlight()
    in_flight.claim(jobs)
    return in_flight


SUCCESS = Success(1, 1, None)
FAILURE = Unsuccessful(1, 1, "FAIL", "It failed.")
RETRY = Unsuccessful(1, 1, "RETRY", "It failed.")
CANCEL = Unsuccessful(1, 1, "CANCEL", "An operator wanted it.")
COMPLETED = Completed(1, 1)


def test_outcomes_are_sorted_by_how_they_are_stored():
    in_flight = holding(job(1), job(2), job(3))
    failure = FAILURE._replace(id=2, lease_token=2)
    completed = Completed(3, 3)
    in_flight.put([SUCCESS, failure, completed])
    assert in_flight.recordable_as(Success) == [SUCCESS]
    assert in_flight.recordable_as(Unsuccessful) == [failure]
    assert in_flight.recordable_as(Completed) == [completed]
    assert in_flight.still_running == []


@pytest.mark.parametrize("obstacle", ["locked", "failing"])
def test_outcome_that_cannot_be_stored_now_waits_alone(obstacle):
    in_flight = holding(job(1), job(2))
    other = Success(2, 2, None)
    in_flight.put([SUCCESS, other])
    setattr(in_flight, obstacle, {1})
    assert in_flight.recordable_as(Success) == [other]
    assert in_flight.unrecorded == [SUCCESS, other], "it is kept"


@pytest.mark.parametrize("obstacle", ["locked", "failing"])
def test_job_whose_outcome_cannot_be_stored_takes_no_slot(obstacle):
    in_flight = holding(job(1), job(2), job(3))
    in_flight.put([SUCCESS])
    setattr(in_flight, obstacle, {1})
    assert in_flight.slots_without() == 2
    assert in_flight.slots_without([Success(2, 2, None)]) == 1


def test_jobs_that_share_a_call_take_one_slot_until_all_are_stored():
    in_flight = InFlight()
    in_flight.companions = {2, 3}
    first, *others = job(1), job(2), job(3)
    assert in_flight.claim([first, *others]) == [first]
    assert in_flight.slots_without() == 1
    assert in_flight.slots_without([Success(2, 2, None)]) == 1
    in_flight.put([SUCCESS, Success(2, 2, None)])
    in_flight.locked = {2}
    assert in_flight.slots_without([SUCCESS]) == 0


def test_worker_is_stuck_if_recording_fails_for_all_that_it_holds():
    in_flight = holding(job(1), job(2))
    in_flight.failing = {1}
    assert not in_flight.is_stuck
    in_flight.failing = {1, 2}
    assert in_flight.is_stuck


def test_closed_outcomes_are_forgotten_with_all_that_was_known_of_them():
    in_flight = holding(job(1), job(2))
    in_flight.put([SUCCESS])
    in_flight.failing, in_flight.isolated = {1}, {1, 2}
    (end,) = in_flight.close([SUCCESS], {1: "SUCCESSFUL"})
    assert (end.job.id, end.status, end.outcome) == (1, "SUCCESSFUL", SUCCESS)
    assert end.seconds >= 0
    assert in_flight.unrecorded == []
    assert in_flight.failing == set()
    assert in_flight.isolated == {2}
    assert [each.id for each in in_flight.still_running] == [2]


def test_end_of_a_job_that_another_worker_took_has_no_status():
    in_flight = holding(job(1))
    in_flight.put([SUCCESS])
    (end,) = in_flight.close([SUCCESS], {})
    assert end.status is None
    assert in_flight.is_empty


@pytest.mark.parametrize(
    ("outcome", "recorded"),
    [
        (SUCCESS, release(job(1), FAILED_OVER)),
        (CANCEL, release(job(1), FAILED_OVER)),
        (FAILURE, FAILURE),
        (RETRY, RETRY),
        (COMPLETED, COMPLETED),
    ],
)
def test_job_that_ran_during_a_failover_runs_again_unless_its_end_is_certain(
    outcome, recorded
):
    in_flight = holding(job(1))
    in_flight.fail_over()
    in_flight.put([outcome])
    assert in_flight.unrecorded == [recorded]


def test_job_that_may_not_run_again_is_not_released_after_a_failover():
    in_flight = holding(job(1, max_crashes=1))
    in_flight.fail_over()
    in_flight.put([SUCCESS])
    assert in_flight.unrecorded == [SUCCESS]


def test_outcome_that_is_not_stored_yet_is_released_too_after_a_failover():
    in_flight = holding(job(1))
    in_flight.put([SUCCESS])
    in_flight.fail_over()
    assert in_flight.recordable_as(Success) == []


def test_last_chance_runs_alone():
    last_chance = job(1, crashes=2)
    assert holding(last_chance).runs_last_chance
    assert not holding(last_chance, job(2)).runs_last_chance
    assert not holding(job(2)).runs_last_chance


def test_jobs_with_keys_are_known_by_their_outcomes():
    in_flight = holding(job(1, is_keyed=True), job(2))
    assert in_flight.has_keys([SUCCESS])
    assert not in_flight.has_keys([Success(2, 2, None)])
