"""The plugin of pytest: options, what tests use, and the report."""

import argparse
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import django
import pytest
from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string

from . import journal
from .parts import BEYOND, SUITE
from .report import Report
from .worker import CalledWorker, CommandWorker, NoWorker

APP = "django_tasks_conformance"
HELP = {
    "--tasks-settings": "the project's settings, as a module; they have the app "
    f"{APP} and TASKS",
    "--tasks-worker": "the command that starts a worker with one slot",
    "--tasks-call": "in its place, a callable that runs what is due, by its path",
    "--tasks-report": "where to write the report: a file that ends in .md or .json",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("conformance of a backend of django.tasks")
    for name, text in HELP.items():
        group.addoption(name, default="", help=text)
    text = "seconds in which a worker does what is due (30)"
    group.addoption("--tasks-patience", type=float, default=30.0, help=text)


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Set up Django before a conftest of the project imports its models."""
    options = early_config.known_args_namespace
    if not options.tasks_settings:
        return
    if early_config.pluginmanager.hasplugin("django"):
        raise pytest.UsageError("pytest-django keeps databases away. Add -p no:django")
    os.environ["DJANGO_SETTINGS_MODULE"] = options.tasks_settings
    sys.path.insert(0, os.getcwd())
    set_up()
    check(options)
    folder = Path(tempfile.mkdtemp(prefix="conformance-"))
    os.environ[journal.VARIABLE] = str(folder / "journal")
    report = Report(early_config, folder)
    early_config.pluginmanager.register(report, "conformance-report")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "conformance: a part of the suite")


def set_up() -> None:
    """Set up Django; raise UsageError with what to do if the settings are no good."""
    try:
        django.setup()
        from django.apps import apps

        from .standard import PACKAGE, InvalidTask, task_backends

        task_backends["default"]
    except (ImportError, ImproperlyConfigured, AttributeError) as error:
        raise pytest.UsageError(f"--tasks-settings: {error}") from error
    for app in {APP, PACKAGE} - {"django.tasks"}:
        if not apps.is_installed(app):
            raise pytest.UsageError(f'Add "{app}" to INSTALLED_APPS.')
    try:
        from . import tasks  # noqa: F401
    except InvalidTask as error:
        raise pytest.UsageError(f"The suite cannot declare tasks: {error}") from error


def check(options: argparse.Namespace) -> None:
    """Raise UsageError for options that no test could use."""
    if getattr(options, "numprocesses", None):
        raise pytest.UsageError("Tests side by side take each other's tasks. Add -n0")
    for program in shlex.split(options.tasks_worker)[:1]:
        if not shutil.which(program):
            raise pytest.UsageError(f"--tasks-worker: there is no program {program}")
    if path := options.tasks_call:
        try:
            is_callable = callable(import_string(path))
        except ImportError as error:
            raise pytest.UsageError(f"--tasks-call: {error}") from error
        if not is_callable:
            raise pytest.UsageError(f"--tasks-call: {path} cannot be called")
    if options.tasks_report:
        report = Path(options.tasks_report)
        if report.suffix not in (".md", ".json"):
            raise pytest.UsageError("--tasks-report: a file that ends in .md or .json")
        if not report.parent.is_dir():
            raise pytest.UsageError(f"--tasks-report: no folder {report.parent}")


def pytest_collectstart(collector: pytest.Collector) -> None:
    has_settings = collector.config.getoption("--tasks-settings")
    if collector.path.is_relative_to(SUITE) and not has_settings:
        raise pytest.UsageError("Name a project: --tasks-settings=shop.settings")


def pytest_runtest_setup(item: pytest.Item) -> None:
    if not (mark := item.get_closest_marker("conformance")):
        return
    from .standard import task_backends

    flag = mark.kwargs["flag"]
    if flag and not getattr(task_backends["default"], flag):
        pytest.skip(f"{flag} is False")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo) -> Any:
    """Let what lies beyond the documentation never fail: it says what it met."""
    report = yield
    if mark := item.get_closest_marker("conformance"):
        report.conformance = mark.kwargs
        if mark.kwargs["part"] == BEYOND and report.failed and call.excinfo:
            said = f"Skipped: not seen: {call.excinfo.exconly()}"
            report.outcome = "skipped"  # after "passed" in a setup the test would run
            report.longrepr = (str(item.path), 0, said)
    return report


@pytest.fixture(scope="session")
def worker(pytestconfig: pytest.Config) -> Iterator[NoWorker]:
    """What runs tasks."""
    from .tasks import record

    patience = pytestconfig.getoption("--tasks-patience")
    command = pytestconfig.getoption("--tasks-worker")
    found: NoWorker
    if command:
        log = Path(os.environ[journal.VARIABLE]).with_name("worker.log")
        found = CommandWorker(patience, command, log)
    elif path := pytestconfig.getoption("--tasks-call"):
        found = CalledWorker(patience, import_string(path))
    else:
        found = NoWorker(patience)
    record.enqueue("probe")  # nothing else runs tasks yet
    found.runs_at_once = bool(journal.entries("ran", key="probe"))
    yield found
    found.stop()


@pytest.fixture
def later(worker: NoWorker) -> None:
    """Skip the test if `enqueue` runs the task at once."""
    if worker.runs_at_once:
        pytest.skip("enqueue runs the task at once")


@pytest.fixture
def key() -> str:
    """A text that names this test's task in the journal."""
    return uuid4().hex


@pytest.fixture
def backend() -> Any:
    from .standard import task_backends

    return task_backends["default"]


@pytest.fixture
def tasks() -> Any:
    from . import tasks

    return tasks


@pytest.fixture
def ran(worker: NoWorker) -> Callable[[str], dict]:
    """Wait until the task of this key has begun; return what it noted."""

    def wait(key: str) -> dict:
        return worker.wait(lambda: journal.entries("ran", key=key), "the task runs")[0]

    return wait


@pytest.fixture
def finish(worker: NoWorker, backend: Any) -> Callable[[Any], Any]:
    """Wait for the end of a task; return its result, if the backend keeps results."""

    def wait(result: Any) -> Any:
        if result.is_finished:
            return result
        if not backend.supports_get_result:
            worker.wait(lambda: not worker.runs_at_once, "the result is finished")
            pytest.skip("supports_get_result is False")
        worker.wait(
            lambda: backend.get_result(result.id).is_finished,
            "get_result returns a finished result",
        )
        return backend.get_result(result.id)

    return wait


@pytest.fixture
def say(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Tell what was seen beyond the documentation."""

    def tell(text: str) -> None:
        request.node.user_properties.append(("seen", text))

    return tell
