"""The kit in a project of its own: the examples of docs/testing.md, run as users do."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from django.db import connections

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent.parent.parent / "docs" / "testing.md"
BLOCK = re.compile(r"^```python\n# (shop/\w+\.py)\n(.*?)^```", re.MULTILINE | re.DOTALL)
ASYNC_TASK = """

@task
async def count_orders() -> int:
    return await Order.objects.acount()
"""
pytestmark = pytest.mark.django_db


@pytest.fixture(scope="session")
def project(tmp_path_factory) -> Path:
    """Write the project: its files, and those that the page shows."""
    folder = tmp_path_factory.mktemp("sample") / "project"
    shutil.copytree(HERE / "sample", folder)
    for path, text in BLOCK.findall(PAGE.read_text()):
        (folder / path).write_text(text)
    with (folder / "shop/tasks.py").open("a") as tasks:
        tasks.write(ASYNC_TASK)
    (folder / "shop/more.py").rename(folder / "shop/test_more.py")
    return folder


def run(project: Path, *command: str, **environment: str) -> str:
    """Run a command of the project with a test database of its own."""
    settings = connections["default"].settings_dict
    name = f"sample_{settings['NAME']}"
    database = {
        key: settings[key]
        for key in ("ENGINE", "HOST", "PORT", "USER", "PASSWORD", "OPTIONS")
    }
    database |= {"NAME": "postgres", "TEST": {"NAME": name}}
    done = subprocess.run(
        [sys.executable, *command],
        cwd=project,
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.pathsep.join([str(project), *sys.path]),
            "DJANGO_SETTINGS_MODULE": "sample_settings",
            "SAMPLE_DATABASE": json.dumps(database),
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout[-5_000:] + done.stderr[-5_000:]
    return done.stdout + done.stderr


def test_examples_of_the_page_are_there(project):
    paths = [path for path, _ in BLOCK.findall(PAGE.read_text())]
    assert paths == ["shop/tasks.py", "shop/tests.py", "shop/test_with_pytest.py"]


@pytest.mark.slow
def test_django_runs_the_examples_side_by_side(project):
    printed = run(project, "manage.py", "test", "--parallel", "2", "--noinput")
    assert "Ran 19 tests" in printed
    assert "OK" in printed


@pytest.mark.slow
def test_pytest_runs_the_examples(project):
    printed = run(
        project,
        *("-m", "pytest", "-q", "-n2", "-p", "no:cacheprovider", "--create-db"),
        *("-o", "python_files=tests.py test_*.py", "shop"),
    )
    assert "22 passed" in printed


@pytest.mark.slow
def test_queue_may_be_in_another_database(project):
    printed = run(
        project,
        *("manage.py", "test", "--noinput", "shop.test_more"),
        SAMPLE_QUEUE="queue",
    )
    assert "OK" in printed


def test_plugin_of_pytest_loads_nothing_until_it_is_used():
    code = "import sys, pytest_pgjobs; print({'django', 'pgjobs'} & {*sys.modules})"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "set()\n", done.stderr
