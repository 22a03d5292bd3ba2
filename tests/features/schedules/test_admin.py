"""The admin of schedules, over HTTP; the command that lists them; what is checked."""

import json
from datetime import timedelta
from typing import Annotated

import pytest
from django import forms
from django.contrib.admin.models import LogEntry
from django.core.management import call_command
from pydantic import Field

from pgjobs import schedule, task
from pgjobs.base.queue_database import database_time
from pgjobs.features.schedules.checks import check_schedules
from pgjobs.features.schedules.declare import run_now
from pgjobs.models import Job, Schedule, Tick
from pgjobs.reports.status import overview
from tests.operators import LIST as JOBS
from tests.operators import found, make_job, messages_of, operator, text_of
from tests.operators import page_of as page_of_job
from tests.support.declared import store_schedules

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_schedules")]

LIST = "/admin/pgjobs/schedule/"
HOUR = timedelta(hours=1)
ALL = (
    "view_schedule",
    "change_schedule",
    "add_schedule",
    "delete_schedule",
    "run_schedule",
    "pause_schedule",
    "view_job_arguments",
)
FIELDS = {
    "name": "nightly",
    "task": "tests.add",
    "argument-a": "1",
    "argument-b": "",
    "every": "",
    "cron": "0 3 * * mon-fri",
    "timezone": "Europe/Berlin",
    "anchor": "start",
    "overlap": "skip",
    "catch_up": "latest",
    "jitter": "0",
    "start_at_0": "",
    "start_at_1": "",
    "end_at_0": "",
    "end_at_1": "",
}


def report(region: str = "all"):
    pass


def even(number: Annotated[int, Field(multiple_of=2)]):
    pass


def login(user: str, password: str):
    pass


@pytest.fixture
def declared() -> Schedule:
    task(every=HOUR)(report)
    store_schedules("default")
    return Schedule.objects.get(name="tests.report")


def page_of(made: Schedule) -> str:
    return f"{LIST}{made.pk}/change/"


def test_schedule_is_made_by_hand():
    client = operator(*ALL)
    response = client.post(f"{LIST}add/", FIELDS)
    assert response.status_code == 302, text_of(response)
    made = Schedule.objects.get()
    assert made.kwargs == {"a": 1, "b": 1}
    assert made.in_words == "At 03:00 on Monday through Friday (Europe/Berlin)"
    assert made.next_run_at > database_time("default")
    assert made.declared is None
    assert "At 03:00 on Monday" in text_of(client.get(LIST))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"cron": "60 * * * *"}, "not a cron expression"),
        ({"cron": "@reboot"}, "not a cron expression"),
        ({"cron": "0 0 31 2 *"}, "it never fires"),
        ({"cron": "* " * 5_000}, "at most 200"),
        ({"cron": ""}, "Give an interval or a cron."),
        ({"every": "01:00:00"}, "not both"),
        ({"every": "0.5", "cron": ""}, "takes 1 s to"),
        ({"timezone": "Mars/Olympus"}, "No time zone"),
        ({"anchor": "end"}, "Only an interval"),
        ({"jitter": "-5"}, "A jitter takes 0 s"),
        ({"argument-a": "x"}, "Enter a whole number"),
        ({"argument-a": ""}, "This field is required"),
        ({"argument-a": "9" * 5_000}, "whole number"),
        ({"task": "os.system"}, "Select a valid choice"),
        ({"name": " "}, "required"),
        ({"start_at_0": "2026-05-02", "start_at_1": "0:00",
          "end_at_0": "2026-05-01", "end_at_1": "0:00"}, "later than the start"),
    ],
)  # fmt: skip
def test_what_cannot_work_is_a_form_error(changes, told):
    response = operator(*ALL).post(f"{LIST}add/", FIELDS | changes)
    assert response.status_code == 200
    assert told in text_of(response).replace("&#x27;", "'")
    assert not Schedule.objects.exists()


def test_name_that_is_taken_is_a_form_error():
    client = operator(*ALL)
    client.post(f"{LIST}add/", FIELDS)
    assert "already exists" in text_of(client.post(f"{LIST}add/", FIELDS))


