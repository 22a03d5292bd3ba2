"""The audit trail: every act of a person, by page, command or SQL."""

from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from pgjobs import enqueue, task
from pgjobs.models import AuditEntry, Job, Queue
from pgjobs.queue.statements import execute_on
from pgjobs.tasks.registry import registry
from pgjobs.worker.upkeep.pruning import prune_audit
from tests.operators import LIST, insert, make_job, operator, url_of

pytestmark = pytest.mark.django_db

ENTRY = ("via", "act", "model", "object_id", "number")


def entries() -> list[tuple]:
    return list(AuditEntry.objects.order_by("pk").values_list(*ENTRY))


def test_button_is_audited_with_its_operator_and_reason():
    job = make_job("READY")
    client = operator("view_job", "cancel_job")
    client.get(url_of("cancel", job))
    assert entries() == []
    client.post(url_of("cancel", job), {"reason": "Withdrawn."})
    assert entries() == [("page", "cancel", "job", job.pk, 1)]
    entry = AuditEntry.objects.get()
    assert (entry.actor, entry.note) == (client.user.username, "Withdrawn.")
    client.post(url_of("cancel", job))
    assert len(entries()) == 1  # it changed nothing


def test_bulk_act_is_audited_once_with_its_filter():
    jobs = [make_job("FAILED") for _ in range(3)]
    data = {
        "action": "retry_selected",
        "select_across": "1",
        "_selected_action": jobs[0].pk,
        "confirmed": "yes",
    }
    operator("view_job", "retry_job").post(f"{LIST}?status=FAILED", data)
    assert entries() == [("page", "retry", "job", None, 3)]
    assert "?status=FAILED" in AuditEntry.objects.get().chosen


def test_act_that_breaks_off_leaves_its_entry(monkeypatch):
    def broken(verb, queryset, **parameters):
        raise RuntimeError("the server was stopped")

    monkeypatch.setattr("pgjobs.queue.acts.act", broken)
    client = operator("view_job", "cancel_job")
    client.raise_request_exception = False
    job = make_job("READY")
    assert client.post(url_of("cancel", job)).status_code == 500
    assert entries() == [("page", "cancel", "job", job.pk, None)]


def rest(): ...


def test_refused_act_leaves_no_entry():
    task(name="tests.once_at_a_time", unique=True)(rest)
    job = make_job("SUCCESSFUL", task="tests.once_at_a_time")
    enqueue(registry.get("tests.once_at_a_time"))
    operator("view_job", "add_job").post(url_of("run_again", job), {})
    assert Job.objects.count() == 2
    assert not AuditEntry.objects.exists()


def test_note_of_a_pause_is_audited():
    queue = Queue.objects.create(name="mail")
    client = operator("view_queue", "pause_queue")
    client.post(f"/admin/pgjobs/queue/pause/{queue.pk}/", {"note": "It moves."})
    assert AuditEntry.objects.get().note == "It moves."


def test_forms_of_queues_are_audited():
    client = operator("view_queue", "add_queue", "change_queue", "delete_queue")
    client.post("/admin/pgjobs/queue/add/", {"name": "mail", "note": ""})
    queue = Queue.objects.get()
    page = f"/admin/pgjobs/queue/{queue.pk}/"
    client.post(f"{page}change/", {"max_running": "7", "note": ""})
    client.post(f"{page}delete/", {"post": "yes"})
    assert [(act, number) for _, act, _, _, number in entries()] == [
        ("add", 1),
        ("change", 1),
        ("delete", 1),
    ]
    assert not Queue.objects.exists()


def test_functions_of_sql_are_audited():
    id = insert()
    with connection.cursor() as cursor:
        for function in ("cancel", "cancel", "retry"):
            cursor.execute(f"SELECT pgjobs_{function}(%s)", [id])
        cursor.execute("SELECT session_user::text")
        (user,) = cursor.fetchone()
    noted = [("SQL", "cancel", "job", id, 1), ("SQL", "retry", "job", id, 1)]
    assert entries() == noted
    assert set(AuditEntry.objects.values_list("actor", flat=True)) == {user}


def test_old_entries_are_deleted(settings):
    for days in (1, 400):
        AuditEntry.objects.create(
            at=timezone.now() - timedelta(days=days),
            actor="ada",
            via="page",
            act="retry",
            model="job",
            number=days,
        )
    settings.PGJOBS = {"AUDIT_RETENTION": timedelta(days=365).total_seconds()}
    assert prune_audit(execute_on("default")) == 1
    assert AuditEntry.objects.get().number == 1
