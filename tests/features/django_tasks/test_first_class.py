"""Tasks of django.tasks are listed, searched, repeated, scheduled and paused."""

import pytest
from django.db import connection
from django.urls import reverse

from pgjobs import get_task
from pgjobs.features.definitions.declaring import store_for_an_hour
from pgjobs.features.definitions.definitions import definition_of
from pgjobs.features.overrides.queue import Wish, set_override
from pgjobs.features.schedules.declare import run_now
from pgjobs.models import Job, Schedule, TaskDefinition
from pgjobs.tasks.registry import registry
from pgjobs.testing import run_jobs
from tests import standard_tasks
from tests.operators import LIST, found, operator, text_of

NAME = "default:tests.standard_tasks.add"
pytestmark = pytest.mark.django_db


@pytest.fixture
def definition() -> TaskDefinition:
    registry.find(NAME)
    store_for_an_hour("default")
    return TaskDefinition.objects.get(name=NAME)


def add_job(definition: TaskDefinition) -> str:
    return reverse("admin:pgjobs_taskdefinition_add_job", args=(definition.pk,))


def test_definition_takes_any_json_under_the_names_of_the_parameters():
    made = definition_of(registry.get(NAME))
    assert made["parameters"]["x-order"] == ["a", "b"]
    assert made["parameters"]["required"] == ["a"]
    assert made["origin"] == "tests.standard_tasks.add"


def test_task_is_listed_and_its_jobs_are_found_by_a_part_of_its_name(definition):
    client = operator("view_taskdefinition", "view_job")
    text = text_of(client.get("/admin/pgjobs/taskdefinition/"))
    assert "standard" in text
    job = Job.objects.create(task=NAME, kwargs={"a": 1})
    assert found(client, q="standard_tasks.ad") == [job.pk]
    assert "No task has this name" not in text_of(client.get(LIST, {"q": "tasks.ad"}))


def test_job_is_added_and_run_again_with_changes(definition):
    client = operator(
        "view_taskdefinition", "view_job", "view_job_arguments", "add_job"
    )
    page = add_job(definition)
    assert client.get(page).status_code == 200
    client.post(page, {"argument-a": "1", "argument-b": "2", "priority": "0"})
    job = Job.objects.get()
    assert (job.task, job.kwargs) == (NAME, {"a": 1, "b": 2})
    shown = text_of(client.get(reverse("admin:pgjobs_job_change", args=(job.pk,))))
    assert f"{page}?like={job.pk}" in shown
    again = text_of(client.get(f"{page}?like={job.pk}"))
    assert "errorlist" not in again


def test_task_is_scheduled(definition, no_schedules):
    schedule = Schedule.objects.create(
        name="nightly", task=NAME, kwargs={"a": 1}, cron="@daily"
    )
    run_now(schedule)
    job = Job.objects.get()
    assert (job.task, job.kwargs) == (NAME, {"a": 1})
    client = operator("add_schedule", "view_schedule")
    page = text_of(client.get("/admin/pgjobs/schedule/add/"))
    assert NAME in page


def test_task_is_enqueued_by_sql_and_by_its_path(definition):
    with connection.cursor() as cursor:
        cursor.execute("SELECT pgjobs_enqueue(%s, %s)", [NAME, '{"a": 4}'])
    assert get_task("tests.standard_tasks.add").using(priority=3).enqueue(a=5)
    run_jobs()
    assert set(Job.objects.values_list("status", "return_value")) == {
        ("SUCCESSFUL", 5),
        ("SUCCESSFUL", 6),
    }


def test_task_is_paused(definition):
    set_override("default", "task", NAME, Wish(paused=True), "ada", "page")
    standard_tasks.add.enqueue(1)
    assert Job.objects.get().status == "WAITING"
