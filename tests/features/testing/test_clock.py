"""Time in tests: Python's clock may be moved, the database's has its own."""

import warnings
from datetime import UTC, datetime, timedelta

import pytest
import time_machine
from django.utils import timezone

from pgjobs import enqueue, task
from pgjobs.models import Job, Rate
from pgjobs.testing import assert_enqueued, enqueued, run_jobs
from tests import tasks

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)


def ran(**options) -> list[str]:
    return [job.kwargs["value"] for job in run_jobs(**options)]


def test_jobs_are_due_by_a_clock_that_was_moved_ahead():
    now = timezone.now()
    enqueue(tasks.echo.using(run_after=now + DAY), "in a day")
    enqueue(tasks.echo.using(run_after=3 * DAY), "in three days")
    with time_machine.travel(now + 2 * DAY):
        assert ran() == ["in a day"]
        assert ran() == []
        assert ran(until=DAY + timedelta(minutes=1)) == ["in three days"]


def test_moment_counts_by_a_clock_that_was_moved_ahead():
    now = timezone.now()
    enqueue(tasks.echo.using(run_after=now + 3 * DAY), "in three days")
    with time_machine.travel(now + 2 * DAY):
        assert ran(until=now + 2.5 * DAY) == []
        assert ran(until=now + 3.5 * DAY) == ["in three days"]


def test_clock_that_was_moved_back_moves_no_job():
    with time_machine.travel(datetime(2020, 1, 1, tzinfo=UTC)):
        enqueue(tasks.echo.using(run_after=DAY), "in a day")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert ran() == []
            assert ran(until=timezone.now() + 2 * DAY) == ["in a day"]


def test_job_that_runs_too_early_by_pythons_clock_is_warned_of():
    with time_machine.travel(datetime(2020, 1, 1, tzinfo=UTC)):
        enqueue(tasks.echo.using(run_after=timezone.now() + DAY), "in a day")
        with pytest.warns(UserWarning, match=r"behind the database's.* 1 of them run"):
            assert ran() == ["in a day"]


def test_warning_names_the_line_of_the_test():
    with time_machine.travel(datetime(2020, 1, 1, tzinfo=UTC)):
        enqueue(tasks.echo.using(run_after=timezone.now() + DAY), "in a day")
        with pytest.warns(UserWarning) as noted:
            run_jobs()
    assert noted[0].filename == __file__


def test_times_are_as_before_to_the_microsecond():
    jobs = [enqueue(tasks.echo.using(run_after=DAY / 7 * n), n) for n in range(1, 9)]
    jobs.append(enqueue(tasks.noop.using(run_after=datetime(1980, 1, 1, tzinfo=UTC))))
    jobs.append(enqueue(tasks.noop.using(expires=100 * DAY, unique=True)))
    Rate.objects.create(key="slow", full_at=timezone.now())
    columns = ("run_after", "expires_at", "unique_until", "enqueued_at")
    before = list(Job.objects.order_by("pk").values(*columns))
    full_at = Rate.objects.get().full_at
    assert len(run_jobs(until=DAY / 3)) == 4
    assert list(Job.objects.order_by("pk").values(*columns)) == before
    assert Rate.objects.get().full_at == full_at


def test_period_of_a_unique_key_passes():
    for hours in (0, 12, 30):
        enqueue_daily.using(run_after=timedelta(hours=hours)).enqueue()
    jobs = [job.task.partition(".")[2] for job in run_jobs(scheduled=True)]
    daily, echo = "enqueue_daily", "echo"
    assert jobs == [daily, echo, daily, daily, echo]


@task
def enqueue_daily():
    tasks.echo.using(unique_key="daily", unique_for=DAY).enqueue("x")


def test_failed_assertion_explains_the_two_clocks():
    with time_machine.travel(datetime(2020, 1, 1, tzinfo=UTC)):
        enqueue(tasks.noop.using(run_after=DAY))
        assert enqueued(tasks.noop, run_after=DAY)
        with pytest.raises(AssertionError, match="behind the database's, by which"):
            assert_enqueued(tasks.noop, run_after=timezone.now() + DAY)


def test_too_long_a_time_is_refused():
    for until in (30 * 365 * DAY, timezone.now() + 30 * 365 * DAY):
        with pytest.raises(ValueError, match="until must lie within the next 20 years"):
            run_jobs(until=until)
    with pytest.raises(ValueError, match="until must be between 0 s"):
        run_jobs(until=-DAY)
