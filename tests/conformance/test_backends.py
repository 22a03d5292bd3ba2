"""The suite on Django's own backends, and on ours."""

import subprocess
import sys

import pytest

from tests.conformance.asking import ask, command
from tests.processes import ROOT, shared_queue

IMMEDIATE = "backends.immediate.ImmediateBackend"
DUMMY = "backends.dummy.DummyBackend"
PLAIN = "tests.conformance.plain_settings"


@pytest.mark.parametrize("backend", [IMMEDIATE, DUMMY])
def test_backends_of_django_do_what_is_required(tmp_path, backend):
    asked = ask(PLAIN, tmp_path, CONFORMANCE_BACKEND=backend)
    assert (asked.failed, asked.code) == (set(), 0), asked.printed
    assert asked.named("passed", "required")


def test_immediate_backend_is_asked_how_tasks_run(tmp_path):
    asked = ask(PLAIN, tmp_path, CONFORMANCE_BACKEND=IMMEDIATE)
    assert "arguments arrive as json has them" in asked.named("passed")


def test_dummy_backend_is_not_asked_how_tasks_run(tmp_path):
    asked = ask(PLAIN, tmp_path, CONFORMANCE_BACKEND=DUMMY)
    assert "arguments arrive as json has them" in asked.named("skipped")


@shared_queue
def test_callable_runs_what_is_due(tmp_path):
    chosen = ("--call=pgjobs.drain", "-k", "runs_once or refreshed")
    asked = ask("tests.conformance.pgjobs_settings", tmp_path, *chosen)
    assert (asked.failed, asked.code) == (set(), 0), asked.printed
    assert "task runs once" in asked.named("passed")


def test_settings_that_are_missing_are_named():
    done = subprocess.run(command("no.such"), cwd=ROOT, capture_output=True, text=True)
    assert done.returncode
    assert "--tasks-settings: No module named 'no'" in done.stderr


@pytest.mark.slow
@shared_queue
def test_pgjobs_does_what_is_required(tmp_path):
    asked = ask(
        "tests.conformance.pgjobs_settings",
        tmp_path,
        f"--worker={sys.executable} -W ignore -m django runjobs --concurrency 1",
        "--patience=20",
    )
    assert (asked.failed, asked.code) == (set(), 0), asked.printed
    not_asked = {name.partition("[")[0] for name in asked.named("skipped", "required")}
    assert not_asked == {
        "wrong option is refused",
        "async task is refused unless it is supported",
    }
    assert asked.seen("a transaction is rolled back") == "the task is gone with it"
    killed = asked.seen("a worker that is killed (SIGKILL) during a task")
    assert killed.startswith("it runs again")
    stopped = asked.seen(
        "a worker that is stopped (SIGTERM) during a task of two seconds"
    )
    assert stopped.startswith("the task ends first, the worker exits with 0")
