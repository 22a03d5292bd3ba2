"""Lists of the jobs that failed in the same way: as long as others, and as cheap."""

import pytest
from django.db import connection

from pgjobs.admin import filters
from pgjobs.models import Batch, ErrorGroup, Job
from pgjobs.reports import newest
from pgjobs.reports.job_filters import ARGUMENTS_INDEX
from pgjobs.reports.reading import IN_ORDER
from tests.admin.test_admin_ended import (
    ON_ARGUMENTS,
    check_that_all_are_retried,
    check_that_it_begins_as_it_did,
    counts_of,
    ended,
)
from tests.admin.test_admin_ended import failed as plain_failed  # noqa: F401
from tests.operators import (
    LIST,
    found,
    insert,
    make_job,
    operator,
    statements_of,
    text_of,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def client():
    return operator("view_job", "retry_job")


@pytest.fixture
def failed(plain_failed) -> list[int]:  # noqa: F811
    """Give the six groups their errors: two of them are of one class."""
    for id in range(6):
        exception_class = "shop.Declined" if id < 2 else f"shop.Other{id}"
        ErrorGroup.objects.create(id=id, exception_class=exception_class)
    return plain_failed


def test_error_may_be_named_without_its_module():
    ErrorGroup.objects.create(id=7, exception_class="shop.errors.Declined")
    job = make_job(error_group=7)
    insert()
    client = operator("view_job")
    assert found(client, error="Declined") == [job.pk]
    assert found(client, error="errors.Declined") == [job.pk]
    assert found(client, error="eclined") == []


def test_failures_without_an_exception_are_sorted_by_their_end(client):
    first, last, middle = ended(3), ended(1), ended(2)
    insert()
    assert found(client, error="-") == [last, middle, first]


def test_list_of_an_error_cannot_begin_at_its_end(failed, client):
    check_that_it_begins_as_it_did(client, error="Declined")


@pytest.mark.parametrize("most_merged", [1, 100])
def test_list_of_an_error_shows_those_of_all_groups_that_ended_last(
    most_merged, failed, client, monkeypatch
):
    monkeypatch.setattr(newest, "MOST_MERGED", most_merged)
    of_error = [id for age, id in enumerate(failed) if age % 6 < 2]
    assert found(client, error="Declined") == of_error[:4]
    monkeypatch.setattr(filters, "MOST_FOUND", 8)
    assert found(client, error="Declined") == of_error


def test_other_filters_count_before_the_list_is_cut(failed, client):
    oldest = failed[-6]  # of the first group
    batch = Batch.objects.create()
    Job.objects.filter(pk=oldest).update(task="tests.rare", batch=batch)
    for query in ({"error": "Declined"}, {"ended": "day"}):
        assert found(client, **query, batch=batch.pk) == [oldest]
        assert found(client, **query, task="tests.rare") == [oldest]
    assert found(client, ended="day", error="Declined", batch=batch.pk) == [oldest]


def test_search_finds_jobs_that_failed_before_those_of_the_list(failed, client):
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE INDEX {ARGUMENTS_INDEX} {ON_ARGUMENTS}")
    oldest = failed[-6]
    Job.objects.filter(pk=oldest).update(kwargs={"order_id": 87})
    searches = operator("view_job", "view_job_arguments")
    assert found(client, error="Declined", q=oldest) == [oldest]
    assert found(searches, error="Declined", q="order_id:87") == [oldest]


@pytest.mark.parametrize("search", ["batch=1", "event=1", "schedule=1", "q=4711"])
@pytest.mark.parametrize("query", ["ended=week", "error=Declined"])
def test_postgresql_is_not_told_to_read_by_the_end_what_another_index_finds(
    query, search, failed, client
):
    assert IN_ORDER not in statements_of(client, f"{query}&{search}")
    assert IN_ORDER in statements_of(client, f"{query}&q=noop")


def test_error_of_one_group_or_of_none_is_found(failed, client):
    assert found(client, error="Other3") == failed[3::6]
    for query in ({}, {"q": "noop"}, {"q": "reason:x"}, {"task": "tests.noop"}):
        assert found(client, error="Unknown", **query) == []
    assert found(client, q="x" * 300, task="tests.noop") == []


def test_transaction_of_the_caller_sorts_again(failed, client):
    found(client, error="Declined")
    with connection.cursor() as cursor:
        cursor.execute("SHOW enable_sort")
        assert cursor.fetchone() == ("on",)


def test_failures_without_an_exception_are_searched_among_the_last(
    failed, client, monkeypatch
):
    plain = ended(60)
    assert found(client, error="-") == [plain]
    monkeypatch.setattr(filters, "LOOKED_AT_BY_END", 24)
    response = client.get(LIST, {"error": "-"})
    assert "among the newest 24" in text_of(response)
    assert found(client, error="-") == []


@pytest.mark.parametrize("query", ["error=Declined", "error=-"])
def test_acts_leave_no_matching_job_out(query, failed, client, monkeypatch):
    monkeypatch.setattr(filters, "LOOKED_AT_BY_END", 3)
    plain = [ended(60) for _ in range(5)]
    of_error = [id for age, id in enumerate(failed) if age % 6 < 2]
    jobs = of_error if query == "error=Declined" else plain
    check_that_all_are_retried(client, query, jobs)


def test_jobs_of_an_error_are_counted_in_the_order_of_an_index(failed, client):
    (count,) = counts_of(client, "error=Declined")
    assert 'ORDER BY "pgjobs_job"."finished_at" ASC LIMIT' in count
