"""When a worker promotes scheduled jobs: decisions about time, without a worker."""

from math import inf

import pytest

from pgjobs.worker.upkeep.promotion import FIRST_PAUSE, Promotion

NOW = 100.0


@pytest.fixture
def promotion() -> Promotion:
    """A promotion that has been done once."""
    promotion = Promotion()
    promotion.due = inf
    return promotion


def test_new_worker_promotes_at_once():
    assert Promotion().is_due(NOW)
    assert Promotion().is_expecting(NOW)


def test_promotion_is_due_with_the_next_scheduled_job(promotion):
    promotion.expect_in(3.0, NOW)
    assert not promotion.is_due(NOW + 2.9)
    assert promotion.is_due(NOW + 3.0)
    promotion.expect_in(None, NOW)
    assert promotion.is_due(NOW + 3.0), "as planned before"
    assert not promotion.is_expecting(NOW + 2.9), "a drain does not wait for it"


def test_promotion_that_left_a_due_job_is_tried_again_soon(promotion):
    """Another transaction holds the job. A busy worker must not postpone the try."""
    for milliseconds in range(10):
        promotion.expect_in(-1.0, NOW + milliseconds / 1_000)
    assert promotion.due == pytest.approx(NOW + FIRST_PAUSE, abs=0.2 * FIRST_PAUSE)
    assert promotion.is_expecting(NOW), "a drain waits for it"


def test_tries_become_rarer_while_a_due_job_is_held(promotion):
    now, waits = NOW, []
    for _ in range(12):
        promotion.expect_in(-1.0, now)
        waits.append(promotion.due - now)
        now, promotion.due = promotion.due, inf
    assert waits[0] == pytest.approx(FIRST_PAUSE, rel=0.2)
    assert waits[-1] == pytest.approx(1.0, rel=0.2)


@pytest.mark.parametrize("seconds", [None, 5.0])
def test_drain_waits_no_more_once_no_job_is_overdue(promotion, seconds):
    promotion.expect_in(-1.0, NOW)
    promotion.due = inf
    promotion.expect_in(seconds, NOW)
    assert not promotion.is_expecting(NOW)


def test_drain_waits_for_no_promotion_that_fails(promotion):
    promotion.expect_in(-1.0, NOW)
    promotion.backoff.failed(NOW)
    assert not promotion.is_expecting(NOW)
