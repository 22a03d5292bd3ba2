"""Schedules that were planned while the clock of the database was wrong."""

import itertools
from datetime import timedelta

import pytest
from django.db import transaction
from django.db.models import F

from pgjobs.features.schedules.declare import bind
from pgjobs.features.schedules.queue import due_schedules, fire, plan, replan
from pgjobs.models import Job, Schedule, Tick
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
    assert made.origin_at <= made.next_run_at
    assert replan(execute).names == []


def step_clock(step: timedelta) -> None:
    """Let all look as if the clock had been set ahead by so much, and plan again."""
    Schedule.objects.update(
        next_run_at=F("next_run_at") - step, origin_at=F("origin_at") - step
    )
    Tick.objects.update(time=F("time") - step)
    replan(execute)


def fire_due() -> int:
    with transaction.atomic():
        return fire(execute, [plan(each) for each in due_schedules(execute)], bind)[1]


@pytest.mark.usefixtures("no_schedules")
@pytest.mark.parametrize("step", [timedelta(minutes=-607), timedelta(minutes=607)])
def test_clock_that_steps_and_is_right_again_lets_no_tick_fire_twice(step):
    scheduled(every=hours(1), overlap="allow", catch_up="all")
    step_clock(timedelta(minutes=330))
    assert fire_due() == 5
    step_clock(step)
    fire_due()
    step_clock(-step)
    fire_due()
    times = Tick.objects.order_by("time").values_list("time", flat=True)
    assert {b - a for a, b in itertools.pairwise(times)} == {hours(1)}
    assert Job.objects.count() == len(times)


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
