"""The pictures of the documentation, of a desk where satellites are followed.

They are only taken where PGJOBS_DOCUMENT_PICTURES names their folder, `docs/pictures`.
"""

import base64
import os
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from django.utils import timezone

from pgjobs.models import Figure, Job, Progress, Queue, Schedule, Worker
from pgjobs.sql.columns import BUCKETS
from pgjobs.tasks.registry import registry
from tests.operators import LIST, make_job, make_worker
from tests.support.browser import Browser, chromium

FOLDER = os.environ.get("PGJOBS_DOCUMENT_PICTURES", "")
LARGEST = 150_000  # bytes of a picture
SIDEBAR = "django.admin.navSidebarIsOpen"
RECOMPUTE = "passes.recompute_passes"

pytestmark = [
    pytest.mark.skipif(not FOLDER, reason="PGJOBS_DOCUMENT_PICTURES is not set."),
    pytest.mark.skipif(chromium() is None, reason="There is no Chromium here."),
    pytest.mark.django_db(transaction=True),
]


@pytest.fixture
def pages(monkeypatch) -> dict[str, str]:
    """Fill the database, and return the addresses of the pages."""
    shown = {
        key: task
        for key, task in registry.tasks.items()
        if task.name.startswith(("passes.", "converter."))
    }
    monkeypatch.setattr(registry, "tasks", shown)
    now = timezone.now()
    workers = [
        make_worker(f"station-{each}:4242", memory=each * 61 << 20) for each in (1, 2)
    ]
    Queue.objects.create(name="default", max_running=8)
    Queue.objects.create(name="reports").pause()
    Schedule.objects.get_or_create(
        name="refresh elements",
        defaults={"task": "passes.refresh_elements", "every": timedelta(hours=2)},
    )
    add_figures(now)
    add_ended_jobs(now)
    failed = add_failed_jobs(now, workers[0])
    add_unfinished_jobs(now, workers)
    return {
        "overview": f"{LIST}overview/",
        "list": LIST,
        "job": f"{LIST}{failed.pk}/change/",
    }


def add_figures(now: datetime) -> None:
    minute = now.replace(second=0, microsecond=0)
    for age in range(60):
        for task, number in ((RECOMPUTE, 40), ("passes.notify_stations", 12)):
            Figure.objects.create(
                start=minute - timedelta(minutes=age),
                span=1,
                queue_name="default",
                task=task,
                successful=number + age * 7 % 23,
                failed=2 if age % 11 == 3 else 0,
                run_times=histogram(8 + age % 3),
                wait_times=histogram(6 + age % 3),
            )


def histogram(bucket: int) -> list[int]:
    return [10 if at == bucket else 0 for at in range(BUCKETS)]


def add_ended_jobs(now: datetime) -> None:
    for number in range(12):
        ended = now - timedelta(seconds=40 * number)
        make_job(
            "SUCCESSFUL",
            task=RECOMPUTE if number % 3 else "passes.notify_stations",
            kwargs={"satellite_id": 25544 + number},
            attempts=1,
            enqueued_at=ended - timedelta(seconds=5),
            last_attempted_at=ended - timedelta(seconds=1 + number % 4),
            finished_at=ended,
        )


def add_failed_jobs(now: datetime, worker: Worker) -> Job:
    job = make_job(
        "FAILED",
        task="converter.convert_file",
        kwargs={"conversion_id": "0b2c2f0e-4d55-4c38-9d5e-2f8a7f7d3c11"},
        reason="UnreadableTable: line 17 has 4 columns, the header has 5",
        attempts=2,
        failures=2,
        max_attempts=2,
        enqueued_at=now - timedelta(minutes=1, seconds=2),
        last_attempted_at=now - timedelta(seconds=31),
        finished_at=now - timedelta(seconds=30),
    )
    for number in (1, 2):
        began = now - timedelta(seconds=30 * (3 - number) + 1)
        job.attempts_made.create(
            life=1,
            number=number,
            worker_name=worker.name,
            started_at=began,
            finished_at=began + timedelta(seconds=1),
            outcome="FAILED",
            exception_class="converter.tables.UnreadableTable",
            message="line 17 has 4 columns, the header has 5",
            traceback=TRACEBACK,
        )
    return job


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
            attempts=1,
            last_attempted_at=now - timedelta(seconds=4 + number),
        )
        Progress.objects.create(
            job=running, done=5 + number, total=8, message="of the days", updated_at=now
        )
    make_job("SCHEDULED", task="passes.refresh_elements")
    make_job("READY", task="converter.convert_file", queue_name="reports")


@pytest.fixture
def browser(tmp_path):
    browser = Browser(tmp_path)
    yield browser
    browser.close()


def test_pictures_show_the_desk_light_and_dark(
    pages, browser, live_server, admin_client
):
    cookie = admin_client.cookies["sessionid"].value
    for name, address in pages.items():
        for scheme in ("light", "dark"):
            url = live_server.url + address
            browser.open(url, width=1120, cookie=cookie)
            browser.show(is_dark=scheme == "dark")
            browser.evaluate(f"localStorage.setItem('{SIDEBAR}', 'false')")
            browser.go_to(url)
            taken = browser.send("Page.captureScreenshot")
            browser.leave()
            picture = base64.b64decode(taken["data"])
            assert len(picture) < LARGEST
            (Path(FOLDER) / f"{name}-{scheme}.png").write_bytes(picture)
