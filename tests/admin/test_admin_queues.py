"""The admin of queues: people look at them, pause, resume, limit and describe them."""

import pytest
from django.test import Client

from pgjobs.models import Queue
from tests.operators import make_job, messages_of, operator, text_of

pytestmark = pytest.mark.django_db

LIST = "/admin/pgjobs/queue/"


def make_queue(name: str = "mail", **columns) -> Queue:
    return Queue.objects.create(name=name, **columns)


def paused(name: str = "mail") -> Queue:
    queue = make_queue(name)
    queue.pause()
    return queue


def address(verb: str, queue: Queue) -> str:
    return f"{LIST}{verb}/{queue.pk}/"


@pytest.mark.parametrize("verb", ["pause", "resume"])
def test_button_leads_to_a_page_and_only_its_form_does_it(verb):
    client = operator("view_queue", "pause_queue")
    queue = make_queue() if verb == "pause" else paused()
    before = queue.paused_at
    assert f"/queue/{verb}/{queue.pk}/" in text_of(client.get(LIST))
    response = client.get(address(verb, queue))
    assert "csrfmiddlewaretoken" in text_of(response)
    queue.refresh_from_db()
    assert queue.paused_at == before
    response = client.post(address(verb, queue))
    assert response.status_code == 302
    assert messages_of(response) == [f"mail is {verb}d."]
    queue.refresh_from_db()
    assert (queue.paused_at is None) == (verb == "resume")
    response = client.post(address(verb, queue))
    assert "was" in messages_of(response)[-1]


@pytest.mark.parametrize("verb", ["pause", "resume"])
@pytest.mark.parametrize("method", ["get", "post"])
def test_pausing_needs_its_own_permission(verb, method):
    queue = make_queue() if verb == "pause" else paused()
    before = queue.paused_at
    client = operator("view_queue", "change_queue", "add_queue")
    assert f"/queue/{verb}/" not in text_of(client.get(LIST))
    assert getattr(client, method)(address(verb, queue)).status_code == 403
    assert getattr(Client(), method)(address(verb, queue)).status_code == 302
    queue.refresh_from_db()
    assert queue.paused_at == before


def test_form_edits_limit_and_note_and_nothing_else():
    queue = paused()
    client = operator("view_queue", "change_queue")
    page = f"{LIST}{queue.pk}/change/"
    assert client.get(page).status_code == 200
    data = {"max_running": "0", "note": "", "name": "other", "paused_at": ""}
    assert "greater than or equal to 1" in text_of(client.post(page, data))
    assert client.post(page, data | {"max_running": "7"}).status_code == 302
    row = Queue.objects.get()
    assert (row.name, row.max_running) == ("mail", 7)
    assert row.paused_at is not None
    assert client.post(f"{LIST}{queue.pk}/delete/").status_code == 403


@pytest.mark.parametrize("name", ["a,b", "a\x07b", "", "x" * 201])
def test_form_refuses_what_no_queue_is_called(name):
    client = operator("view_queue", "add_queue", "change_queue")
    client.post(f"{LIST}add/", {"name": name, "note": ""})
    assert not Queue.objects.exists()
    client.post(f"{LIST}add/", {"name": "mail", "note": ""})
    assert Queue.objects.get().name == "mail"


def test_list_shows_states_and_counts_with_few_queries(django_assert_max_num_queries):
    client = operator("view_queue", "pause_queue")
    for number in range(20):
        make_queue(f"queue-{number}")
    paused("<b>")
    for status in ("READY", "READY", "SCHEDULED", "RUNNING"):
        make_job(status, queue_name="<b>")
    client.get(LIST)
    with django_assert_max_num_queries(13):
        page = text_of(client.get(LIST))
    assert "&lt;b&gt;" in page
    assert "<b>" not in page
    assert "queue_name=%3Cb%3E&amp;status=READY" in page
    assert ">2 ready</a>" in page
    assert "Paused" in page
