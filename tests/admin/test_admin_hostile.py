"""Every list and page of the admin, with values of 10 MB and with hostile ones."""

import re
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from pgjobs import publish
from pgjobs.features.events.tables import Delivery
from pgjobs.models import (
    Attempt,
    AuditEntry,
    Batch,
    ErrorGroup,
    Event,
    Job,
    Progress,
    Queue,
    Schedule,
    Step,
    Subscription,
    TaskDefinition,
)
from tests.actors import leave_out_triggers
from tests.operators import LIST, make_job, make_worker

pytestmark = pytest.mark.django_db

APP = "/admin/pgjobs/"
MODELS = (
    "job",
    "queue",
    "worker",
    "schedule",
    "batch",
    "event",
    "subscription",
    "taskdefinition",
)
BAD = '<script>alert(1)</script>"><img src=x onerror=y>\u202e\x1b[31m{{ 7|add:7 }}'
LARGE = BAD + "x" * 10**7
TAKE_EFFECT = ("<script>alert", "<img src=x", ">14<")
MOST = 500_000  # characters of a page


@pytest.fixture
def addresses(no_schedules) -> list[str]:
    """Return all lists and pages; each row holds hostile and large values."""
    now = timezone.now()
    # What a worker and the triggers would refuse.
    leave_out_triggers("pgjobs_job", "pgjobs_subscription", "pgjobs_queue")
    name = BAD[:200]
    worker = make_worker(LARGE, host=LARGE, queues="", version=name)
    queue = Queue.objects.create(
        name=name.replace("\x1b", "").replace(",", ""), note=LARGE, paused_at=now
    )
    ErrorGroup.objects.create(
        id=1, task=name, exception_class=name, place=name, message=name
    )
    batch = Batch.objects.create(description=name)
    failed = make_job(
        task=name,
        queue_name=queue.name,
        kwargs={BAD: LARGE, "list": [BAD] * 100_000},
        return_value={"rows": LARGE},
        reason=LARGE,
        meta={BAD: LARGE},
        unique_key=name,
        unique_for="unfinished",
        error_group=1,
        batch_id=batch.pk,
        attempts=1,
        last_attempted_at=now - timedelta(seconds=3),
    )
    running = make_job(
        "RUNNING", task=name, worker_id=worker.pk, last_attempted_at=now, attempts=1
    )
    Progress.objects.create(
        job=running, done=1, total=2, message=LARGE, log=LARGE, updated_at=now
    )
    for job in (failed, running):
        columns = {"job_id": job.pk, "life": 1, "finished_at": now}
        Step.objects.create(name=name, return_value=LARGE, attempt=1, **columns)
        Attempt.objects.create(
            **columns,
            number=1,
            worker_name=LARGE,
            started_at=now,
            outcome="FAILED",
            exception_class=LARGE,
            message=LARGE,
            traceback=LARGE,
        )
    schedule = Schedule.objects.create(
        name=name,
        task=name,
        cron="0 3 * * *",
        kwargs={BAD: BAD * 10_000},
        error=LARGE,
        last_job=failed,
        last_run_at=now,
    )
    event = publish("tests.hostile", {})
    Event.objects.filter(pk=event.pk).update(
        name=re.sub(r"[\s\x1b*]", "", name),
        payload={BAD: LARGE},
        handlers=1,
        aggregate_id=name,
        correlation_id=name,
    )
    Delivery.objects.create(job=failed, event=event, task=name)
    definition = TaskDefinition.objects.create(
        name=name,
        origin=LARGE,
        description=LARGE,
        parameters={
            "x-order": [BAD],
            "properties": {BAD: {"type": LARGE, "default": LARGE, "enum": [BAD]}},
        },
        options={BAD: LARGE, "queue_name": LARGE},
        synced_at=now,
    )
    subscription = Subscription.objects.create(task=name, event=name, keys={BAD: LARGE})
    AuditEntry.objects.create(
        actor=name, via="SQL", act="retry", model="job", chosen=LARGE, note=LARGE
    )
    rows = {
        "job": failed,
        "queue": queue,
        "worker": worker,
        "schedule": schedule,
        "batch": batch,
        "event": event,
        "subscription": subscription,
        "taskdefinition": definition,
    }
    return [
        APP,
        f"{LIST}overview/",
        *(f"{APP}{model}/" for model in MODELS),
        *(f"{APP}{model}/{row.pk}/change/" for model, row in rows.items()),
        f"{LIST}{running.pk}/change/",
        f"{LIST}?status=FAILED",
        f"{LIST}?status=RUNNING",
        *(f"{LIST}{verb}/{running.pk}/" for verb in ("cancel", "fail", "succeed")),
        f"{LIST}retry/{failed.pk}/",
        f"{LIST}errors/1/mute/",
        f"{APP}queue/resume/{queue.pk}/",
        f"{APP}schedule/run_now/{schedule.pk}/",
        f"{APP}event/redeliver/{event.pk}/",
    ]


@pytest.fixture
def client():
    client = Client(raise_request_exception=False)
    client.force_login(User.objects.create_superuser("hostile"))
    return client


@pytest.mark.slow
def test_pages_show_large_and_hostile_values_in_short_and_exports_whole(
    addresses, client
):
    wrong = {}
    for address in addresses:
        response = client.get(address)
        text = response.content.decode()
        found = [bad for bad in TAKE_EFFECT if bad in text]
        if response.status_code != 200 or found or len(text) > most(address):
            wrong[address] = (response.status_code, len(text), found)
    assert not wrong, "\n".join(f"{k}: {v}" for k, v in wrong.items())
    for kind in ("csv", "json"):
        response = client.get(f"{LIST}export.{kind}?status=FAILED")
        assert response.status_code == 200
        assert str(Job.objects.failed().get().pk).encode() in response.getvalue()


def most(address: str) -> int:
    """Return how long a page may be. A form holds what it edits."""
    is_form = re.search("/(queue|schedule)/[0-9]+/change/", address)
    return 20_000_000 if is_form else MOST


VALUES = ("", "x", "-1", "9" * 30, "%00", "%ff", "%F0%9F%92%A3", "'%22;--", "(" * 3000)
FILTERS = (
    "q",
    "p",
    "o",
    "e",
    "all",
    "status",
    "state",
    "queue_name",
    "task",
    "enqueued",
    "ended",
    "worker",
    "schedule",
    "event",
    "batch",
    "error",
    "group",
    "name",
    "published",
    "kwargs__password__startswith",
    "_popup",
    "_to_field",
)


@pytest.mark.slow
@pytest.mark.parametrize("value", VALUES, ids=lambda value: value[:10])
@pytest.mark.parametrize("model", MODELS)
def test_each_filter_of_each_list_answers_any_value(model, value, client):
    answers = {
        name: client.get(f"{APP}{model}/?{name}={value}").status_code
        for name in FILTERS
    }
    assert {k: v for k, v in answers.items() if v not in (200, 302, 400)} == {}


@pytest.mark.parametrize("value", VALUES, ids=lambda value: value[:10])
def test_overview_answers_any_value(value, client):
    for name in ("period", "task", "queue_name", "page"):
        response = client.get(f"{LIST}overview/?{name}={value}")
        assert response.status_code in (200, 400), name
