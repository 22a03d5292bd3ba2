"""The report: in the terminal, as Markdown, or as JSON for a table of several."""

import datetime
import json
import platform
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from importlib.metadata import packages_distributions, version
from pathlib import Path
from typing import Any

import django
import pytest

from .parts import BEYOND, REQUIRED, SUPPORTED

TITLES = {
    REQUIRED: "Required by Django's documentation",
    SUPPORTED: "Required because the backend says that it supports it",
    BEYOND: "Beyond the documentation: what was seen, without a verdict",
}
VERDICTS = (REQUIRED, SUPPORTED)
FLAGS = (
    "supports_get_result",
    "supports_defer",
    "supports_priority",
    "supports_async_task",
)


class Report:
    """Collects the tests' outcomes."""

    def __init__(self, config: pytest.Config, folder: Path):
        self.config = config
        self.folder = folder
        self.marks: dict[str, Mapping[str, Any]] = {}
        self.tests: dict[str, dict[str, Any]] = {}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            if mark := item.get_closest_marker("conformance"):
                self.marks[item.nodeid] = mark.kwargs

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.nodeid not in self.marks:
            return
        if report.when == "call" or report.outcome != "passed":
            self.tests[report.nodeid] = self.entry(report)

    def entry(self, report: pytest.TestReport) -> dict[str, Any]:
        reason, mark = "", self.marks[report.nodeid]
        if report.skipped and isinstance(report.longrepr, tuple):
            reason = report.longrepr[2].removeprefix("Skipped: ")
        elif report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            reason = crash.message if crash else str(report.longrepr)
        seen = [str(text) for name, text in report.user_properties if name == "seen"]
        return {
            "part": mark["part"],
            "name": report.nodeid.rpartition("::test_")[2].replace("_", " "),
            "places": list(mark["places"]),
            "outcome": report.outcome,
            "reason": reason,
            "seen": "; ".join(seen),
        }

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self.tests:
            terminalreporter.section("conformance to django.tasks")
            for line in self.lines():
                terminalreporter.write_line(line)

    def pytest_sessionfinish(self) -> None:
        if (path := self.config.getoption("--tasks-report")) and self.tests:
            is_json = path.endswith(".json")
            text = json.dumps(self.data(), indent=1) if is_json else self.markdown()
            Path(path).write_text(text + "\n", encoding="utf-8")

    def pytest_unconfigure(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def of(self, *parts: str, outcome: str = "") -> list[dict[str, Any]]:
        tests = [test for test in self.tests.values() if test["part"] in parts]
        return [test for test in tests if outcome in ("", test["outcome"])]

    def headline(self, part: str) -> str:
        passed, failed = (len(self.of(part, outcome=o)) for o in ("passed", "failed"))
        return f"{passed} of {passed + failed}"

    def data(self) -> dict[str, Any]:
        """Return all of the report as JSON data."""
        options = ("--tasks-worker", "--tasks-call")
        return {
            **about_backend(),
            "worker": next(filter(None, map(self.config.getoption, options)), "none"),
            "required": self.headline(REQUIRED),
            "supported": self.headline(SUPPORTED),
            "tests": list(self.tests.values()),
        }

    def lines(self) -> Iterator[str]:
        about = self.data()
        yield f"{about['backend']} {about['version']} {about['with']}, {about['date']}"
        yield f"required   {about['required']}"
        yield f"supported  {about['supported']} ({', '.join(about['flags'])})"
        reasons = [each["reason"] for each in self.of(*VERDICTS, outcome="skipped")]
        for reason, number in Counter(reasons).items():
            yield f"not asked  {number}: {reason}"
        for test in self.of(*VERDICTS, outcome="failed"):
            first = test["reason"].partition("\n")[0]
            yield f"FAILED     {test['name']} [{', '.join(test['places'])}]: {first}"
        for test in self.of(BEYOND):
            yield f"beyond     {test['places'][0]}: {test['seen'] or test['reason']}"

    def markdown(self) -> str:
        about = self.data()
        lines = [
            f"# {about['backend']} {about['version']}\n",
            f"{about['with']}, {about['date']}. Worker: `{about['worker']}`.",
        ]
        for part, title in TITLES.items():
            count = f" ({about[part]})" if part in VERDICTS else ""
            lines.append(f"\n## {title}{count}\n\n| what | where | |\n|---|---|---|")
            for test in self.of(part):
                said = test["seen"] or f"{test['outcome']} {test['reason']}"
                cells = (test["name"], ", ".join(test["places"]), said)
                lines.append(f"| {' | '.join(map(in_a_cell, cells))} |")
        return "\n".join(lines)


def in_a_cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def about_backend() -> dict[str, Any]:
    """Return which backend was asked, with which versions, and when."""
    from .standard import PACKAGE, task_backends

    cls = type(task_backends["default"])
    package = cls.__module__.partition(".")[0]
    names = packages_distributions().get(package, [])
    return {
        "backend": f"{cls.__module__}.{cls.__qualname__}",
        "version": version(names[0]) if names else "",
        "with": f"({PACKAGE} of Django {django.get_version()}, "
        f"Python {platform.python_version()})",
        "date": datetime.date.today().isoformat(),
        "flags": [name for name in FLAGS if getattr(cls, name)],
    }
