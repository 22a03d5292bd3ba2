"""The list of jobs: honest about large tables, and safe from any query."""

import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from pgjobs.admin import listing
from pgjobs.models import Job
from pgjobs.tasks.registry import registry
from tests.operators import (
    ALL_PERMISSIONS,
    LIST,
    STATUSES,
    insert,
    make_job,
    make_worker,
    messages_of,
    operator,
    plan_of,
    statement_of_rows,
    text_of,
)

pytestmark = pytest.mark.django_db


def ids_in(response) -> list[int]:
    return [job.pk for job in response.context["cl"].result_list]


def make_many(count: int, **columns) -> None:
    Job.objects.bulk_create(Job(task="tests.noop", **columns) for _ in range(count))


@pytest.fixture
def few_counted(monkeypatch):
    """Let the list count up to 100 jobs only."""
    monkeypatch.setattr(listing, "COUNTED", 100)


# Large tables


def test_the_newest_jobs_come_first(admin_client):
    jobs = [make_job(status).pk for status in STATUSES]
    assert ids_in(admin_client.get(LIST)) == jobs[::-1]


@pytest.mark.parametrize("count", [1, 120])
def test_a_page_costs_the_same_few_queries_however_many_jobs(
    count, admin_client, django_assert_max_num_queries
):
    make_many(count)
    for _ in range(count):
        make_job("RUNNING")
    admin_client.get(LIST)
    with django_assert_max_num_queries(12):
        admin_client.get(LIST)


def test_nothing_is_counted_without_a_limit(admin_client, few_counted):
    make_many(150)
    for query in ["", "?p=2", "?status=READY", "?q=tests", "?enqueued=day"]:
        with CaptureQueriesContext(
            connection,
        ) as queries:
            assert admin_client.get(LIST + query).status_code == 200
        counts = [each["sql"] for each in queries if "COUNT(" in each["sql"].upper()]
        assert counts
        assert all(re.search("LIMIT (101|10001|100000)\\b", each) for each in counts)


def test_no_query_reads_arguments_or_sorts_by_anything_but_the_id(admin_client):
    make_many(3)
    with CaptureQueriesContext(connection) as queries:
        admin_client.get(LIST)
    rows = [each["sql"] for each in queries if "reason_start" in each["sql"]]
    assert len(rows) == 1
    for column in ["args", "kwargs", "return_value"]:
        assert f'"{column}"' not in rows[0]
    assert 'ORDER BY "pgjobs_job"."id" DESC' in rows[0]
    assert "DISTINCT" not in " ".join(each["sql"] for each in queries).upper()


def test_the_list_reads_the_primary_key_from_its_end(admin_client):
    make_many(3)
    plan = plan_of(statement_of_rows(admin_client), "seqscan", "sort")
    assert "Index Scan Backward using pgjobs_job_pkey" in plan


@pytest.mark.parametrize("status", ["SUCCESSFUL", "FAILED", "CANCELLED", "WAITING"])
def test_a_status_is_found_by_an_index(admin_client, status):
    make_many(3)
    rows = statement_of_rows(admin_client, f"status={status}")
    plan = plan_of(rows, "seqscan", "indexscan")
    name = "line" if status == "WAITING" else "finished"
    assert f"Bitmap Index Scan on pgjobs_job_{name}" in plan


def test_the_number_of_jobs_is_shown_when_it_is_known(admin_client, few_counted):
    make_many(100)
    page = text_of(admin_client.get(LIST))
    assert "100 jobs" in page
    assert "more than" not in page


def test_page_says_that_there_are_more_jobs_than_it_counts(admin_client, few_counted):
    make_many(101)
    page = text_of(admin_client.get(LIST))
    assert "more than 100 jobs" in page
    assert not re.search(r"10[01] (results?|jobs? ?<|selected)", page)


def test_the_last_page_is_the_last_that_is_counted(admin_client, few_counted):
    make_many(170)
    assert len(ids_in(admin_client.get(f"{LIST}?p=2"))) == 50
    assert admin_client.get(f"{LIST}?p=3")["Location"] == f"{LIST}?e=1"
    assert admin_client.get(f"{LIST}?e=1").status_code == 200


def test_select_all_names_no_number(admin_client, few_counted):
    make_many(130)
    page = text_of(admin_client.get(LIST))
    assert "Select all matching jobs" in page
    assert "Select all 100" not in page
    assert "All 100" not in page