def test_change_by_hand_says_that_it_differs_from_the_code(declared):
    client = operator(*ALL)
    fields = FIELDS | {"cron": "", "every": "00:05:00", "timezone": "UTC"}
    fields["argument-region"] = "north"
    assert client.post(page_of(declared), fields).status_code == 302
    store_schedules("default")
    changed = Schedule.objects.get()
    assert changed.every == timedelta(minutes=5)
    assert changed.name == "tests.report"  # not up to people
    assert changed.next_run_at < database_time("default") + timedelta(minutes=5)
    page = text_of(client.get(page_of(declared)))
    assert "differs from the code" in page
    assert "every: the code says 3600.0, here it is 300.0" in page
    assert "time zone: " not in page
    assert "The arguments are not those of the code" in page


def test_change_does_not_undo_what_a_worker_did_meanwhile(declared, monkeypatch):
    client = operator(*ALL)
    fields = FIELDS | {"cron": "", "every": "01:00:00", "timezone": "UTC"}
    fields |= {"overlap": "allow", "argument-region": "all"}
    clean = Schedule.full_clean

    def and_fire(self, *args, **kwargs):
        Schedule.objects.update(run_count=41, next_run_at=self.next_run_at + HOUR)
        return clean(self, *args, **kwargs)

    monkeypatch.setattr(Schedule, "full_clean", and_fire)
    client.post(page_of(declared), fields)
    after = Schedule.objects.get()
    assert (after.overlap, after.run_count) == ("allow", 41)
    assert after.next_run_at == declared.next_run_at + HOUR


@pytest.mark.parametrize("verb", ["run_now", "pause", "resume"])
def test_button_asks_before_it_acts(declared, verb):
    if verb == "resume":
        declared.pause()
    before = Schedule.objects.values().get()
    response = operator(*ALL).get(f"{LIST}{verb}/{declared.pk}/")
    assert response.status_code == 200
    assert "tests.report" in text_of(response)
    assert (Schedule.objects.values().get(), Job.objects.count()) == (before, 0)


def test_buttons_run_pause_and_resume(declared):
    client = operator(*ALL)
    client.post(f"{LIST}run_now/{declared.pk}/")
    assert Job.objects.get().task == "tests.report"
    response = client.post(f"{LIST}pause/{declared.pk}/")
    assert messages_of(response)[-1] == "tests.report: It is paused."
    assert Schedule.objects.get().paused
    response = client.post(f"{LIST}pause/{declared.pk}/")
    assert "was not changed" in messages_of(response)[-1]
    client.post(f"{LIST}resume/{declared.pk}/")
    assert not Schedule.objects.get().paused
    assert LogEntry.objects.count() == 3


def test_button_says_which_job_holds_the_unique_key(declared):
    task(unique=True)(report)
    job = run_now(declared)
    response = operator(*ALL).post(f"{LIST}run_now/{declared.pk}/")
    assert f"Job {job.pk} (tests.report) already holds" in messages_of(response)[-1]
    assert Job.objects.count() == 1


@pytest.mark.parametrize(
    ("verb", "permission"),
    [("run_now", "run_schedule"), ("pause", "pause_schedule")],
)
def test_each_button_asks_for_a_permission_of_its_own(declared, verb, permission):
    others = [each for each in ALL if each != permission]
    url = f"{LIST}{verb}/{declared.pk}/"
    assert operator(*others).post(url).status_code == 403
    assert operator("view_schedule", permission).post(url).status_code == 302


def test_page_shows_the_next_five_runs_and_how_the_last_one_ended(declared):
    job = run_now(declared)
    job.fail("It was the rain.")
    page = text_of(operator(*ALL).get(page_of(declared)))
    assert "Every 1 hour" in page
    assert "It was the rain." in page
    assert f"/admin/pgjobs/job/{job.pk}/change/" in page
    assert len(declared.next_runs(5)) == 5


