"""The suite on Django's own backends, and on ours."""

import subprocess
import sys

import pytest

from tests.conformance.asking import ask
from tests.processes import LONGEST_TEST, ROOT, process_environment, shared_queue

IMMEDIATE = "backends.immediate.ImmediateBackend"
DUMMY = "backends.dummy.DummyBackend"
AT_ONCE_WITH_RESULTS = "tests.conformance.broken.KeepsResults"
PLAIN = "tests.conformance.plain_settings"
IMMEDIATE_SETTINGS = """
import django

PACKAGE = "django.tasks" if django.VERSION >= (6, 0) else "django_tasks"
SECRET_KEY = "only-for-tests"
INSTALLED_APPS = ["django_tasks_conformance", *{PACKAGE} - {"django.tasks"}]
BACKEND = f"{PACKAGE}.backends.immediate.ImmediateBackend"
TASKS = {"default": {"BACKEND": BACKEND}}
"""


@pytest.mark.parametrize("backend", [IMMEDIATE, DUMMY, AT_ONCE_WITH_RESULTS])
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


def refused(folder, *arguments: str) -> str:
    """Run a command that is no good in a folder; return what it says."""
    done = subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=folder,
        env=process_environment(PYTHONPATH=str(ROOT)),
        capture_output=True,
        text=True,
        timeout=LONGEST_TEST,
    )
    assert done.returncode == 4
    assert "Traceback" not in done.stdout + done.stderr
    return done.stderr


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("TASKS = {}", "default"),  # each version of Django in words of its own
        ("TASKS['default']['BACKEND'] = 'no.such'", "No module named 'no'"),
        ("TASKS['default']['QUEUES'] = ['mail']", "The suite cannot declare tasks: "),
        ("INSTALLED_APPS.pop(0)", 'Add "django_tasks_conformance" to INSTALLED_APPS.'),
    ],
)
def test_settings_that_are_no_good_are_refused(tmp_path, line, said):
    (tmp_path / "shop.py").write_text(IMMEDIATE_SETTINGS + line)
    assert said in refused(tmp_path, "django_tasks_conformance", "shop")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("no.such", "--tasks-settings: No module named 'no'"),
        ("shop --call=no.such", "--tasks-call: No module named 'no'"),
        ("shop --call=shop.SECRET_KEY", "shop.SECRET_KEY cannot be called"),
        ("shop --worker=no-such-program", "there is no program no-such-program"),
        ("shop --report=report.txt", "a file that ends in .md or .json"),
        ("shop --report=missing/report.md", "--tasks-report: no folder missing"),
    ],
)
def test_options_that_are_no_good_are_refused(tmp_path, options, said):
    (tmp_path / "shop.py").write_text(IMMEDIATE_SETTINGS)
    assert said in refused(tmp_path, "django_tasks_conformance", *options.split())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("-p no:django", "Name a project: --tasks-settings=shop.settings"),
        ("--tasks-settings=shop", "keeps databases away. Add -p no:django"),
        ("-p no:django --tasks-settings=shop -n2", "take each other's tasks. Add -n0"),
    ],
)
def test_run_of_pytest_that_is_no_good_is_refused(tmp_path, options, said):
    (tmp_path / "shop.py").write_text(IMMEDIATE_SETTINGS)
    suite = "-p django_tasks_conformance.plugin --pyargs django_tasks_conformance.suite"
    assert said in refused(tmp_path, "pytest", *suite.split(), *options.split())


@pytest.mark.slow
@shared_queue
def test_pgjobs_does_what_is_required(tmp_path):
    asked = ask(
        "tests.conformance.pgjobs_settings",
        tmp_path,
        f"--worker={sys.executable} -W ignore -m django runjobs --concurrency 1",
        *("-k", "not renamed"),  # which waits as long as the patience is
        "--patience=60",
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
