"""The report: in the terminal, as Markdown, or as JSON for a table of several."""

import datetime
import json
import platform
import shutil
from collections import Counter
from collections.abc import Iterator
from importlib.metadata import packages_distributions, version
from pathlib import Path
from typing import Any

import django
import pytest

from .parts import BEYOND, REQUIRED, SUPPORTED

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
        self.tests: dict[str, dict[str, Any]] = {}

    def pytest_runtest_logreport(self, report: Any) -> None:
        is_last = report.when == "call" or report.outcome != "passed"
        if is_last and hasattr(report, "conformance"):
            self.tests[report.nodeid] = self.entry(report)

    def entry(self, report: Any) -> dict[str, Any]:
        reason, mark = "", report.conformance
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
        from .standard import PACKAGE, task_backends

        cls = type(task_backends["default"])
        names = packages_distributions().get(cls.__module__.partition(".")[0])
        options = ("--tasks-worker", "--tasks-call")
        return {
            "backend": f"{cls.__module__}.{cls.__qualname__}",
            "version": version(names[0]) if names else "",
            "with": f"{PACKAGE} on Django {django.get_version()}, "
            f"Python {platform.python_version()}",
            "date": datetime.date.today().isoformat(),
            "flags": [name for name in FLAGS if getattr(cls, name)],
            "worker": next(filter(None, map(self.config.getoption, options)), "none"),
            "required": self.headline(REQUIRED),
            "supported": self.headline(SUPPORTED),
            "tests": list(self.tests.values()),
        }

    def lines(self) -> Iterator[str]:
        about = self.data()
        yield f"{about['backend']} {about['version']}, {about['with']}, {about['date']}"
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
        rows = [["part", "what", "where", ""], ["---"] * 4]
        for test in self.tests.values():
            said = test["seen"] or f"{test['outcome']} {test['reason']}"
            places = ", ".join(test["places"])
            rows.append([test["part"], test["name"], places, said])
        lines = [f"| {' | '.join(map(in_a_cell, row))} |" for row in rows]
        head = [line for line in self.lines() if not line.startswith(BEYOND)]
        return "\n".join([f"# {head[0]}\n", *map("- {}".format, head[1:]), "", *lines])


def in_a_cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
