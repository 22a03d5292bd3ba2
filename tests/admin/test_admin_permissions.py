"""Which role may open which page and do which act: the table of docs/admin.md."""

import pytest
from django.contrib import admin
from django.contrib.auth.models import Group, User
from django.core.management import call_command
from django.test import Client
from django.urls import path
from django.utils import timezone

from pgjobs.features.durable.links import token_of
from pgjobs.models import (
    Batch,
    ErrorGroup,
    Event,
    Job,
    Queue,
    Schedule,
    Step,
    Subscription,
    TaskDefinition,
    Wait,
)
from tests.operators import LIST, make_job, make_worker, page_of, url_of

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_schedules")]

APP = "/admin/pgjobs/"
PAGES = (
    "overview",
    "jobs",
    "job",
    "csv",
    "json",
    "queue",
    "worker",
    "schedule",
    "batch",
    "event",
    "taskdefinition",
    "subscription",
    "a_queue",
    "a_worker",
    "a_schedule",
    "a_batch",
    "an_event",
    "a_taskdefinition",
    "a_subscription",
)
OPERATORS_ACTS = (
    "retry",
    "cancel",
    "fail",
    "succeed",
    "run_now",
    "pause",
    "run_schedule",
    "pause_schedule",
    "redeliver",
    "mute",
    "add_job",
    "resume",
    "resume_schedule",
    "cancel_batch",
    "retry_batch",
    "redeliver_all",
    "go_on",
    "mark_step",
)
OTHER_ACTS = (
    "delete",
    "change_queue",
    "delete_queue",
    "delete_schedule",
    "add_schedule",
    "answer",  # the project's people decide, who need no other permission
)
EVERYBODYS = ("waits",)  # the questions of others are not in it
ROLES = ("none", "viewer", "operator", "superuser")


class GuardedSite(admin.AdminSite):
    """A site of the project's own, which not all of the staff may use."""

    def has_permission(self, request) -> bool:
        return super().has_permission(request) and request.user.username != "viewer"


other_site = GuardedSite(name="other")
for model, model_admin in admin.site._registry.items():
    if model._meta.app_label == "pgjobs":
        other_site.register(model, type(model_admin))
urlpatterns = [
    path("admin/", admin.site.urls),
    path("other/", other_site.urls),
]


def job_that_asks() -> Job:
    job = make_job("WAITING", waiting_for="answer", keys={}, attempts=1)
    Wait.objects.create(
        job=job,
        life=1,
        name="question",
        kind="answer",
        asked={"schema": {"type": "boolean"}, "title": "May it go on?"},
        permission="pgjobs.answer_job",
        deadline=timezone.now() + timezone.timedelta(days=1),
    )
    return job


def job_with_a_step() -> Job:
    job = make_job("FAILED", attempts=1)
    Step.objects.create(
        job=job, life=1, name="one", attempt=1, finished_at=timezone.now()
    )
    return job


@pytest.fixture
def addresses() -> dict[str, str]:
    failed, ready = make_job("FAILED", error_group=1), make_job("READY")
    worker = make_worker()
    ErrorGroup.objects.create(id=1)
    queue = Queue.objects.create(name="mail")
    schedule = Schedule.objects.create(name="a", task="tests.noop", cron="0 3 * * *")
    event = Event.objects.create(name="paid", payload={})
    stored = {"parameters": {}, "options": {}, "synced_at": timezone.now()}
    definition, _ = TaskDefinition.objects.get_or_create(
        name="tests.noop", defaults=stored
    )
    asks, stepped = job_that_asks(), job_with_a_step()
    models = ("queue", "worker", "schedule", "batch", "event", "taskdefinition")
    rows = {
        "a_queue": queue,
        "a_worker": worker,
        "a_schedule": schedule,
        "a_batch": Batch.objects.create(),
        "an_event": event,
        "a_taskdefinition": definition,
        "a_subscription": Subscription.objects.create(task="a", event="b"),
    }
    return {
        **{
            name: f"{APP}{row._meta.model_name}/{row.pk}/change/"
            for name, row in rows.items()
        },
        "overview": f"{LIST}overview/",
        "jobs": LIST,
        "job": page_of(ready),
        "csv": f"{LIST}export.csv",
        "json": f"{LIST}export.json",
        **{name: f"{APP}{name}/" for name in (*models, "subscription")},
        "retry": url_of("retry", failed),
        "run_now": url_of("run_now", make_job("SCHEDULED")),
        **{act: url_of(act, ready) for act in ("cancel", "fail", "succeed")},
        "delete": f"{LIST}{ready.pk}/delete/",
        "pause": f"{APP}queue/pause/{queue.pk}/",
        "change_queue": f"{APP}queue/add/",
        "delete_queue": f"{APP}queue/{queue.pk}/delete/",
        "run_schedule": f"{APP}schedule/run_now/{schedule.pk}/",
        "pause_schedule": f"{APP}schedule/pause/{schedule.pk}/",
        "delete_schedule": f"{APP}schedule/{schedule.pk}/delete/",
        "add_schedule": f"{APP}schedule/add/?task=tests.noop",
        "resume": f"{APP}queue/resume/{queue.pk}/",
        "resume_schedule": f"{APP}schedule/resume/{schedule.pk}/",
        "cancel_batch": f"{APP}batch/cancel/{rows['a_batch'].pk}/",
        "retry_batch": f"{APP}batch/retry/{rows['a_batch'].pk}/",
        "redeliver_all": f"{APP}event/redeliver_all/{event.pk}/",
        "redeliver": f"{APP}event/redeliver/{event.pk}/",
        "mute": f"{LIST}errors/1/mute/",
        "add_job": f"{APP}taskdefinition/add_job/{definition.pk}/",
        "go_on": url_of("go_on", stepped),
        "mark_step": url_of("mark_step", stepped),
        "waits": f"{APP}wait/",
        "answer": f"{APP}wait/answer/{token_of(asks.pk, 1, 'question')}/",
    }


