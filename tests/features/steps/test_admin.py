"""The page of a job shows its steps."""

import pytest
from django.utils import timezone

from pgjobs.models import Step
from tests.admin.test_admin_page import make_attempt
from tests.operators import make_job, operator, page_of, text_of

pytestmark = pytest.mark.django_db


def make_step(job, name: str, **columns) -> Step:
    values = {"life": 1, "attempt": 1, "finished_at": timezone.now()}
    return Step.objects.create(job=job, name=name, **values | columns)


def test_steps_are_shown_with_their_results_to_users_that_may_see_them(admin_client):
    job = make_job("RUNNING")
    make_step(job, "charge", return_value={"paid": "12.50", "token": "t-1"})
    make_step(job, "ship", attempt=2, life=3)
    page = text_of(admin_client.get(page_of(job)))
    assert "Steps done" in page
    assert "charge" in page
    assert "12.50" in page
    assert "(life 3)" in page
    assert "t-1" not in page
    page = text_of(operator("view_job").get(page_of(job)))
    assert "charge" in page
    assert "12.50" not in page


def test_job_without_steps_has_no_list_of_them(admin_client):
    assert "Steps done" not in text_of(admin_client.get(page_of(make_job())))


def test_hostile_and_numerous_steps_are_shown_safely(admin_client, monkeypatch):
    monkeypatch.setattr("pgjobs.features.steps.admin.MOST_STEPS", 2)
    job = make_job()
    for number in range(3):
        make_step(job, f"<script>{number}", return_value="<b>" + "x" * 5_000)
    page = text_of(admin_client.get(page_of(job)))
    assert "&lt;script&gt;2" in page
    assert "<script>2" not in page
    assert "&lt;script&gt;0" not in page
    assert "Only the latest 2 are shown" in page
    assert "<b>xxx" not in page
    assert "x" * 2_001 not in page


def test_a_page_costs_the_same_few_queries_however_many_steps(
    admin_client, django_assert_max_num_queries
):
    job = make_job()
    for number in range(30):
        make_attempt(job, number)
        make_step(job, f"step {number}")
    admin_client.get(page_of(job))
    with django_assert_max_num_queries(9):
        admin_client.get(page_of(job))


def test_results_are_not_even_read_without_the_permission(django_assert_num_queries):
    client = operator("view_job")
    job = make_job(kwargs={"a": "one"})
    make_step(job, "step", return_value="one")
    with django_assert_num_queries(10) as queries:
        client.get(page_of(job))
    for query in queries:
        assert "return_value" not in query["sql"]
