"""Workers are quieted, resumed and stopped from their pages, by who may do so."""

from datetime import timedelta

import pytest
from django.utils import timezone

from pgjobs.models import AuditEntry, Worker
from tests.operators import make_job, make_worker, messages_of, operator, text_of

pytestmark = pytest.mark.django_db

LIST = "/admin/pgjobs/worker/"
MAY = ("view_worker", "order_worker")


def page_of(worker) -> str:
    return f"{LIST}{worker.pk}/change/"


def test_worker_is_quieted_and_resumed_from_its_page():
    worker, client = make_worker("web1"), operator(*MAY)
    make_job("RUNNING", worker_id=worker.pk, attempts=1)
    assert f"{LIST}quiet/{worker.pk}/" in text_of(client.get(page_of(worker)))
    asked = text_of(client.get(f"{LIST}quiet/{worker.pk}/"))
    assert "claims no more jobs" in asked
    assert "Its running jobs go on until they end." in asked
    worker.refresh_from_db()
    assert worker.wanted == ""
    done = client.post(f"{LIST}quiet/{worker.pk}/", {"audit_note": "the disk is full"})
    assert messages_of(done) == ["web1 claims no more jobs."]
    worker.refresh_from_db()
    assert worker.wanted == "quiet"
    page = text_of(client.get(page_of(worker)))
    assert '">Quiet</span>' in page
    assert f"{LIST}quiet/{worker.pk}/" not in page
    client.post(f"{LIST}resume/{worker.pk}/")
    worker.refresh_from_db()
    assert worker.wanted == ""
    entries = AuditEntry.objects.order_by("pk").values_list("act", "model", "note")
    assert list(entries) == [
        ("quiet", "worker", "the disk is full"),
        ("resume", "worker", ""),
    ]


def test_worker_is_stopped_from_its_page_and_says_so():
    worker, client = make_worker("web1"), operator(*MAY)
    asked = text_of(client.get(f"{LIST}stop/{worker.pk}/"))
    assert "as after SIGTERM" in asked and "pgjobs-harmful" in asked
    client.post(f"{LIST}stop/{worker.pk}/")
    worker.refresh_from_db()
    assert worker.wanted == "stop"
    page = text_of(client.get(LIST))
    assert '">Stopping</span>' in page
    assert f"{LIST}stop/{worker.pk}/" not in page
    again = client.post(f"{LIST}stop/{worker.pk}/")
    assert messages_of(again)[-1] == "web1 has ended, or was already told so."
    assert AuditEntry.objects.count() == 1


def test_several_workers_are_quieted_from_the_list():
    workers = [make_worker(f"web{number}") for number in range(3)]
    data = {
        "action": "quiet_selected",
        "_selected_action": [each.pk for each in workers[:2]],
        "confirmed": "yes",
    }
    operator(*MAY).post(LIST, data)
    wanted = Worker.objects.order_by("name").values_list("wanted", flat=True)
    assert list(wanted) == ["quiet", "quiet", ""]


@pytest.mark.parametrize("verb", ["quiet", "resume", "stop"])
def test_orders_need_their_permission(verb):
    worker, client = make_worker(), operator("view_worker")
    page = text_of(client.get(page_of(worker)))
    assert f"{LIST}{verb}/" not in page + text_of(client.get(LIST))
    address = f"{LIST}{verb}/{worker.pk}/"
    assert client.get(address).status_code == client.post(address).status_code == 403
    worker.refresh_from_db()
    assert worker.wanted == ""


def test_lost_worker_gets_no_orders():
    before = timezone.now() - timedelta(minutes=5)
    worker = make_worker("gone", lease_until=before, heartbeat_at=before)
    page = text_of(operator(*MAY).get(page_of(worker)))
    assert f"{LIST}quiet/" not in page and f"{LIST}stop/" not in page


def test_overview_shows_quiet_workers_and_does_not_count_their_slots():
    make_worker("web1", queues="", slots=4)
    make_worker("web2", queues="", slots=3, wanted="quiet")
    page = text_of(operator("view_job", "view_worker").get("/admin/pgjobs/overview/"))
    assert ">Quiet</span>" in page
    assert "of 4 slots" in page