def test_form_has_a_field_for_each_argument_of_the_task():
    stored = {"name": "sum", "task": "tests.add", "kwargs": {"a": 41}}
    schedule = Schedule.objects.create(**stored, cron="0 3 * * *")
    client = operator("view_schedule", "change_schedule", "view_job_arguments")
    form = client.get(page_of(schedule)).context["adminform"].form
    assert form["argument-a"].initial == 41
    assert form["argument-b"].initial == 1
    assert isinstance(form.fields["argument-a"], forms.IntegerField)


def test_new_schedule_begins_with_its_task():
    client = operator(*ALL)
    assert 'name="argument-a"' not in text_of(client.get(f"{LIST}add/"))
    assert 'name="argument-a"' in text_of(client.get(f"{LIST}add/?task=tests.add"))
    assert operator("view_schedule").get(f"{LIST}add/").status_code == 403
    assert client.get(f"{LIST}add/?task=nobody.knows").status_code == 200


def test_schedule_of_another_task_asks_for_the_arguments_of_that_one():
    made = Schedule.objects.create(name="a", task="tests.noop", cron="0 3 * * *")
    response = operator(*ALL).post(page_of(made), FIELDS | {"argument-a": ""})
    assert 'name="argument-a"' in text_of(response)
    assert operator(*ALL).post(page_of(made), FIELDS).status_code == 302
    made.refresh_from_db()
    assert (made.task, made.kwargs) == ("tests.add", {"a": 1, "b": 1})


def test_fault_that_only_the_task_finds_stands_at_its_field():
    task(name="tests.even")(even)
    fields = FIELDS | {"task": "tests.even", "argument-number": "3"}
    response = operator(*ALL).post(f"{LIST}add/", fields)
    assert response.context["adminform"].form.errors.keys() == {"argument-number"}


def test_masked_argument_is_not_in_the_form_and_stays():
    task(name="tests.login")(login)
    stored = {"user": "ada", "password": "correct horse"}
    made = Schedule(name="a", task="tests.login", cron="0 3 * * *", kwargs=stored)
    made.save()
    client = operator(*ALL)
    assert "correct horse" not in text_of(client.get(page_of(made)))
    given = {"task": "tests.login", "argument-user": "bob", "argument-password": ""}
    assert client.post(page_of(made), FIELDS | given).status_code == 302
    made.refresh_from_db()
    assert made.kwargs == {"user": "bob", "password": "correct horse"}
    client.post(page_of(made), FIELDS | given | {"argument-password": "staple"})
    made.refresh_from_db()
    assert made.kwargs["password"] == "staple"


def test_arguments_are_shown_to_those_who_may_see_them_only(declared):
    Schedule.objects.update(kwargs={"region": "very-secret-region"})
    others = [each for each in ALL if each != "view_job_arguments"]
    for permissions in (others, ["view_schedule"]):
        page = text_of(operator(*permissions).get(page_of(declared)))
        assert "very-secret-region" not in page
    for permissions in (ALL, ["view_schedule", "view_job_arguments"]):
        page = text_of(operator(*permissions).get(page_of(declared)))
        assert "very-secret-region" in page


def test_user_that_may_not_see_arguments_leaves_them_as_they_are(declared):
    Schedule.objects.update(kwargs={"region": "north"})
    client = operator(*[each for each in ALL if each != "view_job_arguments"])
    fields = FIELDS | {"cron": "", "every": "00:05:00", "timezone": "UTC"}
    for arguments in ({}, {"argument-region": "south"}):
        response = client.post(page_of(declared), fields | arguments)
        assert response.status_code == 302, text_of(response)
        changed = Schedule.objects.get()
        assert changed.every == timedelta(minutes=5)
        assert changed.kwargs == {"region": "north"}


def test_user_that_may_only_look_gets_no_form_and_no_buttons(declared):
    page = text_of(operator("view_schedule").get(page_of(declared)))
    assert 'name="every"' not in page
    assert "/run_now/" not in page


