"""What runjobs prints and logs: banner, lines, summary."""

import io
import logging
import re

import pytest
from django.core.management import call_command
from django.core.management.base import OutputWrapper
from django.core.management.color import no_style
from django.db import connection

from pgjobs import Cancel, Retry, Snooze, current_job, enqueue, task
from pgjobs.management import running
from pgjobs.management.parameters import memory, queue_names, seconds
from pgjobs.management.running import ConsoleReporter, banner
from pgjobs.models import Job
from pgjobs.worker import WorkerOptions
from tests import tasks
from tests.processes import SOON, WorkerThread, run, shared_queue, wait_for

pytestmark = shared_queue

TIME = r"\d\d:\d\d:\d\d"


def printed(*arguments: str, **options) -> list[str]:
    """Drain by command and return the lines that it printed."""
    out = io.StringIO()
    call_command("runjobs", "--drain", *arguments, stdout=out, **options)
    return out.getvalue().splitlines()


def lines_of(job: Job, *arguments: str) -> list[str]:
    """Return what is printed of the job's attempts, without the time."""
    lines = [line for line in printed(*arguments) if f"#{job.pk} " in line]
    assert all(re.match(rf"{TIME} ", line) for line in lines)
    return [line.split(maxsplit=1)[1] for line in lines]


# Lines


def test_start_of_a_job_is_a_line_at_a_higher_verbosity():
    job = enqueue(tasks.noop)
    first, second = lines_of(job, "-v", "2")
    assert first == f"tests.noop #{job.pk} RUNNING"
    assert " SUCCESSFUL " in second


def test_job_that_still_runs_is_a_line_each_minute(monkeypatch):
    monkeypatch.setattr(running, "REMINDER_SECONDS", 0.2)
    job = enqueue(tasks.sleep, 1)
    reminders = [line for line in lines_of(job, "-v", "2") if " RUNNING for " in line]
    assert len(reminders) > 1
    assert re.fullmatch(rf"tests.sleep #{job.pk} RUNNING for \d+ s", reminders[0])


def test_success_is_a_line_with_the_seconds_it_took():
    job = enqueue(tasks.sleep, 0.2)
    (line,) = lines_of(job)
    start, duration, unit = line.rsplit(maxsplit=2)
    assert start == f"tests.sleep #{job.pk} SUCCESSFUL"
    assert 0.2 <= float(duration) < 60
    assert unit == "s"


def test_failure_says_why():
    job = enqueue(tasks.fail_with, "no")
    (line,) = lines_of(job)
    expected = rf"tests.fail_with #{job.pk} FAILED [\d.]+ s \(attempt 1\): ValueError: "
    assert re.fullmatch(f"{expected}no", line)


@pytest.mark.parametrize(
    ("verbosity", "is_debug", "number"),
    [("1", False, 0), ("1", True, 1), ("2", False, 1)],
)
def test_traceback_is_printed_below_a_failure_to_developers(
    verbosity, is_debug, number, settings
):
    settings.DEBUG = is_debug
    enqueue(tasks.fail_with, "no\x1b[31m")
    lines = printed("-v", verbosity)
    assert lines.count("Traceback (most recent call last):") == number
    assert lines.count("ValueError: no\\u001b[31m") == number


@task(max_attempts=3)
def do_everything():
    match current_job().attempt:
        case 1:
            raise Retry(after=0, reason="later")
        case 2:
            raise Snooze(0)
        case 3:
            raise Cancel("not needed")


def test_attempts_that_the_job_survives_are_lines_too():
    job = enqueue(do_everything)
    said = [re.sub(r" [\d.]+ s", "", line, count=1) for line in lines_of(job)]
    start = f"tests.do_everything #{job.pk}"
    assert said == [
        f"{start} RETRY (attempt 1): later",
        f"{start} SNOOZED: The task snoozed for 0 s.",
        f"{start} CANCELLED: not needed",
    ]


def test_summary_counts_failures_cancellations_and_retries():
    enqueue(do_everything)
    enqueue(tasks.fail_with, "no")
    enqueue(tasks.noop)
    assert printed()[-2:] == [
        "Completed 3 jobs",
        "Failed: 1. Cancelled: 1. Attempts to be retried: 1.",
    ]


def test_reason_cannot_break_the_line_or_the_terminal():
    job = enqueue(tasks.fail_with, "a\nb\x1b[31m\x07 \u202e c" + "x" * 10_000)
    (line,) = lines_of(job)
    assert r"ValueError: a b\x1b[31m\x07 \u202e cxxx" in line
    assert len(line) < 400


