"""The pictures of the documentation, of a desk where satellites are followed.

They are only taken where PGJOBS_DOCUMENT_PICTURES names their folder, `docs/pictures`.
Under the latest Django all pages are taken; under an older one only those that look
different there.
"""

import base64
import os
from datetime import datetime, timedelta
from pathlib import Path
from random import Random

import django
import pytest
from django.utils import timezone

from pgjobs import chain
from pgjobs.features.desk.counting import bucket_of
from pgjobs.models import (
    ErrorGroup,
    Figure,
    Job,
    Predecessor,
    Progress,
    Queue,
    Schedule,
    Worker,
)
from pgjobs.tasks.registry import registry
from tests.operators import LIST, make_job, make_worker
from tests.support.browser import Browser, chromium

FOLDER = os.environ.get("PGJOBS_DOCUMENT_PICTURES", "")
LATEST = django.VERSION >= (6, 1)
OLDER = ("overview", "list")  # what an older Django shows in another way
SCHEMES = ("light", "dark") if LATEST else ("light",)
SIZES = {"desk": (1440, 900), "phone": (390, 844)}
QUALITY = 60  # of WebP, in percent: letters stay sharp
LARGEST = 100_000  # bytes of a picture
# Of the window, and where its content ends.
SIZE = """
[innerWidth, innerHeight, 24 + Math.max(
  ...[...document.querySelectorAll('#content *')].map(
    each => each.getBoundingClientRect().bottom))]
"""
SIDEBAR = "django.admin.navSidebarIsOpen"
RECOMPUTE, NOTIFY = "passes.recompute_passes", "passes.notify_stations"
CONVERT = "converter.convert_file"
PROBLEM = "line 17 has 4 columns, the header has 5"
GROUP = 7

pytestmark = [
    pytest.mark.skipif(not FOLDER, reason="PGJOBS_DOCUMENT_PICTURES is not set."),
    pytest.mark.skipif(chromium() is None, reason="There is no Chromium here."),
    pytest.mark.django_db(transaction=True),
]


@pytest.fixture
def pages(monkeypatch, settings) -> dict[str, str]:
    """Fill the database, and return the addresses of the pages."""
    settings.TIME_ZONE = "Europe/Berlin"
    shown = {
        key: task
        for key, task in registry.tasks.items()
        if task.name.startswith(("passes.", "converter."))
    }
    monkeypatch.setattr(registry, "tasks", shown)
    now = timezone.now()
    workers = [
        make_worker(
            f"station-{each}:4242",
            host=f"station-{each}",
            pid=4242,
            queues="",
            memory=each * 61 << 20,
            started_at=now - timedelta(hours=5 * each),
        )
        for each in (1, 2)
    ]
    Queue.objects.create(name="default", max_running=8)
    Queue.objects.create(
        name="reports",
        paused_at=now - timedelta(minutes=84),
        note="The mail server moves.",
    )
    Schedule.objects.get_or_create(
        name="refresh elements",
        defaults={"task": "passes.refresh_elements", "every": timedelta(hours=2)},
    )
    add_figures(now)
    add_failed_jobs(now)
    add_ended_jobs(now)
    failed = add_failed_job_of_a_chain(now, workers[0])
    add_unfinished_jobs(now, workers)
    return {
        "overview": f"{LIST}overview/",
        "list": LIST,
        "job": f"{LIST}{failed.pk}/change/",
        "confirmation": f"{LIST}?status=FAILED",
        "worker": f"/admin/pgjobs/worker/{workers[0].pk}/change/",
    }


