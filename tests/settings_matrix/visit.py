"""What people do with one project of the matrix: by code, in the admin, by commands.

Prints what went wrong, one fault a line, and ends with their number.
"""

import argparse
import io
import json
import re
import sys
import traceback
from contextlib import contextmanager

import django

django.setup()

from django.contrib import admin  # noqa: E402
from django.contrib.auth.models import User  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.test import Client  # noqa: E402
from django.urls import reverse  # noqa: E402
from django.utils import timezone  # noqa: E402

from pgjobs import enqueue, publish  # noqa: E402
from pgjobs.models import Job, Queue, Schedule  # noqa: E402
from tests.operators import make_worker  # noqa: E402
from tests.settings_matrix import tasks  # noqa: E402

MOST_PAGES = 150
ADDRESS = re.compile(r'(?:href|action)="(/admin/pgjobs/[^"#]*)"')
VALUE = re.compile(r"=[^&]*")
NUMBER = re.compile(r"\d+")
faults: list[str] = []


@contextmanager
def collecting(what: str):
    """Go on after a fault, so that one run shows all of them."""
    try:
        yield
    except (Exception, SystemExit):  # noqa: BLE001  (a page may fail in any way)
        lines = traceback.format_exc().strip().splitlines()
        faults.append(f"{what}: " + " | ".join(lines[-5:]))


def prepare() -> None:
    User.objects.db_manager("default").create_superuser("operator", password="x")
    enqueue(tasks.greet, "Ann")
    enqueue(tasks.melt)
    enqueue(tasks.note_order.using(lock="order"), "1")
    enqueue(tasks.note_order.using(lock="order"), "2")
    enqueue(tasks.greet.using(run_after=timezone.now(), expires=tomorrow()), "Bob")
    enqueue(tasks.greet.using(run_after=tomorrow()), "Cay")
    publish("order.paid", {"order": 1})
    publish("order.lost", {"order": 1})


def tomorrow():
    return timezone.now() + timezone.timedelta(days=1)


def look() -> None:
    with collecting("outcomes"):
        jobs = Job.objects.using("default")
        ended = {job.task.rpartition(".")[2]: job for job in jobs.finished()}
        assert ended["greet"].return_value in ("Hello Ann", "Hello Bob"), ended
        assert ended["melt"].status == "FAILED", ended
        assert "snowman" in ended["melt"].reason, ended["melt"].reason
        assert {"note_order", "tick", "pack"} <= ended.keys(), ended
    for schedule in Schedule.objects.all():
        with collecting(f"schedule {schedule.name}"):
            assert schedule.next_run_at and not schedule.error, schedule.error
    with collecting("acts on jobs"):
        act()
    client = Client()
    client.force_login(User.objects.using("default").get())
    make_worker("web1")
    visit(client)
    with collecting("buttons"):
        press_buttons(client)
    commands()


def act() -> None:
    """Act on rows wherever they were read."""
    failed = Job.objects.failed().first()
    assert failed.retry(), "retry"
    assert failed.cancel("no more"), "cancel"
    assert Job.objects.filter(pk=failed.pk).retry().changed == 1, "set.retry"
    later = Job.objects.scheduled().filter(task__endswith="greet").first()
    assert later.run_now(), "run_now"
    assert Job.objects.filter(pk=later.pk).update(priority=7) == 1, "update"
    queue = Queue.objects.first()
    if queue is not None:
        assert queue.pause(), "pause"
        assert Queue.objects.filter(pk=queue.pk).resume() == 1, "resume"
    schedule = Schedule.objects.get(task__endswith="tick")
    assert schedule.pause(), "pause"
    assert Schedule.objects.filter(pk=schedule.pk).resume() == 1, "resume"
    schedule.refresh_from_db()
    assert schedule.next_runs(3), "next runs"
    Job.objects.filter(pk=failed.pk).fail("enough")


def visit(client: Client) -> None:
    """Visit each page of the admin that links lead to, one of each kind."""
    waiting, seen = ["/admin/pgjobs/", *forms()], set()
    while waiting and len(seen) < MOST_PAGES:
        address = waiting.pop(0).replace("&amp;", "&")
        if (kind := VALUE.sub("", NUMBER.sub("0", address))) in seen:
            continue
        seen.add(kind)
        with collecting(address):
            response = client.get(address)
            assert response.status_code in (200, 302), response.status_code
            if response.streaming:
                b"".join(response.streaming_content)
            elif "html" in response.headers.get("Content-Type", ""):
                waiting += ADDRESS.findall(response.content.decode())
    assert len(seen) > 30, seen  # it has not stopped at the first page
    for model in admin.site._registry:
        if model._meta.app_label == "pgjobs" and model._meta.managed:
            its = f"/admin/pgjobs/{model._meta.model_name}/"
            assert any(each.startswith(its) for each in seen), f"{its} was not visited"


def forms():
    """Yield pages that a theme may hide behind a menu of its own."""
    for model, model_admin in admin.site._registry.items():
        for name in getattr(model_admin, "actions_detail", ()):
            for row in model.objects.using("default").order_by("pk")[:10]:
                yield reverse(f"admin:{name}", args=(row.pk,))
    yield from (
        "/admin/",
        "/admin/pgjobs/overview/",
        "/admin/pgjobs/job/overview/",
        "/admin/pgjobs/endedworker/",
        "/admin/pgjobs/auditentry/",
        "/admin/pgjobs/job/?status=FAILED",
        "/admin/pgjobs/schedule/add/",
    )


def press_buttons(client: Client) -> None:
    failed = Job.objects.using("default").failed().first()
    response = client.post(f"/admin/pgjobs/job/retry/{failed.pk}/")
    failed.refresh_from_db(using="default")
    assert failed.status != "FAILED", (response.status_code, failed.status)


def commands() -> None:
    job = Job.objects.using("default").order_by("pk").first()
    for words in (
        ("jobs", "list"),
        ("jobs", "list", "--json"),
        ("jobs", "show", str(job.pk)),
        ("jobs", "cancel", str(job.pk)),
        ("schedules", "list"),
        ("schedules", "list", "--json"),
        ("jobgroups",),
        ("jobstatus",),
        ("jobstatus", "--json"),
        ("jobstatus", "--check"),
        ("prunejobs", "--older", "72h"),
        ("replayevents", "--to", "settings_matrix.pack", "--since", "1h"),
        ("enqueuejob", "settings_matrix.greet", "--args", '{"name": "Dan"}',
         "--run-after", "2100-12-24T18:00"),
        ("pausejobs", "default"),
        ("resumejobs", "default"),
    ):  # fmt: skip
        with collecting(" ".join(words)):
            output = io.StringIO()
            call_command(*words, stdout=output, stderr=output)
            if words[-1] == "--json":
                json.loads(output.getvalue())


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("prepare", "look"))
    if parser.parse_args().what == "prepare":
        prepare()
    else:
        look()
    sys.stdout.write("\n".join(faults))
    raise SystemExit(len(faults))
