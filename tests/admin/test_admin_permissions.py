"""Which role may open which page and do which act: the table of docs/admin.md."""

import pytest
from django.contrib.auth.models import Group, User
from django.core.management import call_command
from django.test import Client
from django.utils import timezone

from pgjobs.models import ErrorGroup, Event, Queue, Schedule, TaskDefinition
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
)
OTHER_ACTS = ("delete", "change_queue", "delete_queue", "delete_schedule")
ROLES = ("none", "viewer", "operator", "superuser")


@pytest.fixture
def addresses() -> dict[str, str]:
    failed, ready = make_job("FAILED", error_group=1), make_job("READY")
    make_worker()
    ErrorGroup.objects.create(id=1)
    queue = Queue.objects.create(name="mail")
    schedule = Schedule.objects.create(name="a", task="tests.noop", cron="0 3 * * *")
    event = Event.objects.create(name="paid", payload={})
    stored = {"parameters": {}, "options": {}, "synced_at": timezone.now()}
    definition, _ = TaskDefinition.objects.get_or_create(
        name="tests.noop", defaults=stored
    )
    models = ("queue", "worker", "schedule", "batch", "event", "taskdefinition")
    return {
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
        "redeliver": f"{APP}event/redeliver/{event.pk}/",
        "mute": f"{LIST}errors/1/mute/",
        "add_job": f"{APP}taskdefinition/add_job/{definition.pk}/",
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
        return ()
    acts = {"viewer": (), "operator": OPERATORS_ACTS}
    return (*PAGES, *acts.get(role, (*OPERATORS_ACTS, *OTHER_ACTS)))


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
