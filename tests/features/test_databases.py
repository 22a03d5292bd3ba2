"""Features in a project with two databases: each row is where it belongs."""

import json
import re

import pytest
from django.contrib.auth.models import User
from django.db import transaction
from django.test import override_settings

from pgjobs import chain, enqueue, group, publish, schedule, subscribe, task
from pgjobs.exceptions import AmbiguousDatabase, InvalidTask
from pgjobs.features.definitions.definitions import declared, sync
from pgjobs.models import Batch, Event, Job, Schedule, TaskDefinition
from pgjobs.testing import assert_enqueued, perform, refute_enqueued, run_jobs
from tests.databases.test_choice import both, counts, enqueue_something, nothing
from tests.databases.test_commands import run
from tests.databases.test_sites import QUEUES, addresses, failed_job
from tests.features.schedules.test_admin import FIELDS as SCHEDULE
from tests.operators import ALL_PERMISSIONS, operator, text_of
from tests.support.declared import store_schedules, store_subscriptions
from tests.support.second_database import two_databases  # noqa: F401
from tests.tasks import add, enqueue_noop, noop


@both
def test_open_transaction_decides():
    with transaction.atomic(using="eu"):
        assert publish("tests.nothing")._state.db == "eu"
        assert chain(noop.bind(), noop.bind()).enqueue()[1]._state.db == "eu"


@both
def test_what_is_said_of_a_problem_is_said_by_database():
    everywhere = ("--json", "--database", "all")
    said = run("jobstatus", *everywhere, "--take-back", "queue_unserved", "mail")
    text = "queue_unserved mail was not acknowledged."
    assert json.loads(said) == {"default": text, "eu": text}


@both
def test_two_open_transactions_are_a_question():
    with transaction.atomic(using="default"), transaction.atomic(using="eu"):
        with pytest.raises(AmbiguousDatabase):
            publish("tests.nothing")
        assert publish("tests.nothing", database="eu")._state.db == "eu"


@both
def test_jobs_enqueued_together_are_in_one_database():
    there = noop.using(database="eu")
    for together in (
        lambda: enqueue(chain(there.bind(), noop.bind())),
        lambda: enqueue(group([noop.bind()], then=there.bind())),
    ):
        with pytest.raises(InvalidTask, match="'default' and 'eu'"):
            together()
    assert counts() == (0, 0)


@both
def test_group_and_what_belongs_to_it_are_in_one_database():
    there = add.using(database="eu")
    batch = enqueue(group([there.bind(1), there.bind(2)], then=there.bind(3)))
    assert batch._state.db == "eu"
    assert Batch.objects.using("default").count() == 0
    assert batch.progress().total == 2
    assert {job._state.db for job in batch.jobs.all()} == {"eu"}
    assert enqueue(add.using(batch=batch), 4)._state.db == "eu"
    assert batch.progress().total == 3
    assert batch.cancel().changed == 3


@both
def test_job_after_another_is_in_its_database():
    first = enqueue(noop.using(database="eu"))
    assert enqueue(noop.using(after=first))._state.db == "eu"
    with pytest.raises(InvalidTask, match=f"Job {first.pk} is in the database 'eu'"):
        enqueue(noop.using(after=first, database="default"))
    with pytest.raises(InvalidTask, match="and the job belongs in"):
        enqueue(noop.using(after=[first, enqueue(noop)]))


@both
def test_performed_job_enqueues_in_its_database():
    (job,) = perform(enqueue_noop.using(database="eu").bind()).jobs
    assert job._state.db == "eu"


@both
@override_settings(PGJOBS={"MODE": "inline"})
def test_inline_job_runs_in_its_database():
    job = enqueue(add.using(database="eu"), 1, 2)
    assert (job.status, job.return_value) == ("SUCCESSFUL", 3)
    assert counts() == (0, 1)


@both
def test_event_is_delivered_in_its_database():
    subscribe("tests.happened")(task(name="tests.handler")(nothing))
    store_subscriptions("default")
    store_subscriptions("eu")
    event = publish("tests.happened", database="eu")
    assert Event.objects.using("default").count() == 0
    (job,) = Job.objects.using("eu").filter(task="tests.handler")
    assert job.delivery.event == event
    assert event.redeliver_all().skipped == 1
    assert Job.objects.using("default").count() == 0
    with pytest.raises(InvalidTask, match="got 'asia'"):
        publish("tests.happened", database="asia")


