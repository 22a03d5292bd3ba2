"""`jobs tail`: the log of a job, as it grows."""

from io import StringIO

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.utils import timezone

from pgjobs.features.operating import log_lines
from pgjobs.features.operating.log_lines import added, in_local_time
from pgjobs.models import Job, Progress
from tests.operators import make_job

pytestmark = pytest.mark.django_db

LINES = [f"2026-11-27 10:00:0{n}.000+00:00 line {n}\n" for n in range(5)]


def log_of(job: Job, *lines: str) -> None:
    values = {"log": "".join(lines), "updated_at": timezone.now()}
    Progress.objects.update_or_create(pk=job.pk, defaults=values)


def tailed(job: Job, *options: str) -> tuple[str, str]:
    output, errors = StringIO(), StringIO()
    call_command("jobs", "tail", str(job.pk), *options, stdout=output, stderr=errors)
    return output.getvalue(), errors.getvalue()


def test_lines_that_come_are_printed_until_the_job_ends(monkeypatch):
    job = make_job("RUNNING")
    log_of(job, *LINES[:1])
    happenings = iter(
        [
            lambda: log_of(job, *LINES[:3]),
            lambda: None,
            lambda: Job.objects.filter(pk=job.pk).succeed(),
            lambda: log_of(job, *LINES[:4]),  # stored after the end
        ]
    )
    monkeypatch.setattr(log_lines, "sleep", lambda seconds: next(happenings)())
    output, errors = tailed(job)
    assert [line[-6:] for line in output.splitlines()] == [
        "line 0",
        "line 1",
        "line 2",
        "line 3",
    ]
    assert errors == f"Job {job.pk} is SUCCESSFUL.\n"


def test_log_of_a_job_that_has_ended_is_printed_at_once():
    job = make_job("FAILED")
    log_of(job, *LINES)
    output, errors = tailed(job, "--lines", "2")
    assert [line[-6:] for line in output.splitlines()] == ["line 3", "line 4"]
    assert errors == f"Job {job.pk} is FAILED.\n"


def test_job_without_a_log_is_said_to_have_none():
    job = make_job("FAILED")
    assert tailed(job) == ("", f"Job {job.pk} is FAILED, and has no log.\n")


def test_job_that_there_is_not_is_refused():
    with pytest.raises(CommandError, match="There is no job 1234567") as caught:
        call_command("jobs", "tail", "1234567")
    assert caught.value.returncode == 1


def test_end_of_a_long_log_is_found_when_its_beginning_was_dropped():
    assert added("a\nb\n", "a\nb\nc\n") == "c\n"
    assert added("a\nb\nc\n", "b\nc\nd\n") == "b\nc\nd\n"
    long = "".join(f"line {n}\n" for n in range(1_000))
    assert added(long, long[500:] + "new\n") == "new\n"
    assert added("", "first\n") == "first\n"


def test_times_are_those_of_the_clock_here(settings):
    settings.TIME_ZONE = "Europe/Berlin"
    assert in_local_time(LINES[0]) == "11:00:00.000 line 0\n"
    assert in_local_time("no time\n") == "no time\n"
