"""assert_enqueued and its like, and what they say when they fail."""

from datetime import date, timedelta
from unittest.mock import ANY

import pytest
from django.db import transaction
from django.utils import timezone

from pgjobs import enqueue, enqueue_many, publish, task
from pgjobs.exceptions import InvalidArguments, InvalidTask
from pgjobs.testing import (
    assert_enqueued,
    capture_jobs,
    enqueued,
    refute_enqueued,
    run_jobs,
)
from tests import standard_tasks, tasks

pytestmark = pytest.mark.django_db


@task
def send_receipt(order_id: int, day: date = date(2026, 1, 2), copy_to: str = ""):
    pass


def said_by(function, *args, **kwargs) -> str:
    """Return what an assertion says that fails."""
    with pytest.raises(AssertionError) as caught:
        function(*args, **kwargs)
    return str(caught.value)


def test_job_is_found_by_those_arguments_that_matter():
    job = enqueue(send_receipt, 5, copy_to="x")
    for found in (
        assert_enqueued(),
        assert_enqueued(send_receipt),
        assert_enqueued("tests.send_receipt"),
        assert_enqueued(send_receipt, 5),
        assert_enqueued(send_receipt, copy_to="x"),
        assert_enqueued(send_receipt, day=date(2026, 1, 2)),
        assert_enqueued(send_receipt, 5, copy_to=ANY),
        assert_enqueued(None, order_id=5),
    ):
        assert found == job
    refute_enqueued(send_receipt, 6)
    refute_enqueued(send_receipt, day=date(2026, 1, 3))
    refute_enqueued(tasks.noop)


def test_options_of_the_job_are_compared():
    job = enqueue(tasks.noop.using(queue_name="mail", priority=5))
    assert enqueued(tasks.noop, queue_name="mail", priority=5) == [job]
    assert enqueued(tasks.noop, queue_name="default") == []
    assert enqueued(tasks.noop, priority=0) == []


def test_run_after_is_a_moment_or_a_time_from_the_enqueueing():
    due = timezone.now() + timedelta(hours=1)
    moment = enqueue(tasks.noop.using(run_after=due))
    delayed = enqueue(tasks.noop.using(run_after=timedelta(hours=2)))
    at_once = enqueue(tasks.noop)
    assert enqueued(tasks.noop, run_after=due) == [moment]
    assert enqueued(tasks.noop, run_after=timedelta(hours=2)) == [delayed]
    assert enqueued(tasks.noop, run_after=timedelta(0)) == [at_once]
    earlier = due - timedelta(minutes=20)
    assert enqueued(tasks.noop, run_after=earlier) == []
    assert enqueued(tasks.noop, run_after=earlier, tolerance=21 * 60) == [moment]


def test_count_must_be_exact():
    enqueue_many([tasks.noop.bind() for _ in range(2)])
    assert_enqueued(tasks.noop, count=2)
    said = said_by(assert_enqueued, tasks.noop, count=3)
    assert said.startswith("2 jobs in the queue, and not 3, are like tests.noop:\n  #")
    with pytest.raises(ValueError, match=r"count must be at least 1.*refute_enqueued"):
        assert_enqueued(tasks.noop, count=0)


def test_arguments_of_any_kind_of_parameter_are_compared():
    job = enqueue(tasks.anything, priority=5, color="red")
    assert enqueued(tasks.anything, color="red") == [job]
    assert enqueued(tasks.anything, arguments={"priority": 5}) == [job]
    assert enqueued(tasks.anything, arguments={"priority": 5}, priority=0) == [job]
    listed = enqueue(take_all, 1, 2, 3)
    assert enqueued(take_all, 1, 2) == [listed]
    assert enqueued(take_all, 1, 3) == []


@task
def take_all(first: int, /, *rest: int):
    pass


@task
def urgent(priority: int):
    pass


def test_option_that_is_also_a_parameter_is_refused():
    with pytest.raises(InvalidTask, match=r"arguments=\{'priority': \.\.\.\}"):
        assert_enqueued(urgent, priority=5)


def test_job_that_has_run_is_no_longer_in_the_queue():
    job = enqueue(tasks.noop)
    run_jobs()
    refute_enqueued()
    said = said_by(assert_enqueued, tasks.noop)
    assert f"#{job.pk} SUCCESSFUL tests.noop()" in said
    assert "it is SUCCESSFUL, and so no longer in the queue" in said


# What they say


