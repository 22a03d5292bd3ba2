"""The page of the audit trail: filters, links, export."""

import csv
import io
import json

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from pgjobs.features.audit import admin
from pgjobs.models import AuditEntry, Queue
from tests.operators import make_job, operator, text_of

pytestmark = pytest.mark.django_db

LIST = "/admin/pgjobs/auditentry/"


def entry(act: str = "retry", model: str = "job", **columns) -> AuditEntry:
    values = {"actor": "ada", "via": "page", "number": 1}
    return AuditEntry.objects.create(act=act, model=model, **values | columns)


def found(client, **query) -> list[int]:
    response = client.get(LIST, query)
    assert response.status_code == 200
    return [each.pk for each in response.context["cl"].result_list]


def exported(client, kind: str, **query) -> str:
    response = client.get(f"{LIST}export.{kind}", query)
    assert response.status_code == 200
    return b"".join(response.streaming_content).decode()


def test_only_who_may_see_the_audit_trail_sees_it():
    entry()
    client = operator("view_job")
    for path in (LIST, f"{LIST}export.csv"):
        assert client.get(path).status_code == 403


def test_filters_narrow_the_list():
    client = operator("view_auditentry")
    by_page = entry(at="2020-01-01T00:00Z")
    by_command = entry("pause", "queue", via="command", actor="bob@vm")
    assert found(client) == [by_command.pk, by_page.pk]
    assert found(client, act="pause") == [by_command.pk]
    assert found(client, model="job") == [by_page.pk]
    assert found(client, via="command") == [by_command.pk]
    assert found(client, since="day") == [by_command.pk]


def test_search_finds_people_filters_notes_and_ids():
    client = operator("view_auditentry")
    one = entry(actor="ada", object_id=4711)
    other = entry(actor="bob", note="provider is down", chosen="?status=FAILED")
    assert found(client, q="AD") == [one.pk]
    assert found(client, q="provider") == [other.pk]
    assert found(client, q="status=FAILED") == [other.pk]
    assert found(client, q="#4711") == [one.pk]
    assert found(client, q="x" * 300) == found(client, q="nobody") == []


@pytest.mark.parametrize(
    "query", ["act=\0", "act=" + "x" * 99, "model=x", "via=x", "since=x", "q=%00"]
)
def test_filter_that_cannot_be_read_is_no_server_error(query):
    entry()
    response = operator("view_auditentry").get(f"{LIST}?{query}")
    assert response.status_code in (200, 302, 400)


def test_rows_have_the_names_of_what_was_acted_on_and_lead_there():
    queue = Queue.objects.create(name="mail")
    job = make_job()
    entry("pause", "queue", object_id=queue.pk)
    entry("retry", object_id=job.pk)
    entry("retry", object_id=job.pk + 1_000)  # it is gone
    text = text_of(operator("view_auditentry", "view_queue", "view_job").get(LIST))
    assert f'href="/admin/pgjobs/queue/{queue.pk}/change/"' in text
    assert "(mail)" in text
    assert f'href="/admin/pgjobs/job/{job.pk}/change/"' in text
    assert f"/job/{job.pk + 1_000}/" not in text
    text = text_of(operator("view_auditentry").get(LIST))
    assert "/admin/pgjobs/queue/" not in text


def test_filter_of_an_act_on_many_jobs_leads_to_their_list():
    entry(chosen="Selected: all that match ?status=FAILED&error=OSError")
    entry(chosen='Selected: all that match ?q="><script>')
    text = text_of(operator("view_auditentry", "view_job").get(LIST))
    assert 'href="/admin/pgjobs/job/?status=FAILED&amp;error=OSError"' in text
    assert "<script>" not in text.replace('<script src="', "")


def test_page_of_an_act_shows_all_of_it_and_nothing_can_be_changed():
    one = entry(chosen="c" * 500, note="why " * 100)
    client = operator("view_auditentry", "delete_job")
    text = text_of(client.get(f"{LIST}{one.pk}/change/"))
    assert "c" * 500 in text
    assert "why " * 100 in text
    assert client.post(f"{LIST}{one.pk}/change/", {"note": "x"}).status_code == 403
    assert client.get(f"{LIST}{one.pk}/delete/").status_code == 403
    assert client.get(f"{LIST}add/").status_code == 403


def test_act_that_goes_on_or_was_cut_off_is_called_unfinished():
    entry(number=None)
    assert "unfinished" in text_of(operator("view_auditentry").get(LIST))


# Export


def test_export_has_the_entries_of_the_filtered_list_and_is_audited():
    client = operator("view_auditentry")
    entry("pause", "queue")
    one = entry(note="=HYPERLINK(1)", object_id=7)
    (row,) = csv.DictReader(io.StringIO(exported(client, "csv", act="retry")))
    assert (row["id"], row["object_id"], row["actor"]) == (str(one.pk), "7", "ada")
    assert row["note"] == "'=HYPERLINK(1)"
    last = AuditEntry.objects.order_by("-pk")[0]
    assert (last.act, last.model, last.number) == ("export", "auditentry", 1)
    assert "act=retry" in last.chosen
    rows = json.loads(exported(client, "json", act="retry"))
    assert [each["id"] for each in rows] == [one.pk]
    assert client.get(f"{LIST}export.csv", {"model": "x"}).status_code == 400


# Many entries


def test_list_that_is_narrowed_looks_at_the_latest_and_says_so(monkeypatch):
    monkeypatch.setattr(admin, "LOOKED_AT", 2)
    client = operator("view_auditentry")
    old, *_ = [entry() for _ in range(3)]
    assert old.pk in found(client)
    assert old.pk not in found(client, act="retry")
    assert "Only the latest 2 entries" in text_of(client.get(LIST, {"act": "retry"}))
    assert "Only the latest" not in text_of(client.get(LIST))
    rows = json.loads(exported(client, "json", act="retry"))
    assert old.pk in [each["id"] for each in rows]


def test_page_sends_as_many_statements_for_many_entries():
    client = operator("view_auditentry", "view_job")
    numbers = []
    for _ in range(2):
        for _ in range(5):
            entry(object_id=make_job().pk)
        with CaptureQueriesContext(connection) as queries:
            client.get(LIST)
        numbers.append(len(queries))
    assert numbers[0] == numbers[1]


def test_filter_offers_the_acts_of_late_and_the_one_that_is_chosen():
    entry("retry")
    entry("pause", "queue")
    client = operator("view_auditentry")
    page = text_of(client.get(LIST))
    assert "act=retry" in page and "act=pause" in page
    assert "act=mute" not in page
    assert "act=mute" in text_of(client.get(LIST, {"act": "mute"}))


def test_number_of_entries_is_said_in_words():
    entry()
    entry()
    page = text_of(operator("view_auditentry").get(LIST))
    assert "2 audit entries" in page
    assert "<h1>Audit trail</h1>" in page
