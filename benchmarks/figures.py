"""Figures with goals: what benchmarks that run real workers are made of.

A module marks its figures by `@figure` and ends in `sys.exit(main(...))`. Exits with 1
if a figure misses its goal.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.server import running_server

ROOT = Path(__file__).resolve().parent.parent
FIGURES: dict[str, Callable[[], None]] = {}
missed: list[str] = []


def figure(function: Callable[[], None]) -> Callable[[], None]:
    FIGURES[function.__name__] = function
    return function


def report(what: str, value: float, unit: str, goal: float | None = None) -> None:
    """Print a figure; it is to stay below its goal, if it has one."""
    verdict = ""
    if goal is not None:
        verdict = f"goal {goal:g} {unit}"
        if value >= goal:
            verdict += "  MISSED"
            missed.append(what)
    line = f"{what:66}{value:9.2f} {unit:10}{verdict}".rstrip()
    print(line, flush=True)  # noqa: T201


def start_worker(*arguments: str, **environment: str) -> subprocess.Popen:
    """Start a worker process; the caller ends it."""
    return subprocess.Popen(
        [sys.executable, "-m", "django", "runjobs", "--verbosity", "0", *arguments],
        env={**os.environ, **environment},
        cwd=ROOT,
    )


def sessions_named(name: str) -> int:
    return count(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
        "AND application_name LIKE %s",
        [name],
    )


def listening_workers() -> int:
    """Return how many workers hear notifications. Each holds a lock for that."""
    return count(
        "SELECT count(DISTINCT pid) FROM pg_locks JOIN pg_database"
        " ON pg_database.oid = pg_locks.database"
        " WHERE datname = current_database() AND classid = 1885825646",
        [],
    )


def count(sql: str, parameters: list) -> int:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return cursor.fetchone()[0]


def wait_for(condition: Callable[[], object], timeout: float = 30) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, f"still not after {timeout:g} s"
        time.sleep(0.005)


def main(names: list[str], tasks: str) -> int:
    """Measure these figures, or all; `tasks`: the module with their tasks."""
    unknown = set(names) - FIGURES.keys()
    if unknown:
        sys.exit(f"No figure {', '.join(unknown)}; there are: {', '.join(FIGURES)}.")
    with running_server(os.environ.get("DATABASE_URL")) as server:
        os.environ["DATABASE_URL"] = server.create_database("running")
        os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.running_settings"
        os.environ["BENCHMARK_TASKS"] = tasks
        paths = [str(ROOT), str(ROOT / "example_project")]
        sys.path[:0] = paths
        os.environ["PYTHONPATH"] = os.pathsep.join(paths)
        measure(names or list(FIGURES))
        server.drop_database("running")
    return 1 if missed else 0


def measure(names: list[str]) -> None:
    import django
    from django.core.management import call_command

    django.setup()
    call_command("migrate", verbosity=0)
    for name in names:
        FIGURES[name]()
    django.db.connections.close_all()
