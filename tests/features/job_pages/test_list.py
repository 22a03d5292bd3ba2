"""The list of jobs: a job is one line, and a bar says which jobs these are."""

import re

import pytest

from pgjobs.admin import tabs as counted_tabs
from pgjobs.admin.calls import arguments
from pgjobs.models import ErrorGroup
from tests.operators import (
    ALL_PERMISSIONS,
    LIST,
    insert,
    make_job,
    operator,
    page_of,
    statements_of,
    text_of,
)

pytestmark = pytest.mark.django_db
MAY_SEE = ("view_job", "view_job_arguments")


def cells(client, name: str, **query) -> list[str]:
    """Return the texts of a column."""
    page = text_of(client.get(LIST, query))
    found = re.findall(rf'<t[dh] [^>]*class="field-{name}[^>]*>(.*?)</t[dh]>', page)
    return [re.sub("<[^>]+>", "", each) for each in found]


# A row


def test_job_is_a_call_in_the_order_of_the_signature_without_defaults():
    make_job(task="tests.add", kwargs={"b": 2, "a": 41})
    make_job(task="tests.add", kwargs={"b": 1, "a": 41})
    calls = cells(operator(*MAY_SEE), "task_name")
    assert calls == ["tests.add(a=41)", "tests.add(a=41, b=2)"]


def test_texts_in_a_call_have_no_quotes_and_what_is_large_is_not_read():
    make_job(task="gone.task", kwargs={"note": "later", "to": ["a", {"b": 1.5}]})
    long = "SELECT string_agg(md5(i::text), '') FROM generate_series(1, 999) AS i"
    insert(kwargs=f"jsonb_build_object('x', ({long}))")
    large, call = cells(operator(*MAY_SEE), "task_name")
    assert call == "gone.task(to=[&quot;a&quot;,{&quot;b&quot;:1.5}], note=later)"
    assert large == "tests.noop(…)"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("{}", ""),
        ('{"a": 1, "b": "it is c', "a=1, b=it is c…"),
        ('{"a": [1, {"b', 'a=[1,{"b…'),
        ('{"a": 1, "b', "a=1, b…"),
        ('{"a": 1, "b":', "a=1, b=…"),
        ('{"a:": "x, y: {"}', "a:=x, y: {"),
        ('{"a": "\\"', "a=\\…"),
        ('{"api_key": {"deep": [1]}, "b": 2}', "api_key=********, b=2"),
    ],
)
def test_text_of_arguments_may_be_cut_anywhere(text, shown):
    assert arguments(text, (), {}) == shown


def test_arguments_are_shown_to_those_who_may_see_them_only():
    make_job(kwargs={"order_id": 87, "password": "hunter2"})
    assert "hunter2" not in text_of(operator(*MAY_SEE).get(LIST))
    assert cells(operator("view_job"), "task_name") == ["tests.noop"]


def test_row_leaves_fail_and_succeed_to_the_page():
    job = make_job("READY")
    client = operator(*ALL_PERMISSIONS)
    for verb in ("fail", "succeed"):
        assert f"/{verb}/{job.pk}/" not in text_of(client.get(LIST))
        assert f"/{verb}/{job.pk}/" in text_of(client.get(page_of(job)))
    assert f"/cancel/{job.pk}/" in text_of(client.get(LIST))


# The bar


def test_active_filter_says_what_it_is_and_how_to_be_rid_of_it():
    make_job(queue_name="mail")
    client = operator("view_job")
    page = client.get(LIST, {"queue_name": "mail", "status": "FAILED"})
    chip, *others = page.context["bar"]
    assert (chip.title, chip.value, chip.without) == ("Queue", "mail", "?status=FAILED")
    assert all(each.value is None for each in others)
    assert '<option value="mail" selected>mail</option>' in text_of(page)
    assert text_of(page).count("pgjobs-chip") == 2  # the chip and its name


def test_bar_keeps_the_status_and_the_order_of_the_list():
    page = text_of(operator("view_job").get(LIST, {"status": "READY", "o": "1"}))
    assert '<input type="hidden" name="status" value="READY">' in page
    assert '<input type="hidden" name="o" value="1">' in page


def test_fields_that_are_sent_empty_narrow_nothing():
    job = make_job("READY")
    empty = {
        "queue_name": "",
        "task": "",
        "ended": "",
        "worker": "",
        "error": "",
        "q": "",
    }
    response = operator("view_job").get(LIST, {**empty, "group": "", "status": ""})
    assert [each.pk for each in response.context["cl"].result_list] == [job.pk]


# Tabs


def numbers(client, **query) -> dict[str, str]:
    return {tab.label: tab.number for tab in client.get(LIST, query).context["tabs"]}


def test_tabs_of_a_filtered_list_count_what_its_other_filters_leave():
    for status in ("FAILED", "FAILED", "READY", "SUCCESSFUL"):
        make_job(status, task="tests.add")
    make_job("FAILED")
    shown = numbers(operator("view_job"), task="tests.add", status="FAILED")
    assert (shown["Failed"], shown["Ready"], shown["Running"]) == ("2", "1", "0")
    assert shown["All"] == ""


def test_tabs_count_the_jobs_of_an_error_and_of_a_search():
    ErrorGroup.objects.create(id=7, task="tests.noop", exception_class="shop.Gone")
    make_job(error_group=7, reason="gone at last")
    make_job()
    client = operator("view_job")
    assert numbers(client, error="shop.Gone")["Failed"] == "1"
    assert numbers(client, q="reason:gone")["Failed"] == "1"
    assert numbers(client, q="reason:nothing")["Failed"] == "0"
    assert numbers(client, ended="hour")["Failed"] == "2"


def test_tabs_say_that_they_have_not_counted_all(monkeypatch):
    monkeypatch.setattr("pgjobs.features.job_pages.counts.MOST_COUNTED", 2)
    monkeypatch.setattr(counted_tabs, "MOST_COUNTED", 2)
    for _ in range(4):
        make_job(task="tests.add")
    shown = numbers(operator("view_job"), task="tests.add")
    assert (shown["Failed"], shown["Ready"]) == ("2+", "0+")


def test_numbers_of_a_filtered_list_take_one_statement_more(admin_client):
    make_job(task="tests.add")
    counts = [
        each
        for each in statements_of(admin_client, "task=tests.add")
        if "GROUP BY status" in each
    ]
    assert len(counts) == 1
    assert "LIMIT 10001" in counts[0]


# Completion


def suggested(client) -> dict[str, str | None]:
    found = client.get(f"{LIST}suggestions/").json()["suggestions"]
    return {each["text"]: each.get("address") for each in found}


def test_search_box_completes_tasks_queues_errors_and_arguments():
    ErrorGroup.objects.create(id=7, task="tests.noop", exception_class="shop.Gone")
    make_job(error_group=7)
    make_job("READY", queue_name="mail")
    texts = suggested(operator(*MAY_SEE))
    assert texts["tests.add"] is None
    assert texts["queue:mail"] == f"{LIST}?queue_name=mail"
    assert texts["error:shop.Gone"] == f"{LIST}?status=FAILED&error=shop.Gone"
    assert texts["a:"] is None


def test_search_box_completes_no_argument_that_the_user_may_not_search():
    assert "a:" not in suggested(operator("view_job"))
    assert not any("password" in text for text in suggested(operator(*MAY_SEE)))
    assert operator().get(f"{LIST}suggestions/").status_code == 403
