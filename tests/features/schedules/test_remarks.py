"""`jobstatus --check` names the schedules that will not fire as their times say."""

from datetime import timedelta

import pytest

from pgjobs.base.queue_database import database_time
from pgjobs.features.schedules.remarks import broken_schedules
from pgjobs.models import Schedule
from pgjobs.reports.remarks import Seen
from tests.actors import execute, hours

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def without_declared_ones(db):
    Schedule.objects.all().delete()


def made(**columns) -> Schedule:
    if "cron" not in columns:
        columns.setdefault("every", timedelta(minutes=10))
    return Schedule.objects.create(name="nightly", task="tests.noop", **columns)


def problems() -> list[str]:
    now = database_time("default")
    return [each.text for each in broken_schedules(Seen("default", now, []), None)]


@pytest.mark.parametrize(
    "columns",
    [
        {},
        {"cron": "0 3 * * *"},
        {"cron": "0 0 29 2 *"},
        {"cron": "*/5 * * * *", "timezone": "Europe/Berlin"},
        {"anchor": "end"},
    ],
)
@pytest.mark.parametrize("starts", [False, True])
def test_schedule_as_it_was_made_is_no_problem(columns, starts):
    if starts:
        columns = columns | {"start_at": database_time("default") + hours(1_000)}
    made(**columns)
    assert problems() == []


@pytest.mark.parametrize(
    "columns", [{}, {"cron": "0 3 * * *"}, {"anchor": "end"}], ids=repr
)
def test_schedule_that_was_planned_by_a_clock_far_ahead_is_named(columns):
    schedule = made(**columns)
    Schedule.objects.update(next_run_at=database_time("default") + hours(9_000))
    (text,) = problems()
    assert text.startswith("Schedule nightly will not fire before 20")
    schedule.pause()
    assert problems() == []
    schedule.resume()
    assert problems() == []


def test_clock_that_was_a_little_ahead_is_no_problem():
    made()
    Schedule.objects.update(
        next_run_at=database_time("default") + timedelta(minutes=22)
    )
    assert problems() == []


def test_only_run_before_the_end_is_compared_too():
    now = database_time("default")
    made(end_at=now + timedelta(minutes=15), start_at=now - timedelta(minutes=5))
    assert problems() == []
    Schedule.objects.update(next_run_at=now + hours(5))
    assert len(problems()) == 1


@pytest.mark.parametrize("column", ["cron = '61 * * * *'", "timezone = 'Mars/Base'"])
def test_schedule_that_sql_has_broken_is_named_before_it_is_due(column):
    made(cron="0 3 * * *")
    execute(f"UPDATE pgjobs_schedule SET {column}")
    (text,) = problems()
    assert text.startswith("Schedule nightly does not fire: It cannot fire: ")


def test_schedule_that_sql_has_made_without_a_next_run_is_named():
    execute(
        "INSERT INTO pgjobs_schedule (name, task, every) "
        "VALUES ('by hand', 'tests.noop', '1 hour')"
    )
    assert problems() == ["Schedule by hand has no next run: pause and resume it."]
    Schedule.objects.get().pause()
    Schedule.objects.get().resume()
    assert problems() == []


def test_schedule_that_has_ended_is_no_problem():
    now = database_time("default")
    made(start_at=now - hours(2), end_at=now - hours(1))
    assert Schedule.objects.get().next_run_at is None
    assert problems() == []


def test_schedule_whose_run_goes_on_has_no_next_run():
    made(anchor="end")
    Schedule.objects.update(next_run_at=None, last_run_at=database_time("default"))
    assert problems() == []
