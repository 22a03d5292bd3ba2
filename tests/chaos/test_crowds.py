"""The checker sees what ran side by side, or in the wrong order."""

import pytest

from chaos.checker.evidence import FaultRow
from tests.chaos.histories import FIRST, WORKERS, Story, broken


def run_two(story: Story, **values) -> None:
    """Run two jobs at a time, which begin WAITING if they have a key."""
    for job_id in (1, 2):
        story.enqueue(job_id, status="WAITING", waiting_for="lock", **values)
    for job_id in (1, 2):
        story.write(job_id, FIRST, status="READY", waiting_for=None)
        story.claim(job_id)
    for job_id in (1, 2):
        story.succeed(job_id)


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ({"lock": "door", "is_ordered": False}, "two running in one lock"),
        ({"limit_key": "mail", "max_running": 1}, "limit exceeded"),
        ({"units": 60}, "units exceeded"),
        ({"unique_key": "one", "unique_for": "unfinished"}, "unique violated"),
    ],
)
def test_two_that_may_not_be_side_by_side_are_noticed(story, values, verdict):
    run_two(story, **values)
    assert broken(story.evidence()) == {verdict}


@pytest.mark.parametrize(
    "values",
    [
        {"limit_key": "mail", "max_running": 2},
        {"units": 50},
        {"unique_key": "one", "unique_for": "waiting"},
    ],
)
def test_two_that_may_be_side_by_side_are_fine(story, values):
    run_two(story, **values)
    assert broken(story.evidence()) == set()


def test_queue_with_too_many_running_jobs_is_noticed(story):
    for job_id in (1, 2, 3):
        story.enqueue(job_id, queue="narrow")
        story.claim(job_id)
    for job_id in (1, 2, 3):
        story.succeed(job_id)
    assert broken(story.evidence()) == {"queue limit exceeded"}


def test_worker_with_more_jobs_than_slots_is_noticed(story):
    for job_id in (1, 2, 3, 4):
        story.enqueue(job_id)
        story.claim(job_id)
    for job_id in (1, 2, 3, 4):
        story.succeed(job_id)
    assert broken(story.evidence()) == {"slots exceeded"}


def test_worker_that_prefetches_may_hold_more_but_not_any_number(story):
    prefetching = WORKERS[0]._replace(name="epsilon.1")
    for job_id in range(1, 505):
        story.enqueue(job_id)
        story.claim(job_id)
    assert "slots exceeded" in broken(story.evidence(workers=[prefetching]))
    story.versions = [each for each in story.versions if each.job_id < 504]
    assert "slots exceeded" not in broken(story.evidence(workers=[prefetching]))


def test_admission_that_claims_out_of_order_is_noticed(story):
    for job_id in (1, 2):
        story.enqueue(job_id, lock="door", status="WAITING")
    for job_id in (2, 1):
        story.time += 2
        story.claim(job_id, waiting_for=None)
        story.succeed(job_id)
    assert broken(story.evidence()) == {"order violated"}


def test_what_one_transaction_does_is_one_moment(story):
    """One statement may claim the next job of a lock before it records the last."""
    for job_id in (1, 2):
        story.enqueue(job_id, limit_key="mail", max_running=1, status="WAITING")
    story.write(1, FIRST, status="READY")
    story.claim(1)
    story.write(2, FIRST, status="READY")
    claim = story.claim(2)
    story.succeed(1, moment=claim.moment)
    story.versions[-2] = claim._replace(moment=story.versions[-1].moment)
    story.succeed(2)
    assert broken(story.evidence()) == set()


def test_order_of_a_lock_that_is_not_kept_is_noticed(story):
    for job_id in (1, 2):
        story.enqueue(job_id, lock="door", status="WAITING")
    for job_id in (2, 1):
        story.time += 2
        story.write(job_id, FIRST, status="READY")
        story.claim(job_id)
        story.succeed(job_id)
    assert broken(story.evidence()) == {"order violated"}


def test_order_of_jobs_that_were_committed_late_is_fine(story):
    story.enqueue(2, lock="door", status="WAITING")
    story.enqueue(1, lock="door", status="WAITING", committed_at=story.time + 1.9)
    for job_id in (2, 1):
        story.write(job_id, FIRST, status="READY")
        story.claim(job_id)
        story.succeed(job_id)
    assert broken(story.evidence()) == set()


@pytest.mark.parametrize(("locked", "found"), [(1, set()), (9, {"slots exceeded"})])
def test_job_whose_row_is_locked_takes_no_slot(story, locked, found):
    for job_id in (1, 2, 3, 4):
        story.enqueue(job_id)
        story.claim(job_id)
    fault = FaultRow("lock rows", 100.0, story.time, "20 rows", met=((locked, 1),))
    for job_id in (1, 2, 3, 4):
        story.succeed(job_id)
    assert broken(story.evidence(faults=[fault])) == found