def test_output_that_is_not_unicode_is_no_trouble():
    job = enqueue(tasks.fail_with, "süß")
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    call_command("runjobs", "--drain", stdout=out)
    job.refresh_from_db()
    assert job.status == "FAILED"
    assert rb"ValueError: s\xfc\xdf" in out.buffer.getvalue()


class ClosedPipe(io.StringIO):
    def write(self, text):
        raise BrokenPipeError


def test_reader_that_stops_early_does_not_stop_the_worker(caplog):
    jobs = [enqueue(tasks.noop) for _ in range(3)]
    call_command("runjobs", "--drain", stdout=OutputWrapper(ClosedPipe()))
    for job in jobs:
        job.refresh_from_db()
        assert job.status == "SUCCESSFUL"
    assert caplog.text.count("Nothing can be printed any more") == 1


def test_failure_is_logged_as_an_error_and_all_else_as_information(caplog):
    caplog.set_level(logging.INFO, logger="pgjobs")
    failed = run(tasks.fail_with, "no")
    retried = run(do_everything)
    told = {(r.job_id, r.status): r for r in caplog.records if hasattr(r, "status")}
    record = told.pop((failed.pk, "FAILED"))
    assert record.levelno == logging.ERROR
    assert record.getMessage().endswith("attempt=1 FAILED: ValueError: no")
    assert {each.levelno for each in told.values()} == {logging.INFO}
    assert {status for id, status in told if id == retried.pk} == {"READY", "CANCELLED"}


@pytest.mark.parametrize("verbosity", ["0", "1"])
def test_failure_is_printed_once_where_logging_is_not_configured(
    start_worker, verbosity
):
    enqueue(tasks.fail_with, "no")
    worker = start_worker("--drain", "-v", verbosity, registered=False)
    assert worker.wait() == 0
    assert worker.printed.count("FAILED") == 1
    # The log has the exception, too; the line of a job does not.
    assert worker.printed.count("Traceback") == (verbosity == "0")


def test_line_is_printed_soon_although_nothing_follows(settings):
    settings.PGJOBS = {"HEARTBEAT_INTERVAL": 60, "LEASE_DURATION": 200}
    out = io.StringIO()
    reporter = ConsoleReporter(OutputWrapper(out), no_style(), 1, "")
    with WorkerThread(observer=reporter, slots=1, poll=600):
        job = [enqueue(tasks.noop) for _ in range(3)][-1]
        wait_for(lambda: f"#{job.pk} SUCCESSFUL" in out.getvalue(), timeout=SOON)


# Banner


def test_banner_says_what_the_worker_does_and_how_to_stop_it():
    lines = printed("--name", "me", "--queues", "b,a", "--poll", "90s", "--threads=2")
    database = lines[1].removeprefix("Database: ")
    assert lines[0] == "Worker me: 2 slots, queues: b, a."
    assert database.startswith("default (")
    assert database.endswith("; notified by LISTEN, and polls every 90 s.")
    assert re.fullmatch(r"Tasks: \d+ found\.", lines[2])
    assert lines[3] == "Stop with Ctrl-C; a second time to stop at once."


def test_banner_names_the_tasks_at_a_higher_verbosity():
    lines = printed("-v", "2")
    (of_app,) = [line for line in lines if line.startswith("- tests: ")]
    assert "noop" in of_app.removeprefix("- tests: ").split(", ")
    assert not [line for line in printed() if line.startswith("- tests: ")]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "queues: all."),
        ({"excluded": ("a", "b")}, "queues: all but a, b."),
        ({"listen": False}, "; polls every"),
        ({"slots": 1}, "1 slot,"),
    ],
)
def test_banner_gives_options_in_words(options, expected):
    assert expected in "\n".join(banner(WorkerOptions(**options), "Worker", 1))


def test_banner_keeps_secrets(monkeypatch):
    settings = connection.settings_dict
    monkeypatch.setitem(settings, "PASSWORD", "pa55")
    monkeypatch.setitem(settings, "HOST", "db.example")
    said = "\n".join(banner(WorkerOptions(), "Worker", 2))
    assert "db.example" in said
    assert "pa55" not in said


# Parameters


@pytest.mark.parametrize(
    ("text", "size"),
    [("300MB", 300_000_000), ("1.5GB", 1_500_000_000), ("2 MiB", 2**21), ("1KB", 1000)],
)
def test_sizes_have_units(text, size):
    assert memory(text) == size


@pytest.mark.parametrize(
    ("text", "expected"),
    [("5", 5), ("0.5", 0.5), ("90s", 90), ("2m", 120), ("1h", 3600)],
)
def test_durations_may_have_units(text, expected):
    assert seconds(text) == expected


def test_spaces_around_the_commas_between_queues_do_not_matter():
    assert queue_names("mail, reports ,x") == ("mail", "reports", "x")
