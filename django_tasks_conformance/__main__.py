"""`python -m django_tasks_conformance SETTINGS --worker "COMMAND"`."""

import argparse
import os
import sys

import pytest

from .parts import SUITE


def main() -> int:
    """Run the suite; return 0 if the backend does all that is required of it."""
    parser = argparse.ArgumentParser(
        prog="python -m django_tasks_conformance",
        epilog="Options of pytest stand behind the settings, such as -k priority.",
    )
    parser.add_argument("settings", help="the project's settings, as a module")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--worker", default="", help="a command with one slot")
    how.add_argument("--call", default="", help="a callable, by its path")
    parser.add_argument("--patience", type=float, default=30.0, help="seconds (30)")
    parser.add_argument("--report", default="", help="a file: .md or .json")
    given, others = parser.parse_known_args()
    # Other packages' plugins may want other plugins, or a test database.
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    return pytest.main(
        [
            str(SUITE),
            f"--tasks-settings={given.settings}",
            f"--tasks-worker={given.worker}",
            f"--tasks-call={given.call}",
            f"--tasks-patience={given.patience}",
            f"--tasks-report={given.report}",
            *("-p", "django_tasks_conformance.plugin", "-p", "no:cacheprovider"),
            *(f"--rootdir={SUITE}", "-c", "/dev/null"),
            *("-q", "--tb=short", "--no-header", *others),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