def add_figures(now: datetime) -> None:
    """Add what ended in the last hour, as busy as a real one."""
    for hour in (now, now - timedelta(hours=1)):
        Figure.objects.create(
            start=hour.replace(minute=0, second=0, microsecond=0),
            span=60,
            queue_name="default",
            task=CONVERT,
        )
    minute, chance = now.replace(second=0, microsecond=0), Random(7)
    for age in range(60):
        for task, number in ((RECOMPUTE, 40), (NOTIFY, 12), (CONVERT, 2)):
            ended = number + chance.randrange(number)
            failed = min(ended, 1 if task == CONVERT and age % 4 == 0 else 0)
            Figure.objects.create(
                start=minute - timedelta(minutes=age),
                span=1,
                queue_name="default",
                task=task,
                successful=0 if failed else ended if task != CONVERT else age % 9 == 1,
                failed=failed,
                run_buckets=durations(chance, 0.8 if task == RECOMPUTE else 0.3, ended),
                wait_buckets=durations(chance, 0.06, ended),
            )


def durations(chance: Random, usual: float, number: int) -> list[list[int]]:
    """Return a histogram of so many durations around a usual one, in seconds."""
    seconds = [usual * chance.lognormvariate(0, 0.6) for _ in range(number)]
    buckets = sorted(map(bucket_of, seconds))
    return [[each, buckets.count(each)] for each in dict.fromkeys(buckets)]


def add_ended_jobs(now: datetime) -> None:
    for number in range(9, -1, -1):
        ended = now - timedelta(seconds=40 * number + 77)
        make_job(
            "SUCCESSFUL",
            task=RECOMPUTE if number % 3 else NOTIFY,
            kwargs={"satellite_id": 25544 + number},
            attempts=1,
            enqueued_at=ended - timedelta(seconds=5),
            last_attempted_at=ended - timedelta(seconds=1 + number % 4),
            finished_at=ended,
        )


def add_failed_jobs(now: datetime) -> None:
    """Add failures of one kind, so many that they are a problem."""
    ErrorGroup.objects.create(
        id=GROUP,
        task=CONVERT,
        exception_class="converter.tables.UnreadableTable",
        place="converter.tables.convert_table",
        message="line # has # columns, the header has #",
        first_at=now - timedelta(minutes=52),
    )
    for number in range(11, 0, -1):
        add_failure(now - timedelta(minutes=8 + 4 * number), number)


def add_failed_job_of_a_chain(now: datetime, worker: Worker) -> Job:
    tasks = {task.name: task for task in registry.tasks.values()}
    key = "0b2c2f0e-4d55-4c38-9d5e-2f8a7f7d3c11"
    first, failed, last = chain(
        tasks[RECOMPUTE].bind(25544),
        tasks[CONVERT].bind(key),
        tasks[NOTIFY].bind(25544),
    ).enqueue()
    links = [(failed, first), (last, failed)]
    for job, before in links:
        Predecessor.objects.create(job_id=job.pk, predecessor_id=before.pk)
    ended = now - timedelta(seconds=63)
    Job.objects.filter(pk=first.pk).update(
        status="SUCCESSFUL",
        attempts=1,
        enqueued_at=ended - timedelta(seconds=3),
        last_attempted_at=ended - timedelta(seconds=2),
        finished_at=ended,
    )
    Job.objects.filter(pk=failed.pk).update(
        waiting_for=None, line=None, **columns_of_failure(now, ended)
    )
    Job.objects.filter(pk=last.pk).update(
        status="CANCELLED",
        waiting_for=None,
        line=None,
        reason=f"Cancelled: predecessor job {failed.pk} failed.",
        enqueued_at=ended - timedelta(seconds=3),
        finished_at=now,
    )
    add_attempts(Job.objects.get(pk=failed.pk), now, worker)
    return failed


def add_failure(ended: datetime, number: int) -> None:
    key = f"7d3c{number:02}2e-4d55-4c38-9d5e-2f8a7f{number:02}b2c0"
    columns = columns_of_failure(ended, ended - timedelta(seconds=33))
    make_job(
        columns.pop("status"), task=CONVERT, kwargs={"conversion_id": key}, **columns
    )


def columns_of_failure(ended: datetime, enqueued: datetime) -> dict:
    return {
        "status": "FAILED",
        "reason": f"UnreadableTable: {PROBLEM}",
        "error_group": GROUP,
        "attempts": 2,
        "failures": 2,
        "max_attempts": 2,
        "enqueued_at": enqueued,
        "last_attempted_at": ended - timedelta(seconds=1),
        "finished_at": ended,
    }


