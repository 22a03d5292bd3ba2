"""Lists of ended jobs: by their end, and no more of a large table than they show."""

import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from pgjobs.admin import filters
from pgjobs.models import Job
from pgjobs.reports.job_filters import ARGUMENTS_INDEX
from pgjobs.reports.reading import IN_ORDER
from tests.actors import leave_out_triggers
from tests.operators import (
    LIST,
    found,
    insert,
    operator,
    plan_of,
    statement_of_rows,
    statements_of,
    text_of,
)

pytestmark = pytest.mark.django_db

BY_ID, BY_END = "1", "5"  # columns
ON_ARGUMENTS = "ON pgjobs_job USING gin (kwargs jsonb_path_ops)"


def ended(minutes: float, status: str = "FAILED", **columns) -> int:
    """Store a job that ended so many minutes ago; return its id."""
    finished_at = f"now() - interval '{minutes} min'"
    texts = {name: str(value) for name, value in columns.items()}
    return insert(status=f"'{status}'", finished_at=finished_at, **texts)


@pytest.fixture
def client():
    return operator("view_job", "retry_job")


@pytest.fixture
def failed(monkeypatch) -> list[int]:
    """Store failed jobs of six groups; the newest first.

    A list counts two jobs that ended, and shows one more.
    """
    monkeypatch.setattr(filters, "MOST_FOUND", 3)
    return [ended(age, error_group=age % 6) for age in range(24)]


# Their order


def test_ended_jobs_are_sorted_by_their_end(client):
    first, last, middle = ended(3), ended(1), ended(2)
    insert()
    for query in ({"status": "FAILED"}, {"ended": "day"}):
        assert found(client, **query) == [last, middle, first]


def test_people_sort_by_the_id_or_where_all_have_ended_by_the_end(client):
    first, last, middle = ended(3), ended(1), ended(2)
    assert found(client, o=BY_ID) == [first, last, middle]
    assert found(client, status="FAILED", o=BY_END) == [first, middle, last]
    page = text_of(client.get(LIST, {"status": "FAILED", "o": BY_END}))
    assert f"o=-{BY_END}" in page
    assert f"o={BY_ID}" not in page


def test_address_sorts_no_list_by_what_has_no_index(client):
    first, last, middle = ended(3), ended(1), ended(2)
    assert found(client, o=BY_END) == [middle, last, first]
    assert found(client, status="FAILED", o=BY_ID) == [last, middle, first]


@pytest.mark.parametrize("query", ["status=FAILED", "status=SUCCESSFUL"])
def test_an_index_has_the_order(query, failed, client):
    plan = plan_of(statement_of_rows(client, query), "seqscan", "sort")
    assert "Index Scan Backward using pgjobs_job_finished" in plan


def test_heads_of_columns_show_the_order_and_reverse_it(client):
    ended(1)
    page = text_of(client.get(LIST, {"status": "FAILED"}))
    assert re.search(r"column-latest sorted descending", page)
    assert re.search(r"column-id sorted descending", text_of(client.get(LIST)))


def test_list_that_is_cut_at_its_end_cannot_begin_there(failed, client):
    check_that_it_begins_as_it_did(client, ended="day")


def check_that_it_begins_as_it_did(client, **query) -> None:
    jobs = found(client, **query)
    for column in (BY_ID, BY_END):
        assert found(client, **query, o=column) == jobs
        assert f"o={column}" not in text_of(client.get(LIST, query))


# What they leave out


def test_list_of_what_ended_shows_those_of_all_statuses_that_ended_last(failed, client):
    done, gone = ended(0.5, "SUCCESSFUL"), ended(1.5, "CANCELLED")
    expected = [failed[0], done, failed[1], gone]
    assert found(client, ended="day") == expected
    assert found(client, ended="59s") == expected[:2]
    assert found(client, ended="day", status="FAILED") == failed
    assert found(client, ended="day", status="READY") == []


def test_other_filters_count_before_the_list_is_cut(failed, client):
    oldest = failed[-6]
    Job.objects.filter(pk=oldest).update(task="tests.rare")
    assert found(client, ended="day", task="tests.rare") == [oldest]


def test_search_finds_jobs_that_ended_before_those_of_the_list(failed, client):
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE INDEX {ARGUMENTS_INDEX} {ON_ARGUMENTS}")
    oldest = failed[-6]
    Job.objects.filter(pk=oldest).update(kwargs={"order_id": 87})
    searches = operator("view_job", "view_job_arguments")
    assert found(client, ended="day", q=oldest) == [oldest]
    assert found(searches, ended="day", q="order_id:87") == [oldest]


def test_postgresql_is_not_told_to_read_by_the_end_what_another_index_finds(
    failed, client
):
    assert IN_ORDER not in statements_of(client, "ended=week&q=4711")
    assert IN_ORDER in statements_of(client, "ended=week&q=noop")


def test_transaction_of_the_caller_sorts_again(failed, client):
    found(client, ended="day")
    with connection.cursor() as cursor:
        cursor.execute("SHOW enable_sort")
        assert cursor.fetchone() == ("on",)


def test_acts_leave_no_matching_job_out(failed, client, monkeypatch):
    monkeypatch.setattr(filters, "LOOKED_AT_BY_END", 3)
    check_that_all_are_retried(client, "ended=day", failed)


def check_that_all_are_retried(client, query: str, jobs: list) -> None:
    data = {
        "action": "retry_selected",
        "select_across": "1",
        "_selected_action": jobs[:1],
        "confirmed": "yes",
    }
    with CaptureQueriesContext(connection) as queries:
        client.post(f"{LIST}?{query}", data)
    assert Job.objects.ready().count() == len(jobs)
    # The act reads its jobs by id. The list would sort all of them.
    assert not any("reason_start" in each["sql"] for each in queries)


# Counts


@pytest.mark.parametrize(
    ("query", "order"),
    [
        ("status=READY", "queue_name"),
        ("status=SCHEDULED", "run_after"),
        ("status=WAITING", "line"),
        ("status=RUNNING", "worker_id"),
        ("status=FAILED", "finished_at"),
    ],
)
def test_jobs_are_counted_in_the_order_of_an_index(query, order, failed, client):
    (count,) = counts_of(client, query)
    assert f'ORDER BY "pgjobs_job"."{order}" ASC LIMIT' in count


def counts_of(client, query: str) -> list[str]:
    texts = statements_of(client, query)
    return [each for each in texts if each.startswith("SELECT COUNT(*)")]


def test_some_waiting_jobs_are_found_without_reading_them_all():
    leave_out_triggers("pgjobs_job")
    with connection.cursor() as cursor:
        cursor.execute(MANY_JOBS)
        cursor.execute("ANALYZE pgjobs_job")
    some = Job.objects.waiting().order_by("line").values("pk")[:40]
    assert "Index Scan using pgjobs_job_line" in some.explain()


MANY_JOBS = """
INSERT INTO pgjobs_job (task, turn, status, waiting_for, line)
SELECT 'tests.noop', 0, each.status, CASE each.status WHEN 'WAITING' THEN 'lock' END,
    CASE each.status WHEN 'WAITING' THEN 'lock default ' || i END
FROM generate_series(1, 20000) AS i
CROSS JOIN LATERAL (
    SELECT CASE i % 20 WHEN 0 THEN 'WAITING' ELSE 'READY' END
) AS each (status)
"""
