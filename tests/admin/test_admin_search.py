"""What the box of the list finds: arguments, keys and reasons of the newest jobs."""

import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from pgjobs.models import Progress
from pgjobs.reports import job_filters
from tests.actors import leave_out_triggers
from tests.operators import (
    LIST,
    found,
    insert,
    make_job,
    make_worker,
    operator,
    plan_of,
    statements_of,
    text_of,
)

pytestmark = pytest.mark.django_db

MAY_SEARCH = ("view_job", "view_job_arguments")


@pytest.mark.parametrize(
    ("term", "arguments"),
    [
        ("order_id:87", {"order_id": 87}),
        ("order_id:87", {"order_id": "87"}),
        ("customer.country:FR", {"customer": {"country": "FR", "x": 1}}),
        ('name:"Ada Lovelace"', {"name": "Ada Lovelace"}),
        ("is_paid:true", {"is_paid": True}),
        ("a:1 b:2", {"a": 1, "b": "2", "c": 3}),
    ],
)
def test_argument_is_searched_by_its_value(term, arguments):
    job = make_job(kwargs=arguments)
    make_job(kwargs={"order_id": 8, "a": 1})
    assert found(operator(*MAY_SEARCH), q=term) == [job.pk]


def test_reason_lock_and_unique_key_are_searched():
    refused = make_job(reason="OSError: card DECLINED by the bank")
    locked = make_job("WAITING", keys={"lock": "shop 7"})
    unique = make_job(unique_key="import 9", unique_for="unfinished")
    client = operator(*MAY_SEARCH)
    assert found(client, q='reason:"card declined"') == [refused.pk]
    assert found(client, q='lock:"shop 7"') == [locked.pk]
    assert found(client, q='unique:"import 9"') == [unique.pk]
    assert found(client, q=f"id:{locked.pk}") == [locked.pk]


def test_arguments_are_searched_by_those_who_may_see_them_only():
    job = make_job(kwargs={"order_id": 87}, reason="declined")
    make_job(unique_key="k", unique_for="unfinished")
    client = operator("view_job")
    assert found(client, q="order_id:87") == []
    assert found(client, q="unique:k") == []
    assert found(client, q="reason:declined") == [job.pk]
    assert "You may not see the arguments" in text_of(client.get(LIST, {"q": "a:1"}))


def test_what_is_masked_cannot_be_guessed_by_searching(settings):
    settings.PGJOBS = {"SENSITIVE": ["iban"]}
    make_job(kwargs={"password": "hunter2", "bank": {"iban": "DE12"}})
    client = operator(*MAY_SEARCH)
    assert found(client, q="password:hunter2") == []
    assert found(client, q="bank.iban:DE12") == []


def test_search_reads_the_newest_jobs_only_and_says_so(monkeypatch):
    monkeypatch.setattr(job_filters, "LOOKED_AT", 2)
    jobs = [make_job(kwargs={"a": 1}).pk for _ in range(3)]
    client = operator(*MAY_SEARCH)
    assert found(client, q="a:1") == jobs[:0:-1]
    assert "Searched in the newest" in text_of(client.get(LIST, {"q": "a:1"}))


INDEX = "CREATE INDEX {} ON pgjobs_job USING gin (kwargs jsonb_path_ops)"


def make_index() -> None:
    with connection.cursor() as cursor:
        cursor.execute(INDEX.format(job_filters.ARGUMENTS_INDEX))


def test_all_jobs_are_searched_where_the_project_has_made_the_index(monkeypatch):
    monkeypatch.setattr(job_filters, "LOOKED_AT", 1)
    jobs = [make_job(kwargs={"a": 1, "b": each}).pk for each in (1, 2)]
    make_job(kwargs={"a": 2, "b": 1})
    client = operator(*MAY_SEARCH)
    assert found(client, q="a:1 b:1") == []
    make_index()
    assert found(client, q="a:1") == jobs[::-1]
    assert found(client, q="a:1 b:1") == jobs[:1]
    assert found(client, q=f"a:1 id:{jobs[1]}") == jobs[1:]
    assert found(client, q="a:1", status="READY") == []
    assert "Searched in all jobs" in text_of(client.get(LIST, {"q": "a:1"}))


def test_search_takes_the_index_of_arguments_however_few_jobs_match(admin_client):
    make_index()
    leave_out_triggers("pgjobs_job")
    with connection.cursor() as cursor:
        cursor.execute(MANY_JOBS)
        cursor.execute("ANALYZE pgjobs_job")
    with CaptureQueriesContext(connection) as queries:
        assert len(found(admin_client, q="order_id:17")) == 1
    query = next(each["sql"] for each in queries if "@>" in each["sql"])
    assert query.endswith("LIMIT 10001")
    plan = plan_of(query)
    assert job_filters.ARGUMENTS_INDEX in plan and "Seq Scan" not in plan