@pytest.fixture
def clients() -> dict[str, Client]:
    call_command("jobgroups", verbosity=0)
    found = {}
    for role in ROLES:
        user = User.objects.create_user(role, is_staff=True)
        user.is_superuser = role == "superuser"
        user.save()
        if role in ("viewer", "operator"):
            user.groups.add(Group.objects.get(name=f"pgjobs {role}"))
        found[role] = Client()
        found[role].force_login(user)
    return found


def allowed(role: str) -> tuple[str, ...]:
    if role == "none":
        return EVERYBODYS
    acts = {"viewer": (), "operator": OPERATORS_ACTS}
    return (*EVERYBODYS, *PAGES, *acts.get(role, (*OPERATORS_ACTS, *OTHER_ACTS)))


@pytest.mark.parametrize("role", ROLES)
def test_role_opens_what_it_may_and_nothing_else(role, clients, addresses):
    answers = {
        name: clients[role].get(address).status_code
        for name, address in addresses.items()
    }
    expected = {name: 200 if name in allowed(role) else 403 for name in addresses}
    assert answers == expected


@pytest.mark.parametrize("role", ["none", "viewer"])
def test_role_without_acts_does_none_by_a_post(role, clients, addresses):
    for name in (*OPERATORS_ACTS, *OTHER_ACTS):
        answer = clients[role].post(addresses[name], {"post": "yes"})
        assert answer.status_code == 403, name


def test_visitors_and_users_outside_the_staff_are_sent_away(addresses):
    visitor, user = Client(), Client()
    user.force_login(User.objects.create_user("user"))
    for name, address in addresses.items():
        for client in (visitor, user):
            assert client.get(address).status_code == 302, name
            assert client.post(address).status_code == 302, name


@pytest.mark.parametrize("role", ROLES)
def test_other_site_asks_for_the_same_permissions(role, clients, addresses, settings):
    settings.ROOT_URLCONF = __name__
    for name, address in addresses.items():
        there = address.replace("/admin/", "/other/", 1)
        expected = 200 if name in allowed(role) else 403
        if role == "viewer":  # the site itself does not admit this user
            expected = 302
        assert clients[role].get(there).status_code == expected, name
        if expected != 200:
            assert clients[role].post(there, {"post": "yes"}).status_code == expected


def test_pages_of_the_other_site_lead_to_no_page_of_the_first(
    clients, addresses, settings
):
    settings.ROOT_URLCONF = __name__
    for name, address in addresses.items():
        there = address.replace("/admin/", "/other/", 1)
        response = clients["superuser"].get(there)
        if not response.streaming:
            assert b"/admin/pgjobs/" not in response.content, name


@pytest.mark.parametrize("site", ["admin", "other"])
def test_act_of_the_other_site_leads_back_there(site, clients, addresses, settings):
    settings.ROOT_URLCONF = __name__
    address = addresses["retry"].replace("/admin/", f"/{site}/", 1)
    response = clients["operator"].post(address)
    assert response.url.startswith(f"/{site}/pgjobs/job/")
