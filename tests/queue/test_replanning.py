"""Schedules that were planned while the clock of the database was wrong."""

from datetime import timedelta

import pytest

from pgjobs.models import Schedule
from pgjobs.queue.replanning import replan
from tests.actors import execute, hours
from tests.processes import running_worker, shared_queue, wait_for
from tests.tasks import noop

pytestmark = shared_queue

YEAR = timedelta(days=365)
TIMES = [
    {"every": hours(1)},
    {"every": hours(1), "anchor": "end"},
    {"cron": "0 3 * * *"},
]


def scheduled(**times) -> Schedule:
    made = Schedule(name="x", task=noop.name, **times)
    made.save()
    return made


def set_clock_back(schedule: Schedule, step: timedelta) -> None:
    """Let the schedule look as if the clock had been ahead when it was planned."""
    Schedule.objects.filter(pk=schedule.pk).update(
        next_run_at=schedule.next_run_at + step, origin_at=schedule.origin_at + step
    )


@pytest.mark.parametrize("times", TIMES)
def test_schedule_that_was_planned_a_year_ahead_is_planned_again(times):
    made = scheduled(**times)
    set_clock_back(made, YEAR)
    assert replan(execute).names == ["x"]
    made.refresh_from_db()
    ((now,),) = execute("SELECT clock_timestamp()")
    assert now < made.next_run_at <= now + hours(25)
    assert made.origin_at <= now
    assert replan(execute).names == []


@pytest.mark.parametrize("times", TIMES)
def test_schedule_that_is_planned_as_it_should_be_stays(times):
    made = scheduled(**times)
    assert replan(execute).names == []
    made.refresh_from_db()


def test_schedule_that_starts_in_the_future_waits_for_its_start():
    ((now,),) = execute("SELECT clock_timestamp()")
    made = scheduled(every=hours(1), start_at=now + YEAR)
    assert made.next_run_at > now + YEAR - hours(2)
    assert replan(execute).names == []


def test_worker_plans_again_when_it_starts():
    made = scheduled(every=hours(1))
    set_clock_back(made, YEAR)
    with running_worker():
        wait_for(
            lambda: (
                Schedule.objects.get(name="x").next_run_at < made.next_run_at + hours(2)
            ),
            "the worker plans the schedule again",
        )
