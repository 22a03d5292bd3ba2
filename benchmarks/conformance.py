"""The suite of `django_tasks_conformance` on pgjobs and on other backends.

`python -m benchmarks.conformance [NAME ...]` asks each in an environment of its own,
and keeps the reports in `benchmarks/results/conformance.json`. `render` writes the
tables of `docs/guides/conformance.md` from them.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.catalogue import System
from benchmarks.environments import NotInstalled, command_of, install
from benchmarks.figures import ROOT
from benchmarks.redis_server import RedisServer
from benchmarks.server import Server, running_server

RESULTS = ROOT / "benchmarks/results/conformance.json"
PAGE = ROOT / "docs/guides/conformance.md"
BEGIN, END = "<!-- results -->", "<!-- end of the results -->"
# What follows `python -m django`: a worker that runs one task at a time.
WORKERS = {
    "pgjobs": "runjobs --concurrency 1",
    "django-tasks-db": "db_worker --no-startup-delay",
    "django-tasks-rq": "rqworker --with-scheduler --job-class django_tasks_rq.Job",
    "django-ox": "ox_worker",
    "dj-queue": "dj_queue",
    "steady-queue": "steady_queue",
    "django-absurd": "absurd_worker",
}
LONGEST = 1_800.0  # seconds


def system_of(name: str) -> System:
    requirements = None if name == "pgjobs" else f"conformance-{name}.txt"
    return System(name, "", 0, "", requirements=requirements)


def ask(name: str, server: Server, redis: str) -> dict[str, Any]:
    """Install the backend, ask it, and return the report. Raises NotInstalled."""
    system = system_of(name)
    install(system)
    python = command_of(system)[0]
    database = name.replace("-", "_")
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "CONFORMANCE_BACKEND": name,
        "DATABASE_URL": server.create_database(database),
        "SECOND_URL": server.create_database(f"{database}_second"),
        "REDIS_URL": redis,
        "DJANGO_SETTINGS_MODULE": "benchmarks.conformance_settings",
    }
    subprocess.run(
        [python, "-m", "django", "migrate", "-v", "0"], env=environment, check=True
    )
    # What fails is tried once, so that nothing waits for more attempts. What
    # becomes of a task whose worker dies is asked of the backend as it comes.
    found = report_of(python, name, "not unsaid", {**environment, "ATTEMPTS": "1"})
    beyond = report_of(python, name, "unsaid", environment)
    failed = [test for test in found["tests"] if test["outcome"] == "failed"]
    return {**found, "worker": WORKERS[name], "tests": failed + beyond["tests"]}


def report_of(
    python: str, name: str, chosen: str, environment: dict[str, str]
) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        subprocess.run(
            [
                *(python, "-m", "django_tasks_conformance"),
                environment["DJANGO_SETTINGS_MODULE"],
                f"--worker={python} -m django {WORKERS[name]}",
                f"--report={report}",
                *("-k", chosen),
            ],
            env=environment,
            timeout=LONGEST,
            cwd=folder,
        )
        return json.loads(report.read_text())


def run(names: list[str]) -> None:
    reports = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    redis = RedisServer()
    try:
        with running_server(os.environ.get("DATABASE_URL")) as server:
            for name in names or WORKERS:
                try:
                    reports[name] = ask(name, server, redis.url)
                except NotInstalled as error:
                    print(f"{name}: {error}")  # noqa: T201
                kept = {each: reports[each] for each in WORKERS if each in reports}
                RESULTS.write_text(json.dumps(kept, indent=1) + "\n")
    finally:
        redis.stop()


def table(head: list[str], rows: list[list[str]]) -> Iterator[str]:
    for row in (head, ["---"] * len(head), *rows):
        yield f"| {' | '.join(' '.join(cell.split()) for cell in row)} |"


def tables(reports: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of the tables: what counts, and what was seen beyond."""
    yield from table(
        ["backend", "worker", "required", "supported", "what failed"],
        [
            [
                f"{name} {each['version']}",
                f"`{each['worker']}`",
                each["required"],
                each["supported"],
                ", ".join(failures_of(each)) or "nothing",
            ]
            for name, each in reports.items()
        ],
    )
    seen: dict[str, dict[str, str]] = {}
    for name, report in reports.items():
        for test in report["tests"]:
            if test["part"] == "beyond":
                of = seen.setdefault(test["places"][0], {})
                said = (test["seen"] or test["reason"]).replace("|", "\\|")
                of[name] = f"{of[name]}; {said}" if name in of else said
    yield ""
    yield from table(
        ["", *reports],
        [[what, *(of.get(name, "") for name in reports)] for what, of in seen.items()],
    )
    with_ = {each["with"] for each in reports.values()}
    dates = {each["date"] for each in reports.values()}
    yield f"\nAsked on {', '.join(sorted(dates))}, with {'; '.join(sorted(with_))}."


def failures_of(report: dict[str, Any]) -> Iterator[str]:
    """Yield the tests that failed, with how often of those with parameters."""
    failed = [each for each in report["tests"] if each["outcome"] == "failed"]
    counted = Counter(each["name"].partition("[")[0] for each in failed)
    for name, number in counted.items():
        yield f"{name} ({number})" if number > 1 else name


def with_tables(page: str, reports: dict[str, Any]) -> str:
    before, rest = page.split(BEGIN)
    after = rest.split(END)[1]
    return "\n\n".join([before + BEGIN, "\n".join(tables(reports)), END + after])


if __name__ == "__main__":
    if sys.argv[1:] == ["render"]:
        reports = json.loads(RESULTS.read_text())
        PAGE.write_text(with_tables(PAGE.read_text(), reports))
    else:
        run(sys.argv[1:])
