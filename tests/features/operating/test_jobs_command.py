"""The command `jobs`: the same filters as the admin's list, for a terminal."""

import json
import re
import sys
import zlib
from io import StringIO

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.utils import timezone

from pgjobs.features.operating import choosing
from pgjobs.models import AuditEntry, ErrorGroup, Job, Progress, Schedule
from tests.features.operating.test_jobstatus import terminal  # noqa: F401
from tests.operators import insert, make_job, make_worker, status_of

pytestmark = pytest.mark.django_db


def run(*arguments: str) -> str:
    output = StringIO()
    call_command("jobs", *arguments, stdout=output, no_color=True)
    return output.getvalue()


def refused(*arguments: str) -> str:
    with pytest.raises(CommandError) as raised:
        run(*arguments)
    return str(raised.value)


def listed(*arguments: str) -> list[int]:
    return [row["id"] for row in json.loads(run("list", "--json", *arguments))]


def failed_of(exception_class: str, **columns) -> Job:
    group = zlib.crc32(exception_class.encode())
    ErrorGroup.objects.get_or_create(
        id=group, defaults={"exception_class": exception_class}
    )
    job = make_job(error_group=group, **columns)
    job.attempts_made.create(
        life=1,
        number=1,
        worker_name="machine",
        started_at="2026-01-01T00:00:00Z",
        finished_at="2026-01-01T00:00:01Z",
        outcome="FAILED",
        exception_class=exception_class,
        traceback="Traceback\n  \x1b[31mline 7",
    )
    return job


# List


def test_list_shows_the_newest_jobs_with_their_reasons():
    make_job(reason="card declined")
    make_job("READY")
    first, second = run("list").splitlines()[1:3]
    assert "READY" in first
    assert "no worker is alive" in first
    assert "FAILED" in second
    assert "card declined" in second


def test_list_says_that_there_are_more_and_that_none_match():
    for _ in range(3):
        make_job()
    output, errors = told("list", "--limit", "2")
    assert errors == "There are more than 2: --limit shows more.\n"
    assert "more" not in output
    assert told("list", "--limit", "3")[1] == ""
    assert "No jobs match." in run("list", "--status", "running")


def test_filters_are_those_of_the_list_in_the_admin():
    old = insert(status="'FAILED'", finished_at="now() - interval '2 hours'")
    job = failed_of("builtins.OSError", kwargs={"customer_id": 42}, reason="no route")
    assert listed() == [old, job.pk]
    assert listed("--status", "failed", "--since", "1h") == [job.pk]
    assert listed("--error", "OSError") == [job.pk]
    assert listed("--args", "customer_id=42") == [job.pk]
    assert listed("--args", "customer_id=43") == []
    assert listed("--reason", "NO ROUTE") == [job.pk]
    assert listed("--task", "tests.noop", "--queue", "default") == [old, job.pk]
    assert listed(str(old)) == [old]


def test_running_jobs_are_found_by_the_name_of_their_worker():
    job = make_job("RUNNING", worker_id=make_worker("machine").pk)
    make_job("RUNNING")
    assert listed("--worker", "machine") == [job.pk]
    assert "There is no worker 'other'." in refused("list", "--worker", "other")


def test_secrets_are_masked():
    job = make_job(kwargs={"password": "hunter2"})
    assert "hunter2" not in run("list", "--json") + run("show", str(job.pk))


@pytest.mark.parametrize(
    "filters",
    [
        ("--status", "nonsense"),
        ("--since", "soon"),
        ("--args", "customer_id"),
        ("--batch", "x"),
        ("--task", "\0"),
        ("--reason", "\udc80"),
    ],
)
def test_filter_that_cannot_be_read_is_refused_by_its_name(filters):
    assert refused("list", *filters).startswith(f"{filters[0]}: ")


@pytest.mark.parametrize("option", choosing.OPTIONS.values())
def test_filter_without_a_text_is_refused(option):
    """A script whose variable is empty must not mean every job."""
    job = make_job(reason="no route")
    assert refused("delete", option[0], "") == f"{option[0]}: must not be empty."
    assert refused("retry", option[0], " ") == f"{option[0]}: must not be empty."
    assert status_of(job) == "FAILED"