def test_failure_shows_the_nearest_jobs_and_what_differs():
    for order_id in range(1, 7):
        enqueue(send_receipt.using(queue_name="mail"), order_id, copy_to="x")
    near = enqueue(send_receipt, 6, copy_to="y")
    said = said_by(
        assert_enqueued, send_receipt, 6, copy_to="z", queue_name="default"
    ).splitlines()
    assert said[0] == (
        "No job in the queue is like tests.send_receipt with order_id=6, copy_to='z', "
        "queue_name='default'."
    )
    assert said[1] == "The nearest of 7:"
    assert said[2] == (
        f"  #{near.pk} READY tests.send_receipt"
        "(day='2026-01-02', copy_to='y', order_id=6)"
    )
    assert said[3] == "      copy_to is 'y'"
    assert "copy_to is 'x'; queue_name is 'mail'" in said[5]
    assert len(said) == 12


def test_failure_says_by_how_much_the_time_is_wrong():
    enqueue(tasks.noop.using(run_after=timedelta(hours=1)))
    said = said_by(assert_enqueued, tasks.noop, run_after=timedelta(hours=3))
    assert "UTC, 2:00:00 earlier" in said


def test_failure_says_what_else_is_in_the_queue():
    assert said_by(assert_enqueued, tasks.noop) == (
        "No job of tests.noop was enqueued.\nThe queue is empty."
    )
    enqueue_many([tasks.echo.bind(1), tasks.echo.bind(2), tasks.add.bind(1)])
    assert said_by(assert_enqueued, tasks.noop).endswith(
        "The queue has 2 of tests.echo, 1 of tests.add."
    )


def test_failure_reminds_of_functions_that_wait_for_a_commit():
    transaction.on_commit(tasks.noop.enqueue)
    assert "captureOnCommitCallbacks(execute=True)" in said_by(
        assert_enqueued, tasks.noop
    )


def test_refute_shows_what_is_there():
    jobs = enqueue_many([tasks.echo.bind("x" * 200) for _ in range(7)])
    said = said_by(refute_enqueued, tasks.echo).splitlines()
    assert said[0] == "The queue has what it should not have, tests.echo:"
    assert said[1].startswith(f"  #{jobs[0].pk} READY tests.echo(value='xxx")
    assert len(said[1]) < 150
    assert said[-1] == "  and 2 more"


# What they refuse


@pytest.mark.parametrize(
    ("args", "kwargs", "says"),
    [
        ((send_receipt, "5"), {}, "order_id: input should be a valid integer"),
        ((send_receipt,), {"order": 5}, "order: is no parameter of this task"),
        (
            (send_receipt, 1, date.today(), "", 4),
            {},
            "arguments: takes 3 positional, got 4",
        ),
    ],
)
def test_arguments_that_no_job_can_have_are_refused(args, kwargs, says):
    for function in (assert_enqueued, refute_enqueued, enqueued):
        with pytest.raises(InvalidArguments, match=says):
            function(*args, **kwargs)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (tasks.noop.using(priority=5), "would not be compared: pass the task itself"),
        (tasks.noop.function, "Pass a task, or its name, got <function"),
    ],
)
def test_what_is_no_task_is_refused(given, says):
    with pytest.raises(InvalidTask, match=says):
        refute_enqueued(given)


# capture_jobs


def test_jobs_of_a_block_are_captured_even_if_they_are_rolled_back():
    enqueue(tasks.noop)
    with capture_jobs() as jobs, pytest.raises(ValueError), transaction.atomic():
        enqueue(tasks.add, 5)
        raise ValueError
    assert [(job.task, job.kwargs) for job in jobs] == [("tests.add", {"a": 5, "b": 1})]
    refute_enqueued(tasks.add)
    enqueue(tasks.noop)
    assert len(jobs) == 1


def test_deliveries_of_events_are_captured(stored_handlers):
    with capture_jobs() as jobs:
        publish("tle.refreshed", {"satellite_id": 5})
    assert {job.task for job in jobs} == {job.task for job in enqueued()}
    assert jobs


def test_tasks_of_django_are_asserted_like_others():
    standard_tasks.add.enqueue(1, b=2)
    assert_enqueued(standard_tasks.add)
    assert_enqueued(standard_tasks.add, 1, 2)
    assert_enqueued(standard_tasks.add, b=2, queue_name="default")
    refute_enqueued(standard_tasks.add, 2)
    refute_enqueued(standard_tasks.noop)
    with pytest.raises(AssertionError, match="a is 1"):
        assert_enqueued(standard_tasks.add, a=5)
    with pytest.raises(InvalidArguments, match="'c'"):
        assert_enqueued(standard_tasks.add, c=5)