@both
def test_schedule_is_in_each_database_or_in_one(no_schedules):
    here = task(name="tests.scheduled_here")(nothing)
    schedule(cron="@daily", name="each")(here)
    schedule(cron="@daily", name="only eu", database="eu")(here)
    task(name="tests.there", database="eu", cron="@daily")(enqueue_something)
    for alias in ("default", "eu"):
        store_schedules(alias)
    names = {
        alias: sorted(
            Schedule.objects.using(alias)
            .filter(orphaned=False)
            .values_list("name", flat=True)
        )
        for alias in ("default", "eu")
    }
    assert names["default"] == ["each"]
    assert names["eu"] == ["each", "only eu", "tests.there"]


@both
def test_assertions_see_the_jobs_of_all_databases():
    enqueue(add.using(database="eu"), 1, 2)
    assert_enqueued(add, 1, 2)
    with pytest.raises(AssertionError, match="what it should not have"):
        refute_enqueued(add)
    with pytest.raises(AssertionError, match="There are:"):
        assert_enqueued(add, 5)


@pytest.mark.django_db
def test_assertions_leave_out_databases_that_the_test_may_not_use():
    refute_enqueued(add)
    enqueue(add.using(database="default"), 1, 2)
    assert_enqueued(add, 1, 2)


@both
def test_job_that_the_kit_runs_enqueues_in_its_database():
    job = enqueue(enqueue_noop.using(database="eu"))
    assert run_jobs(database="eu")[0] == job
    assert counts() == (0, 2)
    assert {each._state.db for each in Job.objects.using("eu")} == {"eu"}


# Pages of a site


@pytest.fixture
def client(settings, db):
    settings.ROOT_URLCONF = addresses()
    return operator(*ALL_PERMISSIONS, "view_queue", "view_schedule")


@both
def test_overview_of_a_site_shows_the_jobs_of_its_database(client):
    for database, queue in QUEUES.items():
        failed_job(database, 700700, queue)
        noop.using(database=database, queue_name=queue).enqueue()
    shown = text_of(client.get("/eu/pgjobs/job/overview/"))
    assert "atlantic" in shown and "pacific" not in shown
    shown = text_of(client.get("/admin/pgjobs/job/overview/"))
    assert "pacific" in shown and "atlantic" not in shown


@both
def test_add_job_enqueues_in_the_database_of_its_site(client):
    client.force_login(User.objects.create_superuser("ada"))
    sync("eu", declared())
    pk = TaskDefinition.objects.using("eu").get(name="tests.noop").pk
    client.post(f"/eu/pgjobs/taskdefinition/add_job/{pk}/", {"priority": "0"})
    assert Job.objects.using("eu").count() == 1
    assert not Job.objects.using("default").exists()


@both
@pytest.mark.parametrize("database", ["default", "eu"])
def test_new_schedule_goes_where_the_project_has_its_queue(client, settings, database):
    settings.PGJOBS = {"DATABASE": database}
    client.force_login(User.objects.create_superuser("ada"))
    client.post("/admin/pgjobs/schedule/add/", SCHEDULE)
    for alias in ("default", "eu"):
        schedules = Schedule.objects.using(alias).filter(name="nightly")
        assert schedules.exists() == (alias == database)


@both
def test_lists_and_overview_lead_to_the_same_page_of_each_database(client):
    for page in ("schedule/", "job/overview/"):
        shown = text_of(client.get(f"/eu/pgjobs/{page}"))
        assert f'<a href="/eu/pgjobs/{page}" aria-current="page">eu</a>' in shown
        assert f'<a href="/admin/pgjobs/{page}">default</a>' in shown
        assert f'<a href="/eu/pgjobs/{page}">eu</a>' in text_of(
            client.get(f"/admin/pgjobs/{page}")
        )


@both
def test_all_other_links_of_the_overview_stay_in_the_site(client):
    failed_job("eu", 700700, "atlantic")
    shown = text_of(client.get("/eu/pgjobs/job/overview/"))
    others = set(re.findall('href="(/admin/[^"]*)"', shown))
    assert others <= {"/admin/pgjobs/job/overview/"}  # the switch
    assert shown.count('href="/eu/') > 5


@both
def test_overview_of_a_project_with_one_site_shows_no_switch(client, settings):
    settings.ROOT_URLCONF = addresses()[:1]
    shown = text_of(client.get("/admin/pgjobs/job/overview/"))
    assert 'aria-label="Database"' not in shown


# Commands


@both
def test_migrate_stores_what_code_declares_in_the_second_database():
    TaskDefinition.objects.using("eu").all().delete()
    run("migrate", database="eu", verbosity=0)
    assert TaskDefinition.objects.using("eu").filter(name="tests.noop").exists()


@both
def test_tasks_are_stored_in_all_databases():
    TaskDefinition.objects.using("eu").all().delete()
    run("synctasks", database="all")
    assert TaskDefinition.objects.using("eu").active().exists()
