"""A project that moves from three other queues at once, with their real packages.

Usage: PGHOST=... PGUSER=... python -m tests.features.importing.other_queues

It fills their tables by their own API, imports twice, and looks at what there is then.
"""

import os
import sys
from datetime import timedelta
from io import StringIO
from types import ModuleType

import django
from django.conf import settings
from django.core.management import call_command

NAMES = ("django_celery_beat", "django_q", "procrastinate")


def set_up() -> None:
    settings.configure(
        DATABASES={
            "default": {
                "ENGINE": "django.db.backends.postgresql",
                "NAME": "postgres",
                "HOST": os.environ["PGHOST"],
                "USER": os.environ["PGUSER"],
            }
        },
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
        INSTALLED_APPS=[
            "admin_actions",
            "django.contrib.admin",
            "django.contrib.auth",
            "django.contrib.contenttypes",
            "django.contrib.messages",
            "django.contrib.sessions",
            "django_celery_beat",
            "django_q",
            "procrastinate.contrib.django",
            "pgjobs",
        ],
        Q_CLUSTER={"name": "shop", "orm": "default"},
        SECRET_KEY="of a test",
        TIME_ZONE="Europe/Berlin",
        USE_TZ=True,
    )
    sys.modules["shop"] = ModuleType("shop")
    sys.modules["shop.tasks"] = ModuleType("shop.tasks")
    django.setup()
    call_command("migrate", verbosity=0)


def declare() -> None:
    from pgjobs import task

    def send(order_id: int, note: str = ""):
        raise NotImplementedError

    send.__module__, send.__qualname__ = "shop.tasks", "send"
    sys.modules["shop.tasks"].send = task(name="shop.send")(send)


def fill_celery_beat() -> None:
    from django_celery_beat.models import (
        CrontabSchedule,
        IntervalSchedule,
        PeriodicTask,
        SolarSchedule,
    )

    every, _ = IntervalSchedule.objects.get_or_create(every=2, period="hours")
    cron, _ = CrontabSchedule.objects.get_or_create(
        minute="30", hour="3", day_of_week="mon-fri", timezone="Asia/Tokyo"
    )
    sun = SolarSchedule.objects.create(event="sunset", latitude=1, longitude=1)
    add = PeriodicTask.objects.create
    add(name="by interval", task="shop.tasks.send", interval=every, args="[1]")
    add(name="by cron", task="shop.send", crontab=cron, kwargs='{"order_id": 2}')
    add(name="by the sun", task="shop.send", solar=sun, args="[3]")
    add(name="unknown", task="shop.gone", interval=every)
    add(name="paused", task="shop.send", interval=every, enabled=False)


def fill_django_q2() -> None:
    from django.utils import timezone
    from django_q.models import Schedule
    from django_q.tasks import async_task, schedule

    soon = timezone.now() + timedelta(hours=1)
    run = "shop.tasks.send"
    schedule(run, 5, name="daily", schedule_type=Schedule.DAILY, next_run=soon)
    schedule(run, 6, note="x", name="q cron", schedule_type="C", cron="5 4 * * *")
    schedule(run, 7, name="monthly", schedule_type="M", next_run=first_of_month())
    schedule(run, 8, name="twice", schedule_type="H", repeats=2, next_run=soon)
    elsewhere = {"schedule_type": "H", "cluster": "reports", "next_run": soon}
    schedule(run, 14, name="of another cluster", **elsewhere)
    async_task(run, 9, note="from django-q2")
    async_task(run, 15, cluster="reports")
    async_task(run, 10, hook="shop.tasks.hook")


def first_of_month():
    from datetime import UTC, datetime

    return datetime(2027, 1, 1, 9, 15, tzinfo=UTC)


def fill_procrastinate() -> None:
    from procrastinate import utils
    from procrastinate.contrib.django import app

    defer = app.configure_task("shop.send", queue="mail", priority=7, lock="order-11")
    defer.defer(order_id=11)
    later = utils.utcnow() + timedelta(days=1)
    app.configure_task("shop.tasks.send", schedule_at=later).defer(order_id=12)
    app.configure_task("shop.gone").defer(order_id=13)


def taken(source: str, *arguments: str) -> tuple[str, str]:
    out, err = StringIO(), StringIO()
    call_command("importtasks", source, *arguments, stdout=out, stderr=err)
    return out.getvalue().strip(), err.getvalue()


def expect(source: str, number: int, *reasons: str) -> None:
    """Import for show, for good and again."""
    said, why = taken(source, "--dry-run")
    assert said.startswith(f"Would import {number} "), said
    assert taken(source) == (said.replace("Would import", "Imported"), why)
    assert all(reason in why for reason in reasons), why
    assert len(why.splitlines()) == len(reasons), why
    assert taken(source)[0].startswith("Imported 0 "), taken(source)


def look() -> None:
    from pgjobs.models import Job, Schedule

    found = {each.name: each for each in Schedule.objects.all()}
    assert {*found} == {"by interval", "by cron", "daily", "q cron", "monthly"}, found
    assert {each.task for each in found.values()} == {"shop.send"}
    assert found["by interval"].every == timedelta(hours=2)
    assert found["by interval"].kwargs == {"order_id": 1, "note": ""}
    assert (found["by cron"].cron, found["by cron"].timezone) == (
        "30 3 * * mon-fri",
        "Asia/Tokyo",
    )
    assert found["daily"].every == timedelta(days=1)
    assert found["q cron"].kwargs == {"order_id": 6, "note": "x"}
    assert found["monthly"].cron == "15 10 1 * *"
    assert all(each.next_run_at for each in found.values())
    jobs = {each.kwargs["order_id"]: each for each in Job.objects.all()}
    assert {*jobs} == {9, 11, 12}, jobs
    assert jobs[9].kwargs["note"] == "from django-q2"
    assert (jobs[11].queue_name, jobs[11].priority) == ("mail", 7)
    assert (jobs[11].status, jobs[12].status) == ("WAITING", "SCHEDULED")


def look_there() -> None:
    """What was taken does not run there any more; what was not, still does."""
    from django_celery_beat.models import PeriodicTask
    from django_q.models import OrmQ, Schedule
    from procrastinate.contrib.django.models import ProcrastinateJob

    enabled = PeriodicTask.objects.filter(enabled=True)
    left = {"by the sun", "unknown"}
    assert {*enabled.values_list("name", flat=True)} == left
    running = Schedule.objects.exclude(repeats=0)
    assert {each.name for each in running} == {"twice", "of another cluster"}
    assert sorted(OrmQ.objects.values_list("key", flat=True)) == ["reports", "shop"]
    assert [each.task_name for each in ProcrastinateJob.objects.all()] == ["shop.gone"]


def main() -> None:
    set_up()
    declare()
    fill_celery_beat()
    fill_django_q2()
    fill_procrastinate()
    expect("django-celery-beat", 2, "by the sun: it goes", "unknown: No task")
    others = [f"{each} of the cluster reports" for each in ("schedules", "packages")]
    expect("django-q2", 4, "twice: it ends", "package: it has hook", *others)
    expect("procrastinate", 2, "shop.gone: No task")
    look()
    look_there()


if __name__ == "__main__":
    main()