def test_repeated_names_mean_the_jobs_of_each():
    one, other = make_job("READY"), make_job("READY", task="tests.add", queue_name="b")
    make_job("READY", task="tests.echo", queue_name="c")
    ids = [one.pk, other.pk]
    assert listed("--task", "tests.noop", "--task", "tests.add") == ids
    assert listed("--queue", "default", "--queue", "b") == ids
    failed = make_job("FAILED")
    assert listed("--status", "failed", "--status", "successful") == [failed.pk]


# Show


def test_show_prints_all_that_is_known_of_a_job():
    job = failed_of("builtins.OSError", kwargs={"a": 1}, reason="broken\x1b[1m")
    text = run("show", str(job.pk))
    assert f"tests.noop #{job.pk} FAILED" in text
    assert '"a": 1' in text
    assert "attempt 1 of life 1: FAILED after 1.000 s" in text
    assert "line 7" in text
    assert "\x1b" not in text


def test_show_prints_what_the_row_holds_and_the_newest_attempt_first():
    job = failed_of(
        "builtins.OSError",
        keys={"lock": "erp-7", "limit": {"key": "erp", "most": 2}},
        unique_key="order-7",
        unique_for="unfinished",
        max_attempts=5,
        attempts=2,
        failures=2,
    )
    job.attempts_made.create(
        life=1,
        number=2,
        worker_name="web1",
        started_at="2026-01-01T00:01:00Z",
        finished_at="2026-01-01T00:01:01Z",
        outcome="FAILED",
    )
    Progress.objects.create(
        job=job,
        done=7,
        total=100,
        message="half",
        log="2026-01-01 00:00:00.123+00:00 sent\n",
        updated_at=timezone.now(),
    )
    job.steps.create(
        life=1,
        name="charge",
        return_value={"token": "hunter2"},
        attempt=1,
        finished_at=timezone.now(),
    )
    AuditEntry.objects.create(
        actor="ada@vm", via="page", act="retry", model="job", object_id=job.pk, note="x"
    )
    text = run("show", str(job.pk))
    assert "failures: 2 of 5" in text
    assert "progress: 7 of 100 (7%), half" in text
    assert '"lock": "erp-7"' in text
    assert "unique key: order-7" in text
    assert re.search(r"charge, .*: \{", text)
    assert "retry by ada@vm" in text
    assert re.search(r"\n\d\d:00:00\.123 sent", text)  # by the clock here
    assert "hunter2" not in text
    assert text.index("attempt 2 of") < text.index("attempt 1 of")


def test_show_says_what_ran_a_success_and_its_result():
    job = make_job("SUCCESSFUL", return_value={"pages": 3}, worker_name="web4")
    Job.objects.filter(pk=job.pk).update(last_attempted_at=timezone.now(), attempts=1)
    text = run("show", str(job.pk))
    assert "worker: web4" in text
    assert '"pages": 3' in text
    assert "attempt 1 of life 1: SUCCESSFUL" in text
    shown = json.loads(run("show", str(job.pk), "--json"))
    assert (shown["return_value"], shown["worker_name"]) == ({"pages": 3}, "web4")


def test_show_prints_json_for_programs():
    job = failed_of("builtins.OSError", kwargs={"a": 1})
    shown = json.loads(run("show", str(job.pk), "--json"))
    assert shown["arguments"] == {"a": 1}
    assert shown["attempts_made"][0]["exception_class"] == "builtins.OSError"


def test_show_says_why_a_job_does_not_run():
    job = make_job("READY")
    assert "why it does not run: no worker is alive" in run("show", str(job.pk))


def test_show_refuses_an_id_that_no_job_has():
    told = refused("show", "1234567")
    assert told.startswith("There is no job 1234567. ")
    assert "keep='failed'" in told


# Acts


def test_retry_by_a_filter_means_the_failed_jobs():
    failed = failed_of("builtins.OSError")
    successful = make_job("SUCCESSFUL")
    assert run("retry", "--task", "tests.noop") == "Retried 1 job.\n"
    assert status_of(failed) == "READY"
    assert status_of(successful) == "SUCCESSFUL"
    assert run("retry", str(successful.pk)) == "Retried 1 job.\n"


