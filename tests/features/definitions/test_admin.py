"""The admin of tasks: people look at them, and add jobs by a form."""

import enum
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.contrib.admin.models import LogEntry
from django.db import models
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from pgjobs import task
from pgjobs.models import ErrorGroup, Job, TaskDefinition
from tests.admin.test_admin_themes import check_that_they_show, theme  # noqa: F401
from tests.features.dependencies.exports import export_data
from tests.operators import make_job, messages_of, operator, text_of
from tests.support.declared import store_definitions
from tests.tasks import generate_monthly

pytestmark = pytest.mark.django_db

LIST = "/admin/pgjobs/taskdefinition/"
PERMISSIONS = ("view_taskdefinition", "add_job", "view_job")


class Format(models.TextChoices):
    CSV = "csv", "Comma-separated"
    JSON = "json", "JSON"


class Size(enum.Enum):
    SMALL = 1
    LARGE = 2


@pytest.fixture(autouse=True)
def synced(db):
    task(name="tests.of_all_kinds")(of_all_kinds)
    task(name="tests.unique", unique=True, on_conflict="raise")(unique)
    store_definitions("default")


def of_all_kinds(
    first: int,
    day: date,
    moment: datetime,
    /,
    format: Format,
    id: UUID,
    text: str,
    share: float,
    is_on: bool,
    tags: list[str],
    anything,
    size: Size | None = None,
    other_day: date | None = date(2026, 1, 2),
    number: int = 5,
    maybe: bool | None = None,
    **rest: Any,
):
    """Take all kinds of arguments.

    :param first: Comes <b>first</b>.
    """


def unique(a: int = 1): ...


def page(name: str) -> str:
    return f"{LIST}{TaskDefinition.objects.get(name=name).pk}/change/"


def form(name: str) -> str:
    return f"{LIST}add_job/{TaskDefinition.objects.get(name=name).pk}/"


def data(**arguments: Any) -> dict[str, Any]:
    return {f"argument-{name}": value for name, value in arguments.items()}


def test_tasks_are_listed_with_what_they_take():
    TaskDefinition.objects.filter(name="tests.add").update(gone_at=timezone.now())
    client = operator("view_taskdefinition")
    text = text_of(client.get(LIST, {"q": "generate_monthly"}))
    assert "client_id, month, format" in text
    assert "tests.<wbr>add<" in text_of(client.get(LIST, {"state": "gone"}))
    assert "tests.<wbr>add<" not in text_of(client.get(LIST, {"state": "active"}))


def test_page_shows_a_task_and_has_no_form():
    client = operator("view_taskdefinition", "change_job")
    text = text_of(client.get(page(export_data.name)))
    assert "Export client data in the specified format." in text
    assert "&quot;parquet&quot;" in text
    assert "tests.features.dependencies.exports.export_data" in text
    assert 'name="_save"' not in text
    assert client.post(page(export_data.name), {"name": "x"}).status_code == 403
    assert client.get(f"{LIST}add/").status_code == 403


def test_page_shows_the_last_failure_to_users_that_may_see_jobs():
    ErrorGroup.objects.create(id=7, task="tests.noop", exception_class="shop.Gone")
    ErrorGroup.objects.create(id=8, task="tests.noop", exception_class="shop.Away")
    now = timezone.now()
    make_job(
        error_group=7, reason="the older one", finished_at=now - timedelta(hours=1)
    )
    last = make_job(error_group=8, reason="the newer one", finished_at=now)
    make_job(error_group=9, reason="of another task", task="tests.add")
    client = operator("view_taskdefinition", "view_job")
    text = text_of(client.get(page("tests.noop")))
    assert f"/{last.pk}/change/" in text and "the newer one" in text
    assert "the older one" not in text
    assert "Last failure" in text_of(client.get(page("tests.add")))
    text = text_of(operator("view_taskdefinition").get(page("tests.noop")))
    assert "the newer one" not in text and "Show them" not in text


def test_page_lists_the_parameters_with_type_default_and_description():
    client = operator("view_taskdefinition")
    text = text_of(client.get(page(export_data.name)))
    assert '<th scope="row">client_id</th><td>integer' in text
    assert "&quot;csv&quot; | " in text
    text = text_of(client.get(page("tests.add")))
    assert '<th scope="row">b</th><td>integer</td><td>1</td>' in text
    assert "None." in text_of(client.get(page("tests.noop")))


