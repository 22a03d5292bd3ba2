"""What people see of the processes of a worker: `jobstatus`, and its page."""

import json
from io import StringIO

import pytest
from django.core.management import call_command

from pgjobs.models import Worker
from tests.operators import make_worker, text_of
from tests.processes import running_worker, shared_queue, wait_for, wait_for_status
from tests.support import isolated_tasks as isolated

FIGURES = {
    "busy": 1,
    "idle": 2,
    "memory": 153_000_000,
    "deaths": {"memory": 2, "crash": 1},
}
WORDS = "1 busy, 2 idle, 153 MB; killed or died: 1 crashed, 2 above the memory limit"


def status(*options: str) -> str:
    out = StringIO()
    call_command("jobstatus", *options, stdout=out)
    return out.getvalue()


@pytest.mark.django_db
def test_page_of_a_worker_shows_its_processes_and_why_they_died(admin_client):
    worker = make_worker("mine", children=FIGURES)
    page = text_of(admin_client.get(f"/admin/pgjobs/worker/{worker.pk}/change/"))
    assert "Processes of isolated jobs" in page
    assert WORDS in page


@pytest.mark.django_db
def test_page_of_a_worker_without_isolated_jobs_says_none(admin_client):
    worker = make_worker("mine")
    page = text_of(admin_client.get(f"/admin/pgjobs/worker/{worker.pk}/change/"))
    assert "None." in page


@pytest.mark.django_db
def test_jobstatus_shows_the_processes_of_the_workers_that_have_had_some():
    make_worker("plain")
    make_worker("mine", children=FIGURES)
    assert f"Isolated jobs of mine, processes: {WORDS}\n" in status()
    assert "of plain" not in status()
    assert json.loads(status("--json"))["isolated"] == [{"worker": "mine"} | FIGURES]


@pytest.mark.django_db
def test_figures_that_nobody_can_read_hide_nothing_else(admin_client):
    worker = make_worker("mine", children=["anything"])
    make_worker("other", children={"busy": "\x1b[31m", "deaths": 1})
    page = text_of(admin_client.get(f"/admin/pgjobs/worker/{worker.pk}/change/"))
    assert "mine" in page
    assert "other" in status()
    json.loads(status("--json"))


@shared_queue
def test_sign_of_life_brings_the_figures(settings):
    settings.PGJOBS = {**settings.PGJOBS, "HEARTBEAT_INTERVAL": 0.5}

    def shown() -> dict:
        return Worker.objects.get().children or {}

    with running_worker(slots=1):
        assert Worker.objects.get().children is None
        wait_for_status(isolated.pids.enqueue(), "SUCCESSFUL")
        wait_for(lambda: shown().get("idle") == 1)
        assert shown()["memory"] > 10_000_000
        job = isolated.sleep.enqueue(30)
        wait_for(lambda: (shown().get("busy"), shown().get("idle")) == (1, 0))
        job.cancel()
        wait_for_status(isolated.leave.enqueue(3), "FAILED")
        wait_for(lambda: shown()["deaths"] == {"crash": 1})
        wait_for(lambda: (shown()["busy"], shown()["idle"]) == (0, 0))
