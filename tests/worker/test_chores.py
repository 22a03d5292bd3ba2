"""When chores are due and tried again: decisions about time, without a worker."""

from math import inf

import psycopg
import pytest
from psycopg import errors

from pgjobs.base.database_errors import is_lost, is_of_row
from pgjobs.worker.connections.faults import Backoff
from pgjobs.worker.upkeep.chore import (
    NOTHING,
    Chore,
    Effects,
    Timer,
    Upkeep,
    attempt,
)


def test_pauses_after_failures_double_up_to_the_longest():
    backoff = Backoff(first=0.5, longest=60.0)
    for expected in (0.5, 1, 2, 4, 8, 16, 32, 60, 60):
        wait = backoff.failed(now=100.0)
        assert expected / 2 <= wait <= expected
        assert backoff.is_waiting(100.0)
        assert not backoff.is_waiting(100.0 + expected)
    assert backoff.since == 100.0
    backoff.passed()
    assert not backoff.is_waiting(0.0)
    assert backoff.failed(now=0.0) <= 0.5


def test_timer_is_due_after_its_interval_or_at_once_after_a_full_batch():
    timer = Timer(interval=10.0)
    timer.done(now=100.0)
    assert 108 <= timer.due <= 110
    timer.done(now=100.0, again_at_once=True)
    assert timer.is_due(now=100.0)


@pytest.mark.parametrize(("workers", "turns"), [(0, 1), (1, 1), (3, 3), (64, 50)])
def test_workers_do_a_chore_together_as_often_as_one_would(workers, turns):
    timer = Timer(interval=10.0)
    timer.take_turns(workers, now=100.0)
    timer.done(now=100.0)
    assert 100 + 8 * turns <= timer.due <= 100 + 10 * turns


def test_worker_that_is_left_alone_does_its_chore_soon():
    timer = Timer(interval=10.0)
    timer.take_turns(5, now=100.0)
    timer.done(now=100.0)
    assert 140 <= timer.due <= 150
    timer.take_turns(1, now=101.0)
    assert 101 + 39 / 5 <= timer.due <= 101 + 49 / 5


def test_workers_that_start_together_do_a_chore_by_turns_from_the_beginning():
    timer = Timer(interval=10.0)
    timer.due = 104.0
    timer.take_turns(64, now=100.0)
    assert timer.due == 300.0


@pytest.mark.parametrize("due", [0.0, 100.0, inf])
def test_turns_do_not_move_a_chore_that_is_due_or_that_nobody_expects(due):
    timer = Timer(interval=10.0)
    timer.due = due
    timer.take_turns(5, now=100.0)
    assert timer.due == due


@pytest.mark.parametrize(
    ("notes", "due"),
    [
        ([False], 120.0),  # before long a worker asks again
        ([True], 105.0),  # as it was
        ([False, True], 0.0),  # at once
        ([False, False], 120.0),
    ],
)
def test_timer_is_put_off_while_there_is_nothing_to_do(notes, due):
    timer = Timer(interval=10.0)
    timer.due = 105.0
    for there_is_something in notes:
        timer.note(there_is_something, now=100.0)
    assert timer.due == due


class Told(Chore):
    name = "told"

    def __init__(self, *results):
        super().__init__()
        self.results = list(results)

    def run(self, connection) -> Effects:
        result = self.results.pop(0)
        if isinstance(result, Exception):
            raise result
        return result


def test_chore_that_fails_is_named_postponed_and_tried_again(caplog):
    ready = Effects(ready=True)
    chore = Told(errors.UndefinedColumn("no such column"), ready)
    chore.expect()
    assert attempt(chore, None) is NOTHING
    assert "Chore name=told failed, the next try in 0." in caplog.text
    retry_at = chore.next_event
    assert not chore.is_due(retry_at - 0.01)
    assert chore.is_due(retry_at)
    assert attempt(chore, None) is ready
    assert chore.backoff.since is None


def test_error_of_python_in_a_chore_is_logged_with_its_traceback(caplog):
    assert attempt(Told(ValueError("unforeseen")), None) is NOTHING
    assert "Traceback" in caplog.text


def test_lost_database_is_no_fault_of_the_chore():
    chore = Told(psycopg.OperationalError("the connection is closed"))
    with pytest.raises(psycopg.OperationalError):
        attempt(chore, None)
    assert chore.backoff.since is None


def test_worker_that_stops_leaves_to_others_what_makes_jobs():
    now = 1.0
    making, other = Told(), Told()
    making.makes_jobs = True
    upkeep = Upkeep(making, other)
    making.expect()
    assert list(upkeep.due(now, is_stopping=False)) == [making]
    assert list(upkeep.due(now, is_stopping=True)) == []
    assert upkeep.next_event(is_stopping=True) == inf


def test_chore_that_runs_may_put_off_the_next_one():
    first, second = Told(), Told()
    for chore in (first, second):
        chore.expect()
    due = Upkeep(first, second).due(1.0, is_stopping=False)
    assert next(due) is first
    second.due = inf
    assert list(due) == []


def test_effects_are_merged():
    merged = Effects(ready=True, finished=[1]) | Effects(waiting=True, finished=[2])
    assert merged == Effects(ready=True, waiting=True, finished=[1, 2])


@pytest.mark.parametrize(
    ("code", "lost", "of_row"),
    [
        ("08006", True, False),
        ("57P01", True, False),
        ("25006", True, False),  # the primary is another one now
        ("57014", False, False),
        ("55P03", False, False),
        ("40P01", False, False),
        ("42P01", False, False),
        ("22003", False, True),
        ("23503", False, True),
        ("54001", False, True),
        ("P0001", False, True),
    ],
)
def test_errors_are_sorted_into_those_of_the_database_and_those_of_rows(
    code, lost, of_row
):
    error = errors.lookup(code)("said")
    assert (is_lost(error), is_of_row(error)) == (lost, of_row)


def test_errors_of_the_driver_concern_the_connection_or_a_value():
    assert is_lost(psycopg.OperationalError("connection refused"))
    assert is_lost(psycopg.InterfaceError("closed"))
    assert is_of_row(psycopg.DataError("timestamp too large (after year 10K)"))
    assert not is_lost(ValueError("a bug"))