def test_dry_run_counts_and_changes_nothing():
    job = make_job()
    make_job("RUNNING")
    said = run("delete", "--task", "tests.noop", "--dry-run")
    assert said == "Would delete 1 job.\n  1 FAILED\n  1 RUNNING (skipped)\n"
    assert status_of(job) == "FAILED"
    counted = json.loads(run("retry", "--status", "failed", "--dry-run", "--json"))
    assert counted == {"would_change": 1, "statuses": {"FAILED": 1}}


def test_cancel_and_fail_give_the_reason():
    first, second = make_job("READY"), make_job("READY")
    run("cancel", str(first.pk), "--because", "not needed")
    run("fail", str(second.pk), "--because", "broken")
    reasons = list(Job.objects.order_by("pk").values_list("status", "reason"))
    assert reasons == [("CANCELLED", "not needed"), ("FAILED", "broken")]


def test_run_and_delete_say_what_they_skipped():
    job = make_job("SCHEDULED")
    make_job()
    assert run("run", "--task", "tests.noop") == "Made due: 1 job. Skipped 1.\n"
    assert status_of(job) == "READY"
    assert json.loads(run("delete", "--status", "failed", "--json")) == {
        "changed": 1,
        "skipped": 0,
    }
    assert Job.objects.count() == 1


def test_act_wants_to_know_which_jobs():
    job = make_job()
    assert refused("retry").startswith("Say which jobs to retry")
    assert status_of(job) == "FAILED"


