"""Commands over several databases."""

import json
import os
import signal
from functools import partial
from io import StringIO
from time import monotonic

import pytest
from django.core.management import CommandError, call_command
from django.db import connections
from django.test import override_settings

from pgjobs import enqueue
from pgjobs.management.runjobs import child_command
from pgjobs.models import Job, Queue
from pgjobs.worker import WorkerOptions
from tests.processes import wait_for
from tests.support.second_database import SECOND, workers_of
from tests.tasks import enqueue_noop, fail_with, noop, sleep

both = pytest.mark.django_db(databases=["default", "eu"])
both_committing = pytest.mark.django_db(
    transaction=True,
    databases=["default", "eu"],
    available_apps=["pgjobs", "tests"],
)


def run(name: str, *arguments, **options) -> str:
    out = StringIO()
    call_command(name, *arguments, stdout=out, **options)
    return out.getvalue()


def unfinished() -> int:
    return sum(
        Job.objects.using(alias).filter(finished_at=None).count()
        for alias in ("default", "eu")
    )


def both_registered() -> bool:
    return bool(workers_of("default") and workers_of("eu"))


@both_committing
def test_supervisor_runs_a_worker_for_each_database(start):
    worker = start("--database", "all", "--name", "here")
    wait_for(
        lambda: workers_of("default") and workers_of("eu"), "both are registered", 60
    )
    enqueue(enqueue_noop)
    enqueue(enqueue_noop.using(database="eu"))
    for alias in ("default", "eu"):
        ended = Job.objects.using(alias).finished()
        wait_for(
            lambda ended=ended: ended.count() == 2, f"those of {alias} have ended", 60
        )
    assert worker.stop() == 0
    assert "2 worker processes" in worker.printed
    assert f"eu ({SECOND} at" in worker.printed
    assert "Completed 4 jobs" in worker.printed
    assert "here-1 " in worker.printed
    assert "here-2 " in worker.printed


def test_processes_are_those_of_each_database(monkeypatch):
    line = "pgjobs.management.runjobs.get_child_arguments"
    monkeypatch.setattr(line, lambda: ["manage.py", "runjobs", "--database", "all"])
    options = {"http": None, "processes": 2, "database": "all", "name": "here"}
    command = partial(
        child_command, WorkerOptions(), ("default", "eu"), options, monotonic()
    )
    lines = [" ".join(command(number, False)) for number in (1, 2, 3, 4)]
    assert [line.rpartition("--database ")[2].split()[0] for line in lines] == [
        "default",
        "default",
        "eu",
        "eu",
    ]
    assert lines[3].endswith("--name here-4")


@both_committing
def test_worker_that_dies_is_replaced_in_its_database(start):
    start("--database", "all")
    wait_for(
        lambda: workers_of("default") and workers_of("eu"), "both are registered", 60
    )
    (victim,) = workers_of("eu")
    os.kill(victim, signal.SIGKILL)
    job = enqueue(noop.using(database="eu"))
    assert job.wait(timeout=60) is None


@both_committing
def test_database_that_is_down_at_the_start_does_not_keep_the_others_waiting(
    start, monkeypatch
):
    monkeypatch.setenv("PGJOBS_TEST_SECOND", f"{SECOND}_gone")
    worker = start("--database", "all")
    assert enqueue(noop).wait(timeout=60) is None
    wait_for(lambda: "could not start" in worker.printed, "the other is reported", 60)
    assert worker.is_alive
    assert enqueue(noop).wait(timeout=60) is None


@both_committing
def test_drain_empties_all_databases_and_says_what_is_left(start):
    enqueue(noop)
    enqueue(noop.using(database="eu"))
    worker = start("--database", "all", "--drain")
    assert worker.wait(60) == 0
    assert unfinished() == 0
    assert "Completed 2 jobs" in worker.printed


@both_committing
def test_drain_reports_a_database_that_is_down(start, monkeypatch):
    monkeypatch.setenv("PGJOBS_TEST_SECOND", f"{SECOND}_gone")
    enqueue(noop)
    worker = start("--database", "all", "--drain")
    assert worker.wait(60) == 1
    assert "Completed 1 job\n" in worker.printed
    assert "eu" in worker.printed
    assert unfinished() == 0


@both_committing
def test_call_command_drains_one_database_after_the_other():
    enqueue(noop)
    enqueue(noop.using(database="eu"))
    printed = run("runjobs", database="all", drain=True)
    assert printed.count("Completed 1 job") == 2
    assert unfinished() == 0
    with pytest.raises(CommandError, match="works on the command line only"):
        run("runjobs", database="all")


@both_committing
def test_named_database_is_served_alone(start):
    here = enqueue(noop)
    there = enqueue(noop.using(database="eu"))
    assert start("--database", "eu", "--drain").wait(60) == 0
    here.refresh_from_db()
    there.refresh_from_db()
    assert (here.status, there.status) == ("READY", "SUCCESSFUL")


@both
@override_settings(PGJOBS={"DATABASES": ["default"]})
def test_all_means_the_databases_that_the_settings_name():
    assert "eu:" not in run("jobstatus", database="all")


@both
def test_database_without_tables_is_skipped_and_named():
    name = connections["eu"].settings_dict["NAME"]
    with connections["eu"].cursor() as cursor:
        cursor.execute("SET LOCAL search_path = pg_catalog")
        err = StringIO()
        printed = StringIO()
        call_command("jobstatus", database="all", stdout=printed, stderr=err)
    assert name == SECOND
    assert "'eu' is skipped: it has no tables of pgjobs" in err.getvalue()
    assert "eu:" not in printed.getvalue()


@both
def test_alias_of_the_same_database_is_skipped_and_named(other):
    err = StringIO()
    call_command("jobstatus", database="all", stdout=StringIO(), stderr=err)
    assert "'other' is skipped: it is the same as 'default'" in err.getvalue()


@both
def test_jobstatus_shows_all_databases():
    enqueue(noop.using(database="eu", queue_name="european"))
    printed = run("jobstatus", database="all")
    default, eu = printed.split("eu:\n")
    assert default.startswith("default:\n")
    assert "european" in eu
    assert "european" not in default
    shown = json.loads(run("jobstatus", database="all", json=True))
    assert [each["name"] for each in shown["eu"]["queues"]] == ["european"]
    assert shown["default"]["queues"] == []


@both
def test_check_names_the_database_with_the_problem():
    job = enqueue(sleep.using(database="eu"), 0)
    Job.objects.using("eu").filter(pk=job.pk).fail("broken")
    with pytest.raises(CommandError, match=r"^eu: ") as caught:
        run("jobstatus", database="all", check=True, max_failed=0)
    assert caught.value.returncode == 1


@both
def test_watch_shows_one_database():
    with pytest.raises(CommandError, match="one database"):
        run("jobstatus", database="all", watch=1.0)


@both
def test_commands_act_on_each_database():
    for database in ("default", "eu"):
        job = enqueue(fail_with.using(database=database), "x")
        job.cancel()
    assert "eu:" in run("prunejobs", database="all", older=0.0, status=["CANCELLED"])
    run("pausejobs", "mail", database="all")
    for alias in ("default", "eu"):
        assert Queue.objects.using(alias).get(name="mail").paused_at is not None


@both
def test_enqueuejob_takes_one_database():
    run("enqueuejob", "tests.noop", database="eu")
    assert Job.objects.using("eu").count() == 1
    with pytest.raises(CommandError, match="no database 'all'"):
        run("enqueuejob", "tests.noop", database="all")
