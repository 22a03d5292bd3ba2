"""jobstatus for monitoring, and what `schedules` does besides listing."""

import json
from collections.abc import Callable
from datetime import timedelta
from io import StringIO
from types import SimpleNamespace

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.utils import timezone

from pgjobs import publish
from pgjobs.management.commands import jobstatus
from pgjobs.models import Event, Job, Queue, Schedule
from pgjobs.models.event import Delivery
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
    assert problem.endswith(" s, more than 40 s.")
    assert run("jobstatus", "--check", "--max-latency", "5m") == "No problems.\n"
    Queue.objects.create(name="default").pause()
    assert run("jobstatus", "--check", "--max-latency", "40s") == "No problems.\n"


def test_more_failed_jobs_than_the_limit_are_a_problem():
    for hours in (0, 0, 2, 2):
        insert(status="'FAILED'", finished_at=f"now() - {hours} * interval '1 hour'")
    said = refused("jobstatus", "--check", "--max-failed", "1")
    assert said == "More than 1 job failed in the last 1 h."
    assert run("jobstatus", "--check", "--max-failed", "2") == "No problems.\n"
    refused("jobstatus", "--check", "--max-failed", "3", "--within", "1d")


def test_more_dead_letters_or_unhandled_events_than_the_limit_are_a_problem():
    event = publish("tests.watched", {})
    Event.objects.filter(pk=event.pk).update(handlers=1)
    Delivery.objects.create(job=make_job(), event=event, task="tests.noop")
    publish("tests.nobody_handles_this", {})
    assert refused("jobstatus", "--check", "--max-dead", "0").splitlines() == [
        "There are more than 0 dead letters.",
        "There are more than 0 unhandled events.",
    ]
    assert run("jobstatus", "--check", "--max-dead", "1") == "No problems.\n"
    assert run("jobstatus", "--check") == "No problems.\n"


def test_problems_of_limits_are_in_the_json():
    make_job()
    state = json.loads(run("jobstatus", "--json", "--max-failed", "0"))
    assert state["problems"] == ["More than 0 jobs failed in the last 1 h."]


def sleep_by(monkeypatch, sleep: Callable[[int], None]) -> None:
    """Let the command sleep by this; other threads of the tests sleep as ever."""
    monkeypatch.setattr(jobstatus, "time", SimpleNamespace(sleep=sleep))


def test_watching_prints_the_state_until_it_is_interrupted(monkeypatch):
    pauses = []

    def sleep(seconds):
        pauses.append(seconds)
        if len(pauses) == 2:
            raise KeyboardInterrupt
        make_job("READY", queue_name="later")

    sleep_by(monkeypatch, sleep)
    text = run("jobstatus", "--watch", "5s")
    assert pauses == [5, 5]
    assert text.count("Finished and kept") == 2
    assert "later" not in text.split("Finished and kept")[0]
    assert "later" in text.split("Finished and kept")[1]


@pytest.fixture
def terminal(monkeypatch):
    """Return a file that is a terminal of 80 columns and 10 lines."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "10")
    return jobstatus.Screen()


def test_watching_shows_what_fits_on_the_screen_the_problems_first(
    monkeypatch, terminal
):
    long_ago = timezone.now() - timedelta(hours=1)
    for number in range(20):
        make_job("READY", queue_name=f"queue-{number}", enqueued_at=long_ago)
    sleep_by(monkeypatch, lambda seconds: interrupt())
    call_command("jobstatus", "--watch", stdout=terminal)
    first, *lines = terminal.getvalue().splitlines()
    assert "no worker" in first
    assert len(lines) == 8
    assert lines[-1].endswith("more lines")


def interrupt():
    raise KeyboardInterrupt


def test_table_on_a_terminal_is_as_wide_as_that(terminal):
    make_job(reason="OSError: " + "declined " * 20)
    call_command("jobs", "list", stdout=terminal)
    _, line = terminal.getvalue().splitlines()
    assert len(line) == 80
    assert line.endswith("…")
    assert len(run("jobs", "list").splitlines()[1]) > 80  # for programs


def test_row_that_cannot_fit_on_a_terminal_takes_several_lines(terminal):
    make_job(task="a." + "b" * 90, reason="OSError")
    call_command("jobs", "list", stdout=terminal)
    assert "  task: a." + "b" * 50 in terminal.getvalue()
    assert "  reason: OSError" in terminal.getvalue()


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


def test_next_run_of_a_cron_is_in_its_own_zone(schedule):
    schedule.cron, schedule.timezone = "0 3 * * *", "Asia/Tokyo"
    schedule.plan_again(timezone.now())
    schedule.save()
    assert " 03:00:00 JST " in run("schedules")


def test_schedules_are_listed_by_name(schedule):
    Schedule.objects.create(name="hourly", task="tests.noop", cron="@hourly")
    assert "hourly" in run("schedules")
    assert "hourly" not in run("schedules", "list", "nightly")
