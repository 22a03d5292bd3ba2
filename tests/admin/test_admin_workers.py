"""The list of live workers."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import Permission
from django.utils import timezone

from tests.operators import make_job, make_worker, operator, text_of

pytestmark = pytest.mark.django_db

LIST = "/admin/pgjobs/worker/"


@pytest.mark.parametrize(
    ("silent_for", "lease_for", "health"),
    [(0, 30, "Alive"), (11, 30, "Alive"), (14, 16, "Late"), (40, -10, "Lost")],
)
def test_health_follows_from_heartbeat_and_lease(
    silent_for, lease_for, health, admin_client
):
    now = timezone.now()
    worker = make_worker(
        heartbeat_at=now - timedelta(seconds=silent_for),
        lease_until=now + timedelta(seconds=lease_for),
        heartbeat_interval=5,
    )
    for url in [LIST, f"{LIST}{worker.pk}/change/"]:
        page = text_of(admin_client.get(url))
        assert f'pgjobs-{health.lower()}">{health}</span>' in page


def test_the_list_shows_what_a_worker_is_and_does(admin_client):
    worker = make_worker("mine", host="web-1", pid=4321, queues="mail,reports", slots=7)
    for _ in range(2):
        make_job("RUNNING", worker_id=worker.pk, attempts=1)
    page = text_of(admin_client.get(LIST))
    for text in ["mine", "web-1", "4321", "mail, reports", ">7<"]:
        assert text in page
    assert f'href="/admin/pgjobs/job/?worker={worker.pk}">2</a>' in page


def test_the_list_costs_the_same_few_queries_however_many_workers(
    admin_client, django_assert_max_num_queries
):
    for _ in range(20):
        make_job("RUNNING")
    admin_client.get(LIST)
    with django_assert_max_num_queries(4):
        admin_client.get(LIST)


def test_workers_can_only_be_viewed(admin_client):
    worker = make_worker()
    for method in ["get", "post"]:
        assert getattr(admin_client, method)(f"{LIST}add/").status_code == 403
        delete = f"{LIST}{worker.pk}/delete/"
        assert getattr(admin_client, method)(delete).status_code == 403
    change = f"{LIST}{worker.pk}/change/"
    assert admin_client.post(change, {"name": "x"}).status_code == 403
    assert "_save" not in text_of(admin_client.get(change))
    watching = operator("view_worker")
    assert 'name="action"' not in text_of(watching.get(LIST))


def test_viewing_needs_the_permission():
    worker = make_worker()
    client = operator("view_job")
    assert client.get(LIST).status_code == 403
    assert client.get(f"{LIST}{worker.pk}/change/").status_code == 403
    client.user.user_permissions.add(Permission.objects.get(codename="view_worker"))
    assert client.get(LIST).status_code == 200
    assert client.get(f"{LIST}{worker.pk}/change/").status_code == 200


@pytest.mark.parametrize(
    "text",
    ["<script>alert(1)</script>", "\x1b[31m", "\u202e", "{{ 7|add:7 }}", "x" * 10**7],
    ids=lambda text: text[:10],
)
def test_no_text_takes_effect(text, admin_client):
    worker = make_worker(name=text, host=text, queues=text)
    for url in [LIST, f"{LIST}{worker.pk}/change/"]:
        response = admin_client.get(url)
        assert response.status_code == 200
        page = text_of(response)
        assert "<script>alert" not in page
        assert ">14<" not in page


@pytest.mark.parametrize(
    "query", ["p=-1", "o=99", "q=%00", "jobs__kwargs__x=1", "name__regex=(", "e=1"]
)
def test_any_parameter_is_answered(query, admin_client):
    make_worker()
    assert admin_client.get(f"{LIST}?{query}").status_code in (200, 302, 400)


@pytest.mark.parametrize("id", ["abc", "-1", "9" * 20, "9" * 5000, "%00", "1_2F"])
def test_a_bad_id_leads_away_with_a_message(id, admin_client):
    response = admin_client.get(f"{LIST}{id}/change/")
    assert response.status_code in (302, 404)
