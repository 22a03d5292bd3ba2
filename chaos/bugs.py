"""Prove the checker: seed bugs into a copy of the product; each must be caught.

    python -m chaos.bugs [name ...]

A bug is a text of the package that is replaced by another one; it is found wherever
it stands, and must stand there exactly once. Each bug has a short run of its own, with
the orders and faults that it takes to show itself. Exits with 1 if one was not caught.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from pgjobs.database.freeze import migration, names_of_migrations, present, released

from .mutations import BUGS, Bug

ROOT = Path(__file__).resolve().parent.parent
SEED = "7"


class Unsuitable(Exception):
    """The product has no such text any more, or has it more than once."""


def seeded(bug: Bug, directory: Path) -> Path:
    """Make a copy of the package with the bug in it; return its directory."""
    package = directory / "pgjobs"
    shutil.copytree(
        ROOT / "pgjobs", package, ignore=shutil.ignore_patterns("__pycache__")
    )
    for old, new in bug.edits:
        replace_once(package, old, new)
    migrate(package)
    return directory


def migrate(package: Path) -> None:
    """Let a migration install the functions that differ from those of a release."""
    last, now = released(package), present(package)
    if last is None:
        return
    if names := [name for name in now.texts if last.texts.get(name) != now.texts[name]]:
        text = migration(names, last, now, names_of_migrations(package)[-1])
        (package / "migrations/9998_bug.py").write_text(text)


def replace_once(package: Path, old: str, new: str) -> None:
    """Replace a text, however it is indented and broken into lines."""
    pattern = re.compile(r"\s+".join(map(re.escape, old.split())))
    found = [
        (path, text)
        for path in [*package.rglob("*.sql"), *package.rglob("*.py")]
        if path.parent.name != "migrations" and pattern.search(text := path.read_text())
    ]
    number = sum(len(pattern.findall(text)) for _, text in found)
    if number != 1:
        raise Unsuitable(f"This stands in the package {number} times, not once:\n{old}")
    ((path, text),) = found
    path.write_text(pattern.sub(lambda _: new, text))


def violations(bug: Bug, directory: Path) -> dict[str, int]:
    """Run the chaos with the bug; return what the verdicts found."""
    package, results = seeded(bug, directory), directory / "violations.json"
    command = [sys.executable, "-m", "chaos", "--seed", SEED, "--json", str(results)]
    command += ["--seconds", str(bug.seconds), "--healing", "10"]
    command += ["--only", bug.faults, "--orders", bug.orders]
    command += ["--backlog", str(bug.backlog)]
    environment = {**os.environ, "CHAOS_PACKAGE": str(package)}
    done = subprocess.run(
        command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False
    )
    if not results.exists():
        raise Unsuitable(f"The run failed:\n{done.stderr[-3_000:]}")
    return json.loads(results.read_text())


def is_caught(bug: Bug) -> bool:
    """Run one bug and return what became of it."""
    with tempfile.TemporaryDirectory(prefix="pgjobs-chaos-bug-") as scratch:
        found = violations(bug, Path(scratch))
    told = {name: number for name, number in found.items() if number}
    caught = bug.verdict in told
    mark = "caught" if caught else "MISSED"
    print(f"| {bug.name} | {bug.verdict} | {mark} | {told} |", flush=True)  # noqa: T201
    return caught


def main(names: Sequence[str]) -> int:
    if unknown := set(names) - {bug.name for bug in BUGS}:
        raise SystemExit(f"There is no bug {unknown}.")
    print("| bug | must be caught by | | violations |\n|---|---|---|---|")  # noqa: T201
    chosen = [bug for bug in BUGS if not names or bug.name in names]
    caught = [is_caught(bug) for bug in chosen]
    print(f"\n{sum(caught)} of {len(caught)} bugs were caught.")  # noqa: T201
    return 0 if all(caught) else 1


if __name__ == "__main__":
    # As Ctrl-C does, so that no copy and no run stays behind.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    sys.exit(main(sys.argv[1:]))
