"""What `schedules` does besides listing."""

import pytest
from django.utils import timezone

from pgjobs import enqueue, task
from pgjobs.models import AuditEntry, Job, Schedule
from tests.features.operating.test_jobstatus import refused, run
from tests.operators import operator

pytestmark = pytest.mark.django_db


@pytest.fixture
def schedule(no_schedules) -> Schedule:
    return Schedule.objects.create(name="nightly", task="tests.noop", cron="@daily")


def test_schedule_is_paused_and_resumed(schedule):
    assert run("schedules", "pause", "nightly") == "nightly: it is paused.\n"
    assert run("schedules", "pause", "nightly") == "nightly: it was paused already.\n"
    schedule.refresh_from_db()
    assert schedule.paused
    assert run("schedules", "resume", "nightly") == "nightly: it fires again.\n"
    assert run("schedules", "resume", "nightly") == "nightly: it was not paused.\n"


def test_schedule_is_run_at_once(schedule):
    said = run("schedules", "run", "nightly")
    job = Job.objects.get()
    assert said == f"nightly: job {job.pk} was enqueued.\n"
    assert job.task == "tests.noop"


def test_unknown_schedule_is_refused_before_any_is_changed(schedule):
    said = refused("schedules", "pause", "nightly", "nihgtly")
    assert said == "There is no schedule 'nihgtly'. Did you mean 'nightly'?"
    schedule.refresh_from_db()
    assert not schedule.paused
    assert refused("schedules", "run") == "Say which schedules to run."
    assert "Known: nightly." in refused("schedules", "run", "x")


def test_next_run_of_a_cron_is_in_its_own_zone(schedule):
    schedule.cron, schedule.timezone = "0 3 * * *", "Asia/Tokyo"
    schedule.plan_again(timezone.now())
    schedule.save()
    assert " 03:00:00 JST " in run("schedules")


def test_schedules_are_listed_by_name(schedule):
    Schedule.objects.create(name="hourly", task="tests.noop", cron="@hourly")
    assert "hourly" in run("schedules")
    assert "hourly" not in run("schedules", "list", "nightly")
    assert "Did you mean 'hourly'?" in refused("schedules", "list", "hourl")
    assert run("schedules").splitlines()[0].endswith("  state")


# The audit trail


def test_pause_is_audited(schedule):
    run("schedules", "pause", "nightly")
    entry = AuditEntry.objects.get()
    assert (entry.via, entry.act, entry.model) == ("command", "pause", "schedule")
    assert entry.number == 1


def rest(): ...


def test_refused_run_leaves_no_entry(no_schedules):
    enqueue(task(name="tests.once_at_a_time", unique=True)(rest))
    schedule = Schedule.objects.create(
        name="night", task="tests.once_at_a_time", cron="@daily"
    )
    refused("schedules", "run", "night")
    client = operator("view_schedule", "run_schedule")
    client.post(f"/admin/pgjobs/schedule/run_now/{schedule.pk}/", {})
    assert Job.objects.count() == 1
    assert not AuditEntry.objects.exists()