@pytest.mark.parametrize(
    "schema",
    [
        [],
        {"x-order": "a"},
        {"x-order": [["a"], None], "properties": []},
        {"x-order": ["a"], "properties": {"a": 1}},
        {"x-order": ["a"], "properties": {"a": {"type": {"x": 1}, "enum": 7}}},
        {"x-order": ["a"], "properties": {"a": {"anyOf": [1, {"items": None}]}}},
    ],
    ids=repr,
)
def test_page_shows_any_schema(schema):
    TaskDefinition.objects.filter(name="tests.add").update(parameters=schema)
    client = operator("view_taskdefinition")
    assert client.get(page("tests.add")).status_code == 200


def test_adding_a_job_needs_its_permission():
    client = operator("view_taskdefinition", "change_job")
    assert "/add_job/" not in text_of(client.get(LIST))
    for method in (client.get, client.post):
        assert method(form("tests.add")).status_code == 403
    assert Client().post(form("tests.add"), data(a=1)).status_code == 302
    assert operator("add_job").get(form("tests.add")).status_code == 403
    assert not Job.objects.exists()


def test_form_enqueues_a_job_and_leads_to_it():
    client = operator(*PERMISSIONS)
    listed = client.get(LIST, {"q": generate_monthly.name})
    assert form(generate_monthly.name) in text_of(listed)
    assert not Job.objects.exists()
    response = client.post(
        form(generate_monthly.name),
        data(client_id=42, month="2024-01", format="pdf") | {"priority": "7"},
    )
    job = Job.objects.get()
    assert response.url == f"/admin/pgjobs/job/{job.pk}/change/"
    assert job.kwargs == {"client_id": 42, "month": "2024-01", "format": "pdf"}
    assert (job.priority, job.queue_name) == (7, "default")
    assert messages_of(response) == [f"There is job {job.pk} of {job.task}."]
    entry = LogEntry.objects.get()
    assert (entry.object_id, entry.user) == (str(job.pk), client.user)


def test_form_has_a_field_for_each_kind_of_argument():
    text = text_of(operator(*PERMISSIONS).get(form("tests.of_all_kinds")))
    assert "Comes &lt;b&gt;first&lt;/b&gt;." in text
    assert "Take all kinds of arguments." in text
    assert '<option value="&quot;csv&quot;">csv</option>' in text
    assert text.count("vDateField") == 4  # day, moment, other_day, run_after
    assert "DateTimeShortcuts.js" in text
    assert 'value="2026-01-02"' in text
    assert '<textarea name="argument-tags"' in text
    assert "null</textarea>" not in text
    assert 'name="others"' in text


FILLED = data(
    first="1",
    day="2026-10-01",
    moment_0="2026-10-01",
    moment_1="12:30:00",
    format='"json"',
    id="550e8400-e29b-41d4-a716-446655440000",
    text="",
    share="2",
    is_on="false",
    tags='["a", "b"]',
    anything='{"deep": [1]}',
    size="2",
    number="",
    maybe="",
)


def test_every_kind_of_argument_arrives():
    client = operator(*PERMISSIONS)
    response = client.post(form("tests.of_all_kinds"), FILLED | {"others": '{"x": 1}'})
    assert response.status_code == 302, text_of(response)
    job = Job.objects.get()
    assert job.kwargs == {
        "first": 1,
        "day": "2026-10-01",
        "moment": job.kwargs["moment"],
        "format": "json",
        "id": "550e8400-e29b-41d4-a716-446655440000",
        "text": "",
        "share": 2.0,
        "is_on": False,
        "tags": ["a", "b"],
        "anything": {"deep": [1]},
        "size": 2,
        "other_day": None,
        "number": 5,
        "maybe": None,
        "x": 1,
    }
    moment = datetime.fromisoformat(job.kwargs["moment"])
    assert moment == timezone.make_aware(datetime(2026, 10, 1, 12, 30)).astimezone(UTC)


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("argument-first", "abc", "Enter a whole number."),
        ("argument-first", "", "This field is required."),
        ("argument-format", '"xml"', "Select a valid choice."),
        ("argument-day", "2026-02-30", "Enter a valid date."),
        ("argument-tags", "[1]", "[0] input should be a valid string"),
        ("argument-tags", "[", "Enter valid JSON."),
        ("argument-anything", "[" * 5000, "Enter valid JSON|recursion"),
        ("argument-anything", "9" * 5000, "digits"),
        ("argument-text", "a\0b", "Null characters are not allowed."),
        ("argument-text", "x" * 1_100_000, "bytes of JSON"),
        ("others", "[1]", "Enter a JSON object."),
        ("others", '{"first": 1}', "first has a field of its own."),
        ("priority", "101", "less than or equal to 100"),
        ("queue_name", "a,b", "without commas"),
    ],
)
def test_fault_of_an_argument_is_shown_at_its_field(field, value, says):
    client = operator(*PERMISSIONS)
    response = client.post(form("tests.of_all_kinds"), {**FILLED, field: value})
    assert response.status_code == 200
    text = text_of(response).replace("&#x27;", "'")
    assert any(each in text for each in says.split("|"))
    assert not Job.objects.exists()


