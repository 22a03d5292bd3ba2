"""Sentry with its integrations on: the trace of a failure, and what it must not get."""

import json
import subprocess
import sys

import pytest

from pgjobs import enqueue
from pgjobs.models import Job
from tests.features.exporters.reporting import pay
from tests.processes import WorkerProcess, shared_queue
from tests.support.leaks import leaks_of

pytestmark = shared_queue

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
IBAN = 'DE89 "3704"/é+0044'
PASSWORD = "correct horse & battery"
SETTINGS = {
    "TASK_MODULES": ["tests.features.exporters.reporting"],
    "SENSITIVE": ["card_number"],
    "KEEP_LOGS": "INFO",
}


@pytest.fixture
def sent(tmp_path):
    """Run a job that fails in a worker with Sentry; return what it was told."""
    customer = {"password": PASSWORD, "card_number": "4111111111111111", "name": "Ada"}
    job = enqueue(pay, IBAN, customer, 5)
    meta = {"sentry-trace": f"{TRACE}-00f067aa0ba902b7-1"}
    Job.objects.filter(pk=job.pk).update(meta=meta)
    file = tmp_path / "sent"
    file.touch()
    worker = WorkerProcess("--drain", settings=SETTINGS, PGJOBS_TEST_SENTRY=str(file))
    assert worker.wait() == 0, worker.printed
    job.refresh_from_db()
    assert job.status == "FAILED"
    lines = map(json.loads, file.read_text().splitlines())
    return [(each["type"], each["sent"]) for each in lines]


def test_failure_is_in_the_trace_of_the_request(sent):
    (event,) = (each for kind, each in sent if kind == "event")
    (attempt,) = (
        each
        for kind, each in sent
        if kind == "transaction" and each["contexts"]["trace"]["op"] == "queue.process"
    )
    assert attempt["contexts"]["trace"]["trace_id"] == TRACE
    assert event["contexts"]["trace"]["trace_id"] == TRACE


def test_frames_texts_spans_and_arguments_hold_nothing_sensitive(sent):
    text = json.dumps(sent, ensure_ascii=False)
    for secret in (IBAN, PASSWORD, "4111111111111111"):
        assert list(leaks_of(secret, text)) == []
        assert list(leaks_of(secret, json.loads(f"[{json.dumps(text)}]")[0])) == []
    for kind, each in sent:
        for value in texts_of(each):
            for secret in (IBAN, PASSWORD, "4111111111111111"):
                assert list(leaks_of(secret, value)) == [], (kind, value)


def test_other_values_are_sent(sent):
    (event,) = (each for kind, each in sent if kind == "event")
    assert event["contexts"]["job"]["arguments"] == {
        "iban": "[Filtered]",
        "customer": {
            "password": "[Filtered]",
            "card_number": "[Filtered]",
            "name": "Ada",
        },
        "amount": 5,
    }
    frame = event["exception"]["values"][0]["stacktrace"]["frames"][-1]
    assert frame["function"] == "pay"
    assert frame["vars"]["iban"] == "[Filtered]"
    assert frame["vars"]["amount"] == "5"


def texts_of(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, each in value.items():
            yield name
            yield from texts_of(each)
    elif isinstance(value, list):
        for each in value:
            yield from texts_of(each)


def test_integration_is_imported_before_there_are_settings():
    """Projects call `sentry_sdk.init` in their settings."""
    code = "from pgjobs.contrib.sentry import PgJobsIntegration as P; P.setup_once()"
    subprocess.run([sys.executable, "-c", code], check=True)