def test_facets_cannot_be_had(admin_client, django_assert_max_num_queries):
    make_many(3)
    admin_client.get(LIST)
    with django_assert_max_num_queries(12):
        admin_client.get(f"{LIST}?_facets=True")


# Search


def test_an_id_finds_its_job(admin_client):
    job = make_job()
    make_job()
    for term in [f"{job.pk}", f" {job.pk} ", f"%23{job.pk}"]:
        assert ids_in(admin_client.get(f"{LIST}?q={term}")) == [job.pk]


def test_a_task_is_found_by_its_name_or_the_beginning_of_it(admin_client):
    job = make_job(task="mail.send_welcome")
    make_job(task="other.mail.send")
    for term in ["mail.send_welcome", "mail.", "mail.send_w"]:
        assert ids_in(admin_client.get(f"{LIST}?q={term}")) == [job.pk]
    for term in ["send", "mail%25", "mail_send", "MAIL."]:
        assert ids_in(admin_client.get(f"{LIST}?q={term}")) == []


def test_the_id_is_searched_without_a_cast(admin_client):
    with CaptureQueriesContext(connection) as queries:
        admin_client.get(f"{LIST}?q=12")
    rows = [each["sql"] for each in queries if "reason_start" in each["sql"]]
    assert '"pgjobs_job"."id" = 12' in rows[0]
    assert "::text" not in rows[0]


@pytest.mark.parametrize(
    "term",
    [
        "%00",
        "9" * 19,
        "9" * 20,
        "9" * 5000,
        "-1",
        "1e5",
        "%F0%9F%99%82",
        "%ED%A0%80",
        "%27%3B--",
        "%25",
        "\\",
        "x" * 300,
        "%D9%A1",
    ],
)
def test_any_search_is_answered(term, admin_client):
    make_job()
    response = admin_client.get(f"{LIST}?q={term}")
    assert response.status_code == 200
    assert term == "%00" or ids_in(response) == []


def test_a_query_of_a_megabyte_is_refused(admin_client):
    assert admin_client.get(f"{LIST}?q={'x' * 1_000_000}").status_code == 400


# Filters


@pytest.mark.parametrize("status", STATUSES)
def test_the_status_filters(status, admin_client):
    jobs = {status: make_job(status).pk for status in STATUSES}
    response = admin_client.get(f"{LIST}?status={status}")
    assert ids_in(response) == [jobs[status]]


def test_queues_are_offered_that_tasks_name_or_where_jobs_are_ready(admin_client):
    for queue in ["reports", "mail", "mail"]:
        make_job("READY", queue_name=queue)
    make_job("SUCCESSFUL", queue_name="old")
    (offered,) = [
        [choice for choice, _ in spec.lookup_choices]
        for spec in admin_client.get(LIST).context["cl"].filter_specs
        if spec.parameter_name == "queue_name"
    ]
    assert {"default", "mail", "reports"} <= set(offered)
    assert "old" not in offered
    response = admin_client.get(f"{LIST}?queue_name=old")
    assert len(ids_in(response)) == 1
    assert ">old</" in text_of(response)


def test_queues_are_found_by_hopping_along_an_index(admin_client):
    from pgjobs.admin.filters import QUEUES

    make_many(2000, queue_name="a")
    make_job("READY", queue_name="b")
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE pgjobs_job")
        cursor.execute(f"EXPLAIN ANALYZE {QUEUES}", {"limit": 100})
        plan = "\n".join(line for (line,) in cursor.fetchall())
    assert "pgjobs_job_in_queue" in plan
    assert "Seq Scan on pgjobs_job" not in plan


def test_tasks_are_offered_from_the_registry(admin_client):
    job = make_job(task="tests.add")
    make_job(task="tests.noop")
    (offered,) = [
        dict(spec.lookup_choices)
        for spec in admin_client.get(LIST).context["cl"].filter_specs
        if spec.parameter_name == "task"
    ]
    first = min(task.name for task in registry.tasks.values())
    assert first in offered, "without a job, too"
    assert ids_in(admin_client.get(f"{LIST}?task=tests.add")) == [job.pk]


def test_recent_jobs_are_filtered_by_the_clock_of_the_database(admin_client):
    insert(enqueued_at="now() - interval '2 hours'")
    new = insert()
    assert ids_in(admin_client.get(f"{LIST}?enqueued=hour")) == [new]
    assert len(ids_in(admin_client.get(f"{LIST}?enqueued=day"))) == 2


