"""The export of a list: what is filtered, streamed, and harmless in a spreadsheet."""

import csv
import io
import json
from functools import partial

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from pgjobs.admin import filters
from pgjobs.features.job_pages import job_rows
from pgjobs.features.job_pages.export import counted, csv_lines
from pgjobs.features.job_pages.job_rows import json_lines
from pgjobs.models import AuditEntry, TaskDefinition
from tests.operators import LIST, insert, make_job, operator

pytestmark = pytest.mark.django_db

CSV, JSON = f"{LIST}export.csv", f"{LIST}export.json"
MAY_SEE = ("view_job", "view_job_arguments")


def content(response) -> str:
    assert response.status_code == 200
    assert response.streaming
    return b"".join(response.streaming_content).decode()


def rows_of(client, **query) -> list[dict]:
    return list(csv.DictReader(io.StringIO(content(client.get(CSV, query)))))


def test_csv_has_the_jobs_of_the_filtered_list():
    jobs = [make_job(), make_job()]
    make_job("READY")
    rows = rows_of(operator("view_job"), status="FAILED")
    assert [row["id"] for row in rows] == [str(job.pk) for job in jobs]
    assert rows[0]["finished_at"] == jobs[0].finished_at.isoformat()


def test_search_of_the_list_is_that_of_the_export():
    job = make_job(kwargs={"a": 1})
    make_job()
    assert [row["id"] for row in rows_of(operator(*MAY_SEE), q="a:1")] == [str(job.pk)]


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r"])
def test_no_cell_is_a_formula(start):
    text = f"{start}HYPERLINK(1)"
    make_job(task=text, reason=text)
    (row,) = rows_of(operator("view_job"))
    assert row["task"] == row["reason"] == f"'{text}"


def test_arguments_are_exported_masked_and_to_those_who_may_see_them_only():
    make_job(kwargs={"order_id": 87, "password": "hunter2"})
    (row,) = rows_of(operator(*MAY_SEE))
    assert json.loads(row["arguments"]) == {"order_id": 87, "password": "********"}
    assert "arguments" not in rows_of(operator("view_job"))[0]


def test_what_the_task_calls_sensitive_is_exported_masked():
    sensitive = {"sensitive": ["iban"]}
    TaskDefinition.objects.create(
        name="shop.pay", parameters={}, options=sensitive, synced_at=timezone.now()
    )
    make_job(task="shop.pay", kwargs={"iban": "DE12345678", "ibanez": "a guitar"})
    client = operator(*MAY_SEE)
    for address in (CSV, JSON):
        text = content(client.get(address))
        assert "DE12345678" not in text
        assert "a guitar" in text


def test_export_leaves_no_matching_job_out(monkeypatch):
    monkeypatch.setattr(filters, "LOOKED_AT_BY_END", 3)
    for _ in range(5):
        make_job()
    assert len(rows_of(operator("view_job"), ended="day")) == 5


def test_json_has_one_object_a_line():
    job = make_job(kwargs={"a": [1, {"b": None}]}, reason='say "no"\n')
    make_job()
    client = operator(*MAY_SEE)
    first, second = json.loads(content(client.get(JSON)))
    assert first["id"] == job.pk
    assert first["arguments"] == {"a": [1, {"b": None}]}
    assert first["reason"] == 'say "no"\n'
    assert second["arguments"] == {}
    assert json.loads(content(client.get(JSON, {"status": "READY"}))) == []


def test_arguments_that_python_cannot_read_are_exported():
    insert(kwargs=f"""('{{"x": {"9" * 5000}}}')::jsonb""")
    assert "9" * 5000 in content(operator(*MAY_SEE).get(JSON))


def test_export_reads_a_batch_at_a_time(monkeypatch):
    monkeypatch.setattr(job_rows, "AT_ONCE", 2)
    jobs = [make_job().pk for _ in range(5)]
    client = operator("view_job")
    with CaptureQueriesContext(connection) as queries:
        rows = rows_of(client)
    assert [int(row["id"]) for row in rows] == jobs
    assert sum("reason_text" in each["sql"] for each in queries) == 3


def test_export_asks_for_the_permission_and_refuses_what_the_list_refuses():
    assert operator().get(CSV).status_code == 403
    client = operator("view_job")
    assert client.get(f"{CSV}?status=nonsense").status_code == 400
    assert client.get(f"{CSV}?kwargs__a=1").status_code == 400
    assert client.get(f"{LIST}export.xml").status_code in (301, 302, 404)


def test_export_leaves_an_entry_in_the_audit_trail():
    for _ in range(3):
        make_job()
    make_job("READY")
    client = operator("view_job")
    rows_of(client, status="FAILED")
    entry = AuditEntry.objects.get()
    assert (entry.actor, entry.act, entry.number) == (client.user.username, "export", 3)
    assert "status=FAILED" in entry.chosen


@pytest.mark.parametrize("lines_of", [json_lines, partial(csv_lines, ["id"])])
def test_export_that_a_client_breaks_off_counts_what_was_read(lines_of):
    audited = AuditEntry.objects.audited("ada", "page", "export", "job")
    lines = lines_of(counted(({"id": number} for number in range(9)), audited))
    while AuditEntry.objects.count() == 0:
        next(lines)
    lines.close()  # as Django does
    assert AuditEntry.objects.get().number in (1, 2)


def test_export_of_nothing_leaves_no_entry():
    rows_of(operator("view_job"))
    assert not AuditEntry.objects.exists()
