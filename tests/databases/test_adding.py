"""The guide's way to add a database, walked on one that is empty."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator

import psycopg
import pytest

from tests.documents.examples import COMMAND
from tests.processes import LONGEST_TEST, ROOT, database_url, shared_queue, wait_for
from tests.settings import TEST_DATABASE
from tests.support.second_database import on_server

EMPTY = f"{TEST_DATABASE}_empty"
SECTION = re.compile(r"^## Add a shard\n(.*?)^## ", re.M | re.S)
WORKERS = re.compile(r"`runjobs (.*?)`")


@pytest.fixture
def empty_database(monkeypatch) -> Iterator[str]:
    """Create a database for "eu", and nothing in it; return its name."""
    on_server("DROP DATABASE IF EXISTS {} WITH (FORCE)", EMPTY)
    on_server("CREATE DATABASE {}", EMPTY)
    monkeypatch.setenv("PGJOBS_TEST_SECOND", EMPTY)
    yield EMPTY
    on_server("DROP DATABASE {} WITH (FORCE)", EMPTY)


def section() -> str:
    page = (ROOT / "docs/guides/databases.md").read_text()
    return SECTION.search(page)[1]


def manage(line: str) -> str:
    """Run a command line of the page in a process of its own; return what it prints."""
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "django", *shlex.split(line)],
        env={
            **os.environ,
            "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'example_project'}",
            "DJANGO_SETTINGS_MODULE": "tests.settings",
            "DATABASE_URL": database_url(),
            "PGJOBS_IN_TEST_PROCESS": "1",
            "PGJOBS_TEST_DATABASE": TEST_DATABASE,
        },
        cwd=ROOT,
        timeout=LONGEST_TEST,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, f"{line}: {ended.stdout}{ended.stderr}"
    return ended.stdout


def jobs_of(database: str) -> list[tuple[int, str]]:
    with psycopg.connect(f"{database_url().rpartition('/')[0]}/{database}") as own:
        return own.execute("SELECT id, status FROM pgjobs_job").fetchall()


@shared_queue
def test_database_that_is_added_as_the_guide_says_runs_jobs(empty_database, start):
    before, after = section().split("3. Start its workers")
    lines = [found[1] for found in map(COMMAND.search, before.splitlines()) if found]
    migrate, set_block, show_blocks = lines
    manage(migrate)
    block = int(set_block.rpartition(" ")[2])
    assert manage(set_block) == f"Block {block}\n"
    assert manage(show_blocks).endswith(f"eu:\nBlock {block}\n")
    worker = start(*WORKERS.search(after)[1].split())
    manage("enqueuejob tests.noop --database eu")
    ended = [(block * 10**12 + 1, "SUCCESSFUL")]
    wait_for(lambda: jobs_of(empty_database) == ended, "its job has run")
    assert worker.stop() == 0
    assert f"eu ({EMPTY} at" in worker.printed
