"""Runs the suite in a process of its own, as its users do, and reads its report."""

import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from tests.processes import LONGEST_TEST, ROOT, process_environment


class Asked(NamedTuple):
    code: int
    printed: str
    report: dict

    def named(self, outcome: str, *parts: str) -> set[str]:
        """Return the names of tests with this outcome."""
        return {
            test["name"]
            for test in self.report["tests"]
            if test["outcome"] == outcome and test["part"] in (parts or PARTS)
        }

    @property
    def failed(self) -> set[str]:
        return self.named("failed")

    def seen(self, subject: str) -> str:
        """Return what was seen beyond the documentation."""
        (said,) = (
            test["seen"] or test["reason"]
            for test in self.report["tests"]
            if test["places"] == [subject]
        )
        return said


PARTS = ("required", "supported", "beyond")


def ask(settings: str, folder: Path, *options: str, **environment: str) -> Asked:
    report = folder / "report.json"
    done = subprocess.run(
        [
            *(sys.executable, "-m", "django_tasks_conformance", settings),
            *(f"--report={report}", *options),
        ],
        cwd=ROOT,
        env=process_environment(**environment),
        capture_output=True,
        text=True,
        timeout=LONGEST_TEST * 3,
    )
    printed = done.stdout + done.stderr
    assert report.exists(), printed
    return Asked(done.returncode, printed, json.loads(report.read_text()))