MANY_JOBS = """
INSERT INTO pgjobs_job (task, turn, kwargs)
SELECT 'tests.noop', 0, jsonb_build_object('order_id', i, 'note', repeat('x', 100))
FROM generate_series(1, 20000) AS i
"""


@pytest.mark.parametrize(
    "term", ["a:%00", "a:" + "9" * 5000, "id:x", "a..b:1", ".:1", "a:[[[", "a:NaN"]
)
def test_any_term_is_answered(term):
    make_job(kwargs={"a": 2})
    assert operator(*MAY_SEARCH).get(f"{LIST}?q={term}").status_code == 200


def test_search_reads_a_limited_number_of_rows_by_the_primary_key(admin_client):
    insert()
    with CaptureQueriesContext(connection) as queries:
        admin_client.get(LIST, {"q": "a:1"})
    searches = [each["sql"] for each in queries if "is_match" in each["sql"]]
    assert searches
    for query in searches:
        assert re.search(r'ORDER BY (1|"pgjobs_job"."id") DESC LIMIT 10000\) AS', query)
        assert "WHERE" not in query.replace("(WHERE is_match)", "")


# Filters


def test_ended_jobs_are_filtered_by_their_age():
    old = insert(status="'FAILED'", finished_at="now() - interval '2 hours'")
    new = insert(status="'FAILED'", finished_at="now()")
    insert()
    client = operator("view_job")
    assert found(client, ended="hour") == [new]
    assert found(client, ended="day") == [new, old]
    assert found(client, ended="90m") == [new]


def test_living_workers_are_offered():
    worker = make_worker("mine")
    specs = operator("view_job").get(LIST).context["cl"].filter_specs
    (offered,) = [each for each in specs if each.parameter_name == "worker"]
    assert (str(worker.pk), "mine") in offered.lookup_choices


@pytest.mark.parametrize("value", ["1e400d", "99999999d", "-1h", "x", "nan", "%00"])
def test_any_age_is_answered(value):
    assert operator("view_job").get(f"{LIST}?ended={value}").status_code == 302


# Nothing found


@pytest.mark.parametrize(
    ("model", "cure"),
    [
        ("job", "No job has been enqueued yet."),
        ("worker", "manage.py runjobs"),
        ("queue", "when a worker claims its first job"),
    ],
)
def test_empty_list_says_what_to_do_next(model, cure):
    client = operator(f"view_{model}")
    address = f"/admin/pgjobs/{model}/"
    assert cure in text_of(client.get(address))
    assert cure not in text_of(client.get(address, {"q": "no such"}))


def test_search_that_finds_no_task_says_how_to_search_in_reasons():
    make_job()
    client = operator("view_job")
    text = text_of(client.get(LIST, {"q": '<i>payment "gateway'}))
    assert "reason:&quot;&lt;i&gt;payment gateway&quot;" in text
    assert "reason:&quot;" not in text_of(client.get(LIST, {"q": "noop"}))
    assert "reason:&quot;" not in text_of(client.get(LIST, {"q": "reason:x"}))


# Tabs


def tabs(client, **query) -> dict[str, str]:
    return {tab.label: tab.number for tab in client.get(LIST, query).context["tabs"]}


def test_tabs_count_the_jobs_of_each_status():
    for status in ["FAILED", "FAILED", "RUNNING", "WAITING"]:
        make_job(status)
    shown = tabs(operator("view_job"))
    assert shown["Failed"] == "2"
    assert shown["Running"] == "1"
    assert shown["Waiting"] == "1"
    assert shown["Ready"] == "0"


def test_tabs_keep_the_other_filters():
    make_job()
    response = operator("view_job").get(LIST, {"task": "tests.noop"})
    assert response.context["tabs"][6].address == "?status=FAILED&task=tests.noop"


def test_tabs_count_by_indexes_only(admin_client):
    make_job()
    (counts,) = [sql for sql in statements_of(admin_client) if "ended (status)" in sql]
    assert "Seq Scan on pgjobs_job" not in plan_of(counts, "seqscan")


def test_running_job_shows_its_worker_and_its_progress():
    worker = make_worker("machine 7")
    job = make_job("RUNNING", worker_id=worker.pk, attempts=1)
    Progress.objects.create(
        job=job, done=3, total=4, message="<b>rows</b>", updated_at=job.enqueued_at
    )
    text = text_of(operator("view_job").get(LIST))
    assert "machine 7</a>" in text
    assert '<progress value="3" max="4"' in text
    assert "75% &lt;b&gt;rows" in text