def test_schedule_of_the_code_cannot_be_deleted_and_an_orphan_can(declared):
    client = operator(*ALL)
    url = f"{LIST}{declared.pk}/delete/"
    assert client.post(url, {"post": "yes"}).status_code == 403
    Schedule.objects.update(orphaned=True)
    assert client.post(url, {"post": "yes"}).status_code == 302
    assert not Schedule.objects.exists()


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", "a\x1b[31mb", "é" * 200])
def test_page_shows_any_name(name):
    made = Schedule(name=name, task="tests.noop", cron="0 3 * * *")
    made.plan_again(database_time("default"))
    made.save()
    Schedule.objects.update(timezone="<b>", error="<i>")
    client = operator(*ALL)
    for url in (LIST, page_of(made)):
        page = text_of(client.get(url))
        assert "<script>alert" not in page
        assert "<b>" not in page
        assert "<i>" not in page


# The command


def listed(capsys, *options: str) -> str:
    call_command("schedules", *options)
    return capsys.readouterr().out


def test_command_lists_schedules(declared, capsys):
    run_now(declared).succeed()
    Schedule.objects.update(every=timedelta(minutes=10))
    declared.pause()
    printed = listed(capsys)
    for word in ("tests.report", "Every 10 minutes", "SUCCESSFUL", "Paused", "differs"):
        assert word in printed


def test_command_lists_what_sql_has_broken(declared, capsys):
    Schedule.objects.update(every=None, cron="never ever", timezone="Mars")
    assert "never ever (Mars)" in listed(capsys)
    (row,) = json.loads(listed(capsys, "--json"))
    assert len(row["next_runs"]) == 1


def test_command_without_schedules_says_so(capsys):
    assert listed(capsys) == "No schedules.\n"


def test_command_prints_json_for_programs(declared, capsys):
    (row,) = json.loads(listed(capsys, "--json"))
    assert row["name"] == "tests.report"
    assert row["state"] == "active"
    assert row["every_seconds"] == 3600
    assert len(row["next_runs"]) == 5


# Checks and problems


def test_check_finds_two_schedules_of_one_name():
    schedule(every=HOUR)(task(every=2 * HOUR)(report))
    (error,) = check_schedules()
    assert error.id == "pgjobs.E020"


def test_check_finds_arguments_that_do_not_fit():
    schedule(every=HOUR, arguments={"area": "north"})(task(report))
    (error,) = check_schedules()
    assert error.id == "pgjobs.E021"
    assert "area" in error.msg


def test_jobstatus_names_schedules_that_are_overdue_or_broken(declared):
    assert overview("default").problems == []
    Schedule.objects.update(next_run_at=declared.origin_at - HOUR, error="no zone")
    problems = overview("default").problems
    assert problems == [
        "Schedule tests.report is 60 min late: does a worker run?",
        "Schedule tests.report does not fire: no zone",
    ]


# Jobs of a schedule


def test_page_leads_to_all_jobs_of_its_schedule():
    job = make_job()
    schedule = Schedule.objects.create(name="nightly", task="tests.noop", cron="@daily")
    Tick.objects.create(schedule=schedule, time="2026-01-01T00:00Z", job=job)
    page = text_of(operator("view_job").get(page_of_job(job)))
    assert f'href="{JOBS}?schedule={schedule.pk}"' in page


def test_jobs_of_a_schedule_are_filtered():
    job, _ = make_job(), make_job()
    schedule = Schedule.objects.create(name="nightly", task="tests.noop", cron="@daily")
    Tick.objects.create(schedule=schedule, time="2026-01-01T00:00Z", job=job)
    client = operator("view_job")
    assert found(client, schedule=schedule.pk) == [job.pk]
    offer = f'<option value="{schedule.pk}">nightly</option>'
    assert offer in text_of(client.get(JOBS))


def test_empty_list_says_what_to_do_next():
    client = operator("view_schedule")
    address = "/admin/pgjobs/schedule/"
    assert "or add one here" in text_of(client.get(address))
    assert "or add one here" not in text_of(client.get(address, {"q": "no such"}))