def test_the_jobs_of_a_worker_are_filtered(admin_client):
    worker = make_worker("mine")
    job = make_job("RUNNING", worker_id=worker.pk, attempts=1)
    make_job("RUNNING")
    response = admin_client.get(f"{LIST}?worker={worker.pk}")
    assert ids_in(response) == [job.pk]
    assert ">mine</" in text_of(response)


@pytest.mark.parametrize(
    "query",
    [
        "status=%00",
        "status=nonsense",
        "queue_name=%00",
        "task=%00",
        "enqueued=%00",
        "enqueued=never",
        "worker=abc",
        "worker=%00",
        "worker=99999999999999999999",
        "p=-1",
        "p=1000000000",
        "p=%00",
        "p=abc",
        f"p={'9' * 5000}",
        "o=99",
        "o=-99.%00.abc",
        "o=1.2.3.4.5.6.7.8.9",
        "all=",
        "_popup=1",
        "e=1",
        "_facets=%00",
        "status=FAILED&status=READY",
        "q=%00&status=READY",
    ],
)
def test_any_parameter_is_answered(query, admin_client):
    make_job()
    response = admin_client.get(f"{LIST}?{query}")
    assert response.status_code in (200, 302)
    if response.status_code == 302:
        assert response["Location"] == f"{LIST}?e=1"


@pytest.mark.parametrize(
    "lookup",
    [
        "status__exact=%00",
        "kwargs__password__startswith=s",
        "args__0=1",
        "args__x=1",
        "return_value__contains=1",
        "reason__regex=(a%2B)%2B",
        "worker__host=x",
        "progress__log__contains=x",
        "attempts_made__traceback__contains=x",
        "id__gt=1",
        "nonsense=1",
        "_to_field=lease_token",
    ],
)
def test_only_the_offered_filters_can_be_used(lookup, admin_client):
    make_job(kwargs={"password": "secret"})
    response = admin_client.get(f"{LIST}?{lookup}")
    assert response.status_code == 400


def test_the_search_box_says_what_it_searches(admin_client):
    assert "the beginning of a task" in text_of(admin_client.get(LIST))


# Cells


def test_a_row_that_python_cannot_read_is_listed(admin_client):
    insert(kwargs=f"""('{{"x": {"9" * 5000}}}')::jsonb""")
    insert(args=f"'{'[' * 3000}{']' * 3000}'::jsonb")
    insert(
        status="'SUCCESSFUL'",
        finished_at="now()",
        return_value=f"'{'9' * 5000}'::jsonb",
    )
    response = admin_client.get(LIST)
    assert response.status_code == 200
    assert len(ids_in(response)) == 3


HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "{{ 700007|add:7 }}{% now %}",
    "</textarea></pre>",
    "\x1b[31mred",
    "\u202eright to left",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_takes_effect(text, admin_client):
    worker = make_worker(name=text, host=text, queues=text)
    make_job("FAILED", task=text, reason=text, queue_name=text.replace("\x1b", ""))
    make_job("RUNNING", worker_id=worker.pk, attempts=1, task=text)
    page = text_of(admin_client.get(LIST))
    # Django's label of a checkbox is an attribute, where only the escaping matters.
    assert not contains_effect(re.sub('aria-label="[^"]*"', "", page))


def contains_effect(page: str) -> bool:
    effects = ["<script>alert", "<img src=x", "\x1b", "\u202e", "</textarea>", "700014"]
    return any(effect in page for effect in effects)


def test_long_texts_are_cut(admin_client):
    make_job("FAILED", reason="x" * 10_000_000, queue_name="q" * 200)
    page = text_of(admin_client.get(LIST))
    assert len(page) < 200_000
    assert "x" * 250 not in page


def test_the_status_is_a_word_and_a_class(admin_client):
    for status in STATUSES:
        make_job(status)
    page = text_of(admin_client.get(LIST))
    for status in STATUSES:
        assert (
            f'class="pgjobs-status pgjobs-{status.lower()}">{status.title()}<' in page
        )


def test_nothing_is_inline(admin_client):
    make_job()
    for url in [LIST, f"{LIST}?status=FAILED"]:
        page = text_of(admin_client.get(url))
        assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*src=)", page)


def test_a_message_says_what_a_null_character_does(admin_client):
    response = admin_client.get(f"{LIST}?q=%00")
    assert messages_of(response) or "Null characters" in text_of(response)


def test_operators_see_the_list(db):
    client = operator(*ALL_PERMISSIONS)
    make_job()
    assert client.get(LIST).status_code == 200