def test_all_makes_a_job_for_each_choice(django_assert_max_num_queries):
    client = operator(*PERMISSIONS)
    assert '<option value="ALL">' in text_of(client.get(form(export_data.name)))
    with django_assert_max_num_queries(13):  # however many
        response = client.post(form(export_data.name), data(client_id=1, format="ALL"))
    assert messages_of(response) == ["3 jobs were enqueued."]
    assert Job.objects.count() == LogEntry.objects.count() == 3


def test_form_says_that_the_unique_key_is_taken():
    client = operator(*PERMISSIONS)
    client.post(form("tests.unique"), data(a="3"))
    response = client.post(form("tests.unique"), data(a="3"))
    assert "already holds the unique key" in text_of(response)
    assert Job.objects.count() == 1


def test_task_that_is_gone_cannot_be_enqueued():
    TaskDefinition.objects.create(
        name="tests.older",
        parameters={},
        options={},
        synced_at=timezone.now(),
        gone_at=timezone.now(),
    )
    client = operator(*PERMISSIONS)
    assert form("tests.older") not in text_of(client.get(LIST, {"q": "older"}))
    assert "Gone" in text_of(client.get(page("tests.older")))
    response = client.post(form("tests.older"))
    assert messages_of(response) == ["No code here declares the task tests.older."]


@pytest.mark.parametrize("id", ["abc", "-1", "9" * 20, "9" * 5000, "%00"])
def test_id_that_is_none_is_no_task(id):
    client = operator(*PERMISSIONS)
    assert client.get(f"{LIST}add_job/{id}/").status_code in (302, 404)
    assert client.post(f"{LIST}add_job/{id}/").status_code in (302, 404)
    assert not Job.objects.exists()


def test_hostile_names_are_shown_safely():
    TaskDefinition.objects.filter(name="tests.add").update(
        name="<script>alert(1)</script>",
        description="<img onerror=1>",
        parameters={"x-order": ["<b>"], "properties": {"<b>": {"type": "<i>"}}},
        options={"queue_name": "</pre><i>"},
    )
    client = operator(*PERMISSIONS)
    id = TaskDefinition.objects.get(name__startswith="<script>").pk
    for url in (f"{LIST}?q=script", f"{LIST}{id}/change/"):
        text = text_of(client.get(url))
        for bad in ("<script>alert", "<img onerror", "<b>", "<i>"):
            assert bad not in text


def test_empty_list_says_what_to_do_next():
    TaskDefinition.objects.all().delete()
    client = operator("view_taskdefinition")
    address = "/admin/pgjobs/taskdefinition/"
    assert "manage.py synctasks" in text_of(client.get(address))
    assert "manage.py synctasks" not in text_of(client.get(address, {"q": "no such"}))


def test_pages_of_features_need_nothing_of_a_themes_form(admin_client, theme):  # noqa: F811
    store_definitions("default")
    definition = TaskDefinition.objects.get(name="tests.add")
    pages = (
        reverse("admin:pgjobs_overview"),
        reverse("admin:pgjobs_schedule_add"),
        reverse("admin:pgjobs_taskdefinition_add_job", args=(definition.pk,)),
    )
    check_that_they_show(admin_client, pages)
