"""Workers that die by kill -9 between waits: nothing is lost, and no step repeated."""

import signal

import pytest

from pgjobs import enqueue, publish
from pgjobs.models import Job
from tests import tasks
from tests.actors import execute
from tests.features.durable.tasks import goes_on_and_dies, waits_and_dies
from tests.processes import shared_queue, wait_for, wait_for_status
from tests.support.declared import store_definitions

pytestmark = [shared_queue, pytest.mark.slow]
BRISK = {"HEARTBEAT_INTERVAL": 0.4, "LEASE_DURATION": 1.6}


def test_job_goes_on_with_its_answer_after_its_worker_was_killed(
    start_worker, tmp_path
):
    store_definitions()
    path = str(tmp_path / "lines")
    start_worker(settings=BRISK)
    job = enqueue(waits_and_dies, path)
    wait_for_status(job, "WAITING")
    assert job.answer("question", "answered")
    wait_for(lambda: (tmp_path / "lines.killed").exists(), "the worker has died")
    start_worker(settings=BRISK)
    wait_for(lambda: "answered" in tasks.lines(path), "another one goes on")
    publish("order.paid", {"note": "paid"})
    wait_for_status(job, "SUCCESSFUL")
    assert tasks.lines(path) == ["begun", "answered", "paid"]


def test_waiting_job_needs_no_worker_and_the_next_one_finds_what_came(
    start_worker, tmp_path
):
    store_definitions()
    path = str(tmp_path / "lines")
    (tmp_path / "lines.killed").touch()
    worker = start_worker(settings=BRISK)
    job = enqueue(waits_and_dies, path)
    wait_for_status(job, "WAITING")
    worker.process.send_signal(signal.SIGKILL)
    worker.process.wait()
    assert job.answer("question", "answered")
    publish("order.paid", {"note": "paid"})
    start_worker(settings=BRISK)
    wait_for_status(job, "SUCCESSFUL")
    assert tasks.lines(path) == ["begun", "answered", "paid"]
    wait_for(lambda: not execute("SELECT 1 FROM pgjobs_waitnote"), "no note is left")


@pytest.mark.parametrize("where", ["before", "after"])
def test_job_whose_worker_is_killed_goes_on_as_one_successor(
    start_worker, tmp_path, where
):
    path = str(tmp_path / "lines")
    start_worker(settings=BRISK)
    job = enqueue(goes_on_and_dies, path, where)
    wait_for(lambda: (tmp_path / "lines.killed").exists(), "the worker has died")
    start_worker(settings=BRISK)
    wait_for(lambda: job.newest().pk != job.pk, "another one goes on")
    wait_for_status(job.newest(), "SUCCESSFUL")
    assert tasks.lines(path) == ["begun 0", "begun 0", "begun 1"]
    assert Job.objects.count() == 2
