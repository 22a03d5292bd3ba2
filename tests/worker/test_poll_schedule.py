"""When a worker looks at the queue again: decisions about time, without a worker."""

from datetime import UTC, datetime
from math import inf

import pytest

from pgjobs.queue.claiming import Claimed, ClaimedJob
from pgjobs.worker.poll_schedule import (
    FIRST_LOOK_AGAIN,
    LONGEST_LOOK_AGAIN,
    PollSchedule,
)

NOW = 100.0
POLL = 60.0
LIMIT = 2
AT = datetime(2026, 1, 1, tzinfo=UTC)


def job(crashes: int = 0) -> ClaimedJob:
    columns = dict.fromkeys(ClaimedJob._fields, 0)
    columns |= {"crashes": crashes, "max_crashes": 3, "enqueued_at": AT}
    return ClaimedJob(**columns)


def after(
    *jobs: ClaimedJob,
    limit: int = LIMIT,
    rewind_at: float | None = None,
    promoted: bool = False,
    schedule: PollSchedule | None = None,
    **what,
) -> PollSchedule:
    """Return the schedule after a look, for two jobs at first, that brought this."""
    schedule = schedule or PollSchedule(POLL)
    claimed = Claimed(set(), False, None, False, False, False, False, 0.0, AT, [])
    claimed = claimed._replace(jobs=list(jobs), **what)
    schedule.plan(claimed, limit, promoted, NOW, rewind_at)
    return schedule


def test_new_schedule_wants_a_look_at_once():
    schedule = PollSchedule(POLL)
    assert schedule.deserves_look(is_idle=False, now=0.0)
    assert not schedule.is_empty


def test_empty_look_is_followed_by_a_poll():
    schedule = after()
    assert schedule.is_empty
    assert not schedule.deserves_look(is_idle=True, now=NOW + 0.8 * POLL - 1)
    assert schedule.deserves_look(is_idle=True, now=NOW + POLL)
    assert schedule.is_poll_due(NOW + POLL)


@pytest.mark.parametrize(
    "schedule",
    [
        pytest.param(after(job(), job()), id="as many jobs as were asked for"),
        pytest.param(after(has_more=True), id="the look was cut short"),
        pytest.param(after(met_expired=True), id="expired jobs hid others"),
    ],
)
def test_look_that_did_not_show_all_is_followed_by_another_one_at_once(schedule):
    assert schedule.deserves_look(is_idle=False, now=NOW)
    assert not schedule.is_empty


def test_look_that_brought_fewer_jobs_than_asked_for_has_shown_all():
    assert after(job()).is_empty


def test_suspect_is_claimed_once_the_worker_is_idle():
    schedule = after(job(), met_suspect=True)
    assert not schedule.deserves_look(is_idle=False, now=NOW)
    assert schedule.deserves_look(is_idle=True, now=NOW)
    assert not after(job(crashes=2), met_suspect=True).waits_for_idle, "it came along"


def test_looks_after_a_locked_job_become_rarer_until_one_brings_a_job():
    schedule = PollSchedule(POLL)
    waits = []
    for _ in range(8):
        after(met_locked=True, schedule=schedule)
        waits.append(schedule.next_look - NOW)
    assert waits[:3] == pytest.approx([0.02, 0.04, 0.08])
    assert waits[-1] == pytest.approx(LONGEST_LOOK_AGAIN)
    after(job(), met_locked=True, schedule=schedule)
    assert schedule.next_look - NOW == pytest.approx(FIRST_LOOK_AGAIN)


def test_looks_after_an_expired_job_that_cannot_be_cancelled_become_rarer():
    schedule = after(met_expired=True)
    waits = []
    for _ in range(8):
        after(met_expired=True, schedule=schedule)
        assert not schedule.deserves_look(is_idle=True, now=NOW)
        waits.append(schedule.next_look - NOW)
    assert waits[:3] == pytest.approx([0.02, 0.04, 0.08])
    assert waits[-1] == pytest.approx(LONGEST_LOOK_AGAIN)
    after(schedule=schedule)
    after(met_expired=True, schedule=schedule)
    assert schedule.deserves_look(is_idle=True, now=NOW)


def test_partial_look_is_not_taken_for_the_end_of_the_queue():
    schedule = after(rewind_at=NOW + 2, promoted=True)
    assert not schedule.is_empty
    assert schedule.next_look == NOW + 2


def test_promotion_is_due_with_the_next_scheduled_job():
    schedule = after(next_due=3.0)
    assert not schedule.is_promotion_due(NOW + 2.9)
    assert schedule.is_promotion_due(NOW + 3.0)
    assert after().promote_at == inf, "none is scheduled"


def test_look_ahead_of_the_slots_tells_no_more_than_when_to_promote():
    schedule = PollSchedule(POLL)
    after(limit=0, next_due=3.0, promoted=True, schedule=schedule)
    assert schedule.promote_at == NOW + 3.0
    assert schedule.look_at == 0.0
    after(limit=0, next_due=-1.0, promoted=True, schedule=schedule)
    assert NOW < schedule.promote_at < NOW + 1


def test_promotion_that_left_a_due_job_is_tried_again_soon():
    """Another transaction holds the job. A busy worker must not postpone the try."""
    schedule = after(next_due=-1.0, promoted=True)
    assert schedule.promote_at == pytest.approx(NOW + FIRST_LOOK_AGAIN)
    schedule.promote_at = NOW + 0.001
    after(next_due=-1.0, promoted=False, schedule=schedule)
    assert schedule.promote_at == pytest.approx(NOW + 0.001)


def test_look_at_cursors_does_not_forget_an_overdue_job_that_it_cannot_see():
    schedule = after(next_due=-9.0)
    soon = schedule.promote_at
    after(rewind_at=NOW + 2, schedule=schedule)
    assert schedule.promote_at == soon
    after(rewind_at=NOW + 2, promoted=True, schedule=schedule)
    assert schedule.promote_at == inf


def test_survey_that_saw_no_job_postpones_the_poll():
    schedule = after()
    schedule.promote_at = inf
    schedule.saw_none(next_due=5.0, now=NOW + 30)
    assert NOW + 30 + 0.8 * POLL <= schedule.look_at <= NOW + 30 + POLL
    assert schedule.promote_at == NOW + 35
    schedule.saw_none(next_due=None, now=NOW + 31)
    assert schedule.promote_at == NOW + 35, "as planned before"


@pytest.mark.parametrize("why", ["passed_over", "is_partial", "waits_for_idle"])
def test_survey_does_not_postpone_a_look_that_has_to_see_more(why):
    """A drain ends only after such a look, however often others see no job."""
    schedule = after()
    setattr(schedule, why, True)
    schedule.look_at = NOW + 0.02
    schedule.saw_none(next_due=None, now=NOW)
    assert schedule.look_at == NOW + 0.02


def test_events_wake_the_schedule():
    schedule = after(next_due=50.0)
    schedule.wake()
    assert schedule.deserves_look(is_idle=False, now=NOW)
    schedule.wake_for_promotion()
    assert schedule.is_promotion_due(NOW)