def add_attempts(job: Job, now: datetime, worker: Worker) -> None:
    for number in (1, 2):
        began = now - timedelta(seconds=30 * (2 - number) + 1)
        job.attempts_made.create(
            life=1,
            number=number,
            worker_name=worker.name,
            started_at=began,
            finished_at=began + timedelta(seconds=1),
            outcome="FAILED",
            exception_class="converter.tables.UnreadableTable",
            message=PROBLEM,
            traceback=TRACEBACK,
        )


TRACEBACK = """Traceback (most recent call last):
  File "converter/tasks.py", line 22, in convert_file
    rows = convert_table(conversion.file)
  File "converter/tables.py", line 48, in convert_table
    raise UnreadableTable(problem)
converter.tables.UnreadableTable: line 17 has 4 columns, the header has 5
"""


def add_unfinished_jobs(now: datetime, workers: list[Worker]) -> None:
    for number, worker in enumerate(workers):
        running = make_job(
            "RUNNING",
            task=RECOMPUTE,
            kwargs={"satellite_id": 43013 + number},
            worker_id=worker.pk,
            keys={"lock": f"satellite-{43013 + number}", "is_ordered": True},
            attempts=1,
            last_attempted_at=now - timedelta(seconds=4 + number),
        )
        Progress.objects.create(
            job=running, done=5 + number, total=8, message="of the days", updated_at=now
        )
    waiting = make_job(
        "WAITING",
        task=RECOMPUTE,
        kwargs={"satellite_id": 43013},
        keys={"lock": "satellite-43013", "is_ordered": True},
    )
    # As an admission does, which has found the lock taken.
    Job.objects.filter(pk=waiting.pk).update(line="lock satellite-43013")
    make_job("SCHEDULED", task="passes.refresh_elements")
    for number in range(3):
        key = f"c0ffee0{number}-4d55-4c38-9d5e-2f8a7f7d3c11"
        waiting = {"queue_name": "reports", "kwargs": {"conversion_id": key}}
        make_job("READY", task=CONVERT, **waiting)


@pytest.fixture
def browser(tmp_path):
    browser = Browser(tmp_path)
    yield browser
    browser.close()


@pytest.mark.parametrize("size", SIZES)
def test_pictures_show_the_desk_light_and_dark(
    size, pages, browser, live_server, admin_client
):
    cookie = admin_client.cookies["sessionid"].value
    width, height = SIZES[size]
    for name, address in pages.items():
        if not LATEST and name not in OLDER:
            continue
        browser.open(live_server.url + address, width=width, cookie=cookie)
        browser.resize(width, height)
        browser.evaluate(f"localStorage.setItem('{SIDEBAR}', 'false')")
        Worker.objects.update(heartbeat_at=timezone.now())
        browser.go_to(live_server.url + address)
        if name == "confirmation":
            ask_about_all(browser)
        for scheme in SCHEMES:
            browser.show(is_dark=scheme == "dark")
            keep(browser, f"{name}-{size}-{scheme}")
        browser.leave()


def ask_about_all(browser: Browser) -> None:
    """Tick all jobs of the list, and ask for a retry."""
    browser.evaluate(
        "document.querySelectorAll('.action-select').forEach(each => each.click())"
    )
    browser.evaluate("document.querySelector('[name=action]').value = 'retry_selected'")
    browser.click("#changelist-form [name=index]")


def keep(browser: Browser, name: str) -> None:
    width, height, end = browser.evaluate(SIZE)
    clip = {"x": 0, "y": 0, "width": width, "height": min(height, end), "scale": 1}
    taken = browser.send(
        "Page.captureScreenshot", format="webp", quality=QUALITY, clip=clip
    )
    picture = base64.b64decode(taken["data"])
    assert len(picture) < LARGEST, name
    suffix = "" if LATEST else "-django-5.2"
    (Path(FOLDER) / f"{name}{suffix}.webp").write_bytes(picture)
