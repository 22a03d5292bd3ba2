"""Sentry, where a task runs in a process of its own."""

import json

from pgjobs.models import Job
from tests.features.exporters.reporting import fail_in_process
from tests.features.exporters.test_sentry_by_default import SETTINGS
from tests.processes import WorkerProcess, shared_queue

pytestmark = shared_queue


def test_failure_of_an_isolated_task_is_reported_once_with_its_frames(tmp_path):
    job = fail_in_process.enqueue()
    file = tmp_path / "sent"
    file.touch()
    worker = WorkerProcess("--drain", settings=SETTINGS, PGJOBS_TEST_SENTRY=str(file))
    assert worker.wait() == 0, worker.printed
    assert Job.objects.get(pk=job.pk).status == "FAILED"
    sent = [json.loads(line) for line in file.read_text().splitlines()]
    (event,) = (each["sent"] for each in sent if each["type"] == "event")
    (raised,) = event["exception"]["values"]
    assert raised["type"] == "ValueError"
    assert raised["value"] != f"broken in {worker.pid}"
    assert raised["stacktrace"]["frames"][-1]["function"] == "fail_in_process"
    assert event["contexts"]["job"]["id"] == job.pk
    assert any(each["type"] == "transaction" for each in sent)
