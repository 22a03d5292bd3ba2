"""jobstatus for monitoring, and what `schedules` does besides listing."""

import json
import time
from io import StringIO

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from pgjobs.models import Job, Queue, Schedule
from tests.operators import insert, make_job, make_worker

pytestmark = pytest.mark.django_db


def run(*arguments: str) -> str:
    output = StringIO()
    call_command(*arguments, stdout=output, no_color=True)
    return output.getvalue()


def refused(*arguments: str) -> str:
    with pytest.raises(CommandError) as raised:
        run(*arguments)
    return str(raised.value)


# Limits of a monitoring system


def test_ready_job_that_waits_longer_than_the_limit_is_a_problem():
    make_worker(queues="")
    insert(enqueued_at="now() - interval '50 seconds'")
    problem = refused("jobstatus", "--check", "--max-latency", "40s")
    assert "queue default has waited 5" in problem
    assert run("jobstatus", "--check", "--max-latency", "5m") == "No problems.\n"
    Queue.objects.create(name="default").pause()
    assert run("jobstatus", "--check", "--max-latency", "40s") == "No problems.\n"


def test_more_failed_jobs_than_the_limit_are_a_problem():
    for hours in (0, 0, 2, 2):
        insert(status="'FAILED'", finished_at=f"now() - {hours} * interval '1 hour'")
    said = refused("jobstatus", "--check", "--max-failed", "1")
    assert said == "More than 1 job failed in the last 3600 s."
    assert run("jobstatus", "--check", "--max-failed", "2") == "No problems.\n"
    refused("jobstatus", "--check", "--max-failed", "3", "--within", "1d")


def test_problems_of_limits_are_in_the_json():
    make_job()
    state = json.loads(run("jobstatus", "--json", "--max-failed", "0"))
    assert state["problems"] == ["More than 0 jobs failed in the last 3600 s."]


def test_watching_prints_the_state_until_it_is_interrupted(monkeypatch):
    pauses = []

    def sleep(seconds):
        pauses.append(seconds)
        if len(pauses) == 2:
            raise KeyboardInterrupt
        make_job("READY", queue_name="later")

    monkeypatch.setattr(time, "sleep", sleep)
    text = run("jobstatus", "--watch", "5s")
    assert pauses == [5, 5]
    assert text.count("Finished and kept") == 2
    assert "later" not in text.split("Finished and kept")[0]
    assert "later" in text.split("Finished and kept")[1]


# Schedules


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


def test_schedules_are_listed_by_name(schedule):
    Schedule.objects.create(name="hourly", task="tests.noop", cron="@hourly")
    assert "hourly" in run("schedules")
    assert "hourly" not in run("schedules", "list", "nightly")
