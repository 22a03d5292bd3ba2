"""Which modules are imported, and when: none because of what a row says."""

import sys
from pathlib import Path

import pytest

import tests
from pgjobs import drain
from pgjobs.features.django_tasks import task_lookup
from pgjobs.models import Job
from pgjobs.tasks.registry import registry
from pgjobs.worker import Loop, WorkerOptions
from tests import standard_tasks
from tests.standard import default_task_backend, task_backends

pytestmark = pytest.mark.django_db(transaction=True)

DECLARING = """
from {package} import task

@task
def wipe():
    return "wiped"
"""
PACKAGE = standard_tasks.task.__module__.partition(".")[0]
if PACKAGE == "django":
    PACKAGE = "django.tasks"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder whose modules are part of the package `tests`, which is an app."""
    monkeypatch.setattr(tests, "__path__", [*tests.__path__, str(tmp_path)])
    yield tmp_path
    for path in tmp_path.rglob("*.py"):
        module = ".".join(("tests", *path.relative_to(tmp_path).with_suffix("").parts))
        sys.modules.pop(module, None)
        # What has run has been adapted, and would be declared ever after.
        adapters = default_task_backend.adapters
        if adapted := adapters.by_path.pop(f"{module}.wipe", None):
            del adapters.by_function[adapted.declared.func]


def declare(path: Path) -> None:
    path.parent.mkdir(exist_ok=True, parents=True)
    for each in (path.parent, *path.parent.parents):
        if each.name == "pytest" or not each.name.startswith("parts"):
            break
        (each / "__init__.py").touch()
    path.write_text(DECLARING.format(package=PACKAGE))


def test_row_imports_no_module_of_the_project(folder, settings):
    settings.PGJOBS = {"UNKNOWN_TASK_GRACE": 0}
    declare(folder / "cleaning.py")
    job = Job.objects.create(task="default:tests.cleaning.wipe")
    drain()
    job.refresh_from_db()
    assert job.reason.startswith("No task registered")
    assert "tests.cleaning" not in sys.modules


def test_reading_a_result_imports_nothing(folder):
    declare(folder / "reading.py")
    job = Job.objects.create(task="default:tests.reading.wipe")
    result = task_backends["default"].get_result(str(job.pk))
    assert result.task.module_path == "tests.reading.wipe"
    assert "tests.reading" not in sys.modules


def test_row_calls_no_function_of_a_module(monkeypatch):
    asked = []
    monkeypatch.setattr(standard_tasks, "__getattr__", asked.append, raising=False)
    assert default_task_backend.adapters.find("tests.standard_tasks.lazy") is None
    assert asked == []


def test_worker_imports_what_declares_tasks_when_it_starts(folder, monkeypatch):
    declare(folder / "parts" / "emails.py")
    (folder / "harmless.py").write_text("raise SystemExit")
    monkeypatch.setattr(task_lookup, "folders", lambda: {"tests": folder})
    task_lookup.import_declaring_modules.cache_clear()
    job = Job.objects.create(task="default:tests.parts.emails.wipe")
    drain()
    job.refresh_from_db()
    assert job.return_value == "wiped"
    assert "tests.harmless" not in sys.modules


def test_tests_scripts_and_migrations_are_not_imported(folder, monkeypatch):
    for name in ("test_it", "conftest", "it_test", "__main__"):
        declare(folder / f"{name}.py")
    for name in ("tests", "migrations", "management"):
        declare(folder / name / "it.py")
        (folder / name / "__init__.py").touch()
    monkeypatch.setattr(task_lookup, "folders", lambda: {"tests": folder})
    assert list(task_lookup.declaring_modules()) == []


@pytest.mark.parametrize(
    ("lines", "declares"),
    [
        ("from django.tasks import task", True),
        ("from django_tasks import Task, task", True),
        ("from django import forms, tasks", True),
        ("import django.tasks", True),
        ("from .decorators import task", True),
        ("from tests.standard import (\n    other,\n    task,\n)", True),
        ("from pgjobs import task", False),
        ("from celery import task", False),
        ("from .decorators import taskmaster", False),
        ("# from django.tasks import task", False),
    ],
)
def test_modules_with_tasks_are_recognised(lines, declares):
    source = f"{lines}\n\n@task\ndef send(): ...\n"
    assert task_lookup.declares_tasks(source.encode()) == declares
    assert not task_lookup.declares_tasks(lines.encode())


@pytest.mark.parametrize("error", ["SystemExit", "KeyError", "ImportError"])
def test_worker_starts_beside_a_module_that_cannot_be_imported(
    error, folder, monkeypatch, caplog
):
    declare(folder / "broken.py")
    with (folder / "broken.py").open("a") as file:
        file.write(f"\nraise {error}('no')\n")
    monkeypatch.setattr(task_lookup, "folders", lambda: {"tests": folder})
    task_lookup.import_declaring_modules.cache_clear()
    result = standard_tasks.noop.enqueue()
    drain()
    result.refresh()
    assert result.is_finished
    assert "tests.broken, which has tasks, cannot be loaded" in caplog.text


def test_each_app_and_the_settings_are_looked_through_once():
    found = task_lookup.folders()
    assert {"pgjobs", "tests", "django.contrib.admin"} <= found.keys()
    assert not any(name.startswith("pgjobs.") for name in found)


def test_no_lock_is_held_while_a_task_is_looked_up(monkeypatch):
    loop = Loop(WorkerOptions(database="default", drain=True))
    held = []

    class Source:
        def find_task(self, name):
            held.append(loop.executor.lock.locked())

        def load_tasks(self):
            pass

        def known_tasks(self):
            return []

        def queue_names(self):
            return set()

    monkeypatch.setattr(registry, "sources", [Source()])
    Job.objects.create(task="default:tests.nowhere.task")
    loop.run()
    assert held
    assert not any(held)
