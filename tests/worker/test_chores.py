"""When chores are due and tried again: decisions about time, without a worker."""

from math import inf

import psycopg
import pytest
from psycopg import errors

from pgjobs.base.database_errors import is_lost, is_of_row
from pgjobs.queue.upkeep import chores
from pgjobs.worker.connections.faults import Backoff
from pgjobs.worker.upkeep.chore import (
    NOTHING,
    Chore,
    Effects,
    Timer,
    Upkeep,
    attempt,
    when,
)
from pgjobs.worker.upkeep.chores import listed, questions
from tests.actors import Hand, execute


def test_pauses_after_failures_double_up_to_the_longest():
    backoff = Backoff(first=0.5, longest=60.0)
    now = 100.0
    for expected in (0.5, 0.5, 1, 2, 4, 8, 16, 32, 60, 60):
        wait = backoff.failed(now)
        assert 0.8 * expected <= wait <= expected
        assert backoff.is_waiting(now)
        assert not backoff.is_waiting(now + expected)
        now += expected
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


def test_timer_that_rests_is_due_only_when_something_is_expected():
    chore = Told()
    chore.interval = chore.usual = 10.0
    chore.rest()
    assert chore.due == inf
    chore.expect()
    assert chore.is_due(now=100.0)
    chore.done(now=100.0)
    assert chore.due == inf


def test_timer_that_goes_on_is_due_within_its_interval():
    timer = Timer(interval=10.0)
    timer.rest()
    timer.resume(now=100.0)
    assert 100.0 <= timer.due <= 110.0
    timer.due = 105.0
    timer.resume(now=101.0)
    assert timer.due == 105.0, "it did not rest"


@pytest.mark.parametrize(
    ("notes", "due"),
    [
        ([None], 120.0),  # before long a worker asks again
        ([3.0], 103.0),
        ([30.0], 120.0),
        ([0.0], 105.0),  # as it was
        ([None, 0.0], 0.0),  # at once
        ([3.0, -1.0], 0.0),
        ([None, None], 120.0),
    ],
)
def test_timer_is_put_off_while_there_is_nothing_to_do(notes, due):
    timer = Timer(interval=10.0)
    timer.due = 105.0
    for seconds in notes:
        timer.expect_in(seconds, now=100.0)
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


def test_next_event_of_the_upkeep_is_that_of_the_chore_that_comes_first():
    failing, other = Told(), Told()
    failing.due, failing.backoff.retry_at, other.due = 1.0, 9.0, 5.0
    for order in ((failing, other), (other, failing)):
        assert Upkeep(*order).next_event(is_stopping=False) == 5.0


def test_chore_that_runs_may_put_off_the_next_one():
    first, second = Told(), Told()
    for chore in (first, second):
        chore.expect()
    due = Upkeep(first, second).due(1.0, is_stopping=False)
    assert next(due) is first
    second.due = inf
    assert list(due) == []


def test_effects_wake_the_chores_that_wait_for_them():
    waiting, other = Told(), Told()
    waiting.woken_by = "undecided"
    upkeep = Upkeep(waiting, other)
    upkeep.react_to(Effects(ready=True))
    assert waiting.due == inf
    upkeep.react_to(Effects(undecided=True))
    assert (waiting.due, other.due) == (0.0, inf)


def test_last_figures_are_stored_when_the_worker_ends_whatever_else_fails():
    first, last = Told(errors.UndefinedColumn("no such column")), Told(NOTHING)
    first.runs_at_end = last.runs_at_end = True
    Upkeep(first, Told(), last).end(None)
    assert (first.results, last.results) == ([], [])


def test_each_chore_has_a_name_of_its_own():
    names = [each.name for each in listed()]
    assert len(set(names)) == len(names)
    assert {"rescue", "expire", "prune"} <= set(names)
    assert {"admit", "rescue", "expire"} <= set(questions())


@pytest.mark.django_db
def test_each_chore_gets_the_answer_to_its_own_question():
    asked = {"soon": "1.5", "never": "NULL", "now": when("true"), "no": when("1 = 2")}
    found = chores(execute, asked, Hand().id, with_ready=True, leads_for=1.0)
    assert found.answers == {"soon": 1.5, "never": None, "now": 0.0, "no": None}


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