class Terminal(StringIO):
    """A terminal at which a person types."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("typed", "status"), [("y\n", "READY"), ("\n", "FAILED")])
def test_person_at_a_terminal_is_asked_before_a_filter_acts(typed, status, monkeypatch):
    job = make_job()
    monkeypatch.setattr(sys, "stdin", Terminal(typed))
    act = ("retry", "--task", "tests.noop")
    if status == "FAILED":
        assert refused(*act) == "Nothing was changed."
    else:
        assert "Would retry 1 job." in run(*act)
    assert status_of(job) == status


def test_end_of_the_input_is_no(monkeypatch):
    job = make_job()
    monkeypatch.setattr(sys, "stdin", Terminal(""))
    assert refused("delete", "--task", "tests.noop") == "Nothing was changed."
    assert status_of(job) == "FAILED"


@pytest.mark.parametrize(
    "how", ["ids", "--no-input", "--noinput", "--json", "a script"]
)
def test_ids_scripts_and_an_option_are_not_asked(how, monkeypatch):
    job = make_job()
    if how != "a script":
        monkeypatch.setattr(sys, "stdin", Terminal(""))
    chosen = (str(job.pk),) if how == "ids" else ("--task", "tests.noop")
    run("retry", *chosen, *([how] if how.startswith("-") else []))
    assert status_of(job) == "READY"


# Names and ids that there are not


def told(*arguments: str) -> tuple[str, str]:
    """Return what a command writes for programs, and for people."""
    output, errors = StringIO(), StringIO()
    call_command("jobs", *arguments, stdout=output, stderr=errors, no_color=True)
    return output.getvalue(), errors.getvalue()


@pytest.mark.parametrize("verb", ["retry", "cancel", "fail", "delete", "run"])
@pytest.mark.parametrize("options", [(), ("--dry-run",), ("--json",)])
def test_act_on_an_id_that_there_is_not_changes_nothing_and_fails(verb, options):
    job = make_job("SCHEDULED" if verb in ("cancel", "fail", "run") else "FAILED")
    before = status_of(job)
    with pytest.raises(CommandError, match="There is no job 1234567") as caught:
        run(verb, str(job.pk), "1234567", *options)
    assert caught.value.returncode == 1
    assert status_of(job) == before


def test_task_that_there_is_not_is_refused_with_the_one_that_was_meant():
    make_job(task="shop.charge_card")
    for verb in (("retry",), ("retry", "--dry-run"), ("list",), ("list", "--json")):
        with pytest.raises(CommandError) as caught:
            run(*verb, "--task", "shop.charge_car")
        assert caught.value.returncode == 1
        assert str(caught.value) == (
            "There is no task 'shop.charge_car'. Did you mean 'shop.charge_card'?"
        )


def test_task_without_jobs_is_no_wrong_name():
    assert told("retry", "--task", "tests.noop") == ("Retried 0 jobs.\n", "")


def test_programs_read_json_before_a_name_is_refused():
    output = StringIO()
    with pytest.raises(CommandError, match=r"'tests\.noop'"):
        call_command("jobs", "retry", "--task", "tests.noob", "--json", stdout=output)
    assert json.loads(output.getvalue()) == {"changed": 0, "skipped": 0}


@pytest.mark.parametrize("option", ["--queue", "--worker", "--schedule"])
def test_other_names_that_there_are_not_are_refused_too(option):
    make_worker("mail")
    make_job(queue_name="mail")
    Schedule.objects.all().delete()
    Schedule.objects.create(name="mail", task="tests.noop", cron="0 3 * * *")
    noun = option.removeprefix("--")
    assert refused("list", option, "mial") == (
        f"There is no {noun} 'mial'. Did you mean 'mail'?"
    )


def test_error_that_no_job_failed_with_is_refused_with_those_that_there_are():
    for name in ("urllib3.ConnectionError", "urllib3.ConnectionError", "ValueError"):
        failed_of(name)
    assert refused("retry", "--error", "ConnectionErr") == (
        "No job failed with 'ConnectionErr'. Did you mean 'urllib3.ConnectionError'? "
        "The latest failed with: urllib3.ConnectionError (2), ValueError (1)."
    )
    assert told("retry", "--error", "ValueError") == ("Retried 1 job.\n", "")
    assert told("retry", "--error", "ValueError")[1] == ""


# On a terminal


def test_table_on_a_terminal_is_as_wide_as_that(terminal):  # noqa: F811
    make_job(reason="OSError: " + "declined " * 20)
    call_command("jobs", "list", stdout=terminal)
    _, line = terminal.getvalue().splitlines()
    assert len(line) == 80
    assert line.endswith("…")
    assert len(run("list").splitlines()[1]) > 80  # for programs


def test_long_name_loses_its_middle_on_a_terminal(terminal):  # noqa: F811
    make_job(task="shop." + "b" * 90 + "charge", queue_name="q" * 90, reason="OSError")
    call_command("jobs", "list", stdout=terminal)
    _, line = terminal.getvalue().splitlines()
    assert len(line) <= 80
    assert re.search(r"  shop\.b+…b*charge  q+…q+  .*  OSError$", line)


def test_row_on_a_very_narrow_terminal_takes_several_lines(terminal, monkeypatch):  # noqa: F811
    monkeypatch.setenv("COLUMNS", "50")
    make_job(task="a." + "b" * 90, reason="OSError")
    call_command("jobs", "list", stdout=terminal)
    assert "  task: a." + "b" * 50 in terminal.getvalue()
    assert "  reason: OSError" in terminal.getvalue()


def test_terminal_is_told_how_long_ago_and_a_pipe_is_told_when(terminal):  # noqa: F811
    insert(status="'FAILED'", finished_at="now() - interval '5 minutes'")
    call_command("jobs", "list", stdout=terminal)
    assert "  5 min" in terminal.getvalue()
    assert re.search(r"\d\d:\d\d:\d\d", run("list"))


def test_command_alone_prints_its_help():
    text = run()
    assert text.startswith("usage: ")
    assert "manage.py jobs show 4711" in text


# The audit trail


def test_acts_are_audited_with_what_chose_the_jobs():
    make_job("FAILED")
    run("retry", "--status", "failed", "--dry-run")
    assert not AuditEntry.objects.exists()
    run("retry", "--task", "tests.noop")
    entry = AuditEntry.objects.get()
    assert (entry.via, entry.act, entry.model) == ("command", "retry", "job")
    assert (entry.number, entry.chosen) == (1, "--task tests.noop")
    assert "@" in entry.actor
