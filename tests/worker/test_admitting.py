"""When a worker admits jobs that wait; what it decides is tested elsewhere."""

from math import inf

import pytest

from pgjobs.queue.admitting import Admission, Position
from pgjobs.worker.upkeep.admission import (
    BLOCKED_PAUSE,
    LONGEST_PAUSE,
    SWEEP,
    Admitting,
)

HERE = Position("queue", "line", 7)
# It stands still: the shortest pause is shorter than a test may be interrupted for.
NOW = 1_000_000_000.0


@pytest.fixture
def admitting() -> Admitting:
    made = Admitting()
    made.sweeps_all, made.sweeping.due = False, inf
    return made


def brought(admitted=0, has_more=False, is_blocked=False, at=HERE) -> Admission:
    return Admission(set(), admitted, [], has_more, is_blocked, False, at)


def test_worker_admits_as_it_starts_and_then_after_a_hint(admitting):
    assert admitting.is_due(NOW)
    admitting.passed(brought(admitted=3), swept=False, now=NOW)
    assert not admitting.is_due(NOW)
    assert not admitting.is_expecting(NOW)
    admitting.expect()
    assert admitting.is_due(NOW)


def test_worker_goes_on_at_once_where_it_left_off(admitting):
    admitting.passed(brought(has_more=True), swept=False, now=NOW)
    assert admitting.is_due(NOW)
    assert admitting.begin(NOW) == (HERE, False)


@pytest.mark.parametrize("swept", [True, False])
def test_worker_that_finds_another_admitting_pauses_for_longer_and_longer(
    admitting, swept
):
    pauses = []
    for _ in range(12):
        admitting.sweeping.due = 0.0 if swept else inf
        assert admitting.begin(NOW) == (Position(), swept)
        admitting.passed(brought(admitted=None), swept, now=NOW)
        pauses.append(admitting.next_event - NOW)
        assert not admitting.is_due(NOW)
        assert admitting.is_expecting(NOW)
    assert LONGEST_PAUSE / 3 < max(pauses) <= LONGEST_PAUSE
    assert pauses[0] < pauses[5] < pauses[9]


def test_worker_pauses_while_other_transactions_hold_rows(admitting):
    admitting.passed(brought(is_blocked=True), swept=False, now=NOW)
    assert BLOCKED_PAUSE / 2 < admitting.next_event - NOW <= BLOCKED_PAUSE
    assert admitting.is_expecting(NOW)


def test_worker_that_could_not_sweep_still_has_to(admitting):
    admitting.sweeping.due = 0.0
    admitting.passed(brought(admitted=None), swept=True, now=NOW)
    assert admitting.sweeping.due <= admitting.due


@pytest.mark.parametrize("why", ["it starts", "it hears of a queue that is resumed"])
def test_worker_sweeps_all_lines_from_the_first_one_on(why, admitting):
    admitting.position = HERE
    if why == "it starts":
        admitting = Admitting()
        admitting.sweeping.due = inf
    else:
        admitting.hear(SWEEP)
    assert admitting.begin(NOW) == (Position(), True)
    admitting.passed(brought(at=HERE), swept=True, now=NOW)
    assert admitting.is_due(NOW)
    assert admitting.begin(NOW) == (HERE, True)
    admitting.passed(brought(at=Position("queue")), swept=True, now=NOW)
    assert not admitting.is_expecting(NOW)
    assert admitting.begin(NOW) == (Position("queue"), False)


def test_worker_that_hears_of_a_job_does_not_sweep(admitting):
    admitting.passed(brought(), swept=False, now=NOW)
    admitting.hear("mail")
    assert admitting.is_due(NOW)
    assert admitting.begin(NOW) == (HERE, False)
