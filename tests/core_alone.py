"""The core without features: `python -m tests.core_alone FOLDER` makes a copy there.

The copy's list of features is empty, and their folders are gone. Doors offer what the
core has. There `python -m pytest --ds tests.settings_without_features` runs the core's
own tests: those in its rooms that import nothing of features, nor anything that does.
"""

import ast
import re
import shutil
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pgjobs
from pgjobs.features import FEATURES

PACKAGE = Path(pgjobs.__file__).parent
CHECKOUT = PACKAGE.parent
LEFT_OUT = shutil.ignore_patterns("__pycache__", ".pgdata*")
LIST = "FEATURES: tuple[str, ...] = "
# Whose tests run in the copy.
ROOMS = {
    *("admin", "database", "databases", "declaring", "management", "process"),
    *("queue", "telemetry", "worker"),
}
# They are about the one history of migrations, which has the tables and functions of
# features, too.
OF_HISTORY = {
    "tests/database/test_dump_of_data.py",
    "tests/database/test_dumped_program.py",
    "tests/database/test_freeze.py",
    "tests/database/test_install.py",
    "tests/database/test_migrations.py",
    "tests/database/test_owner.py",
}
# They start many workers one after the other: they take too long to run twice. Each ran
# in the copy without a failure before it was left out.
LONG = {
    "tests/databases/test_commands.py",
    "tests/process/test_deaths.py",
    "tests/process/test_ending.py",
    "tests/process/test_locks_of_workers.py",
    "tests/process/test_poison.py",
    "tests/process/test_rescue.py",
    "tests/process/test_shutdown.py",
    "tests/process/test_supervisor.py",
    "tests/worker/test_async.py",
    "tests/worker/test_cancel_running.py",
    "tests/worker/test_execution.py",
    "tests/worker/test_faults.py",
    "tests/worker/test_isolation.py",
    "tests/worker/test_listener.py",
    "tests/worker/test_survey.py",
    "tests/worker/test_time_limits.py",
}
# They name what is of features by texts. The set may only become smaller.
MIXED = {
    "tests/declaring/test_modules.py",
    "tests/management/test_refusals.py",
    "tests/queue/test_crowds.py",
    "tests/queue/test_new_job.py",
    "tests/queue/test_order_of_limits.py",
    "tests/queue/test_undone.py",
    "tests/queue/test_unserved.py",
}
DOORS = (
    *("__init__.py", "models/__init__.py", "testing/__init__.py", "views.py"),
    *("backends/*.py", "contrib/*.py", "management/commands/*.py"),
)


def make(folder: Path) -> None:
    """Copy the package and its tests, without features."""
    for name in ("pgjobs", "tests", "example_project", "benchmarks"):
        shutil.copytree(CHECKOUT / name, folder / name, ignore=LEFT_OUT)
    shutil.copy(CHECKOUT / "setup.cfg", folder)
    for name in FEATURES:
        shutil.rmtree(folder / "pgjobs/features" / name)
    empty_the_list(folder / "pgjobs/features/__init__.py")
    for path in doors():
        close(folder / path.relative_to(CHECKOUT), names_of_features(path))
    (folder / "pgjobs/urls.py").unlink()  # its views are of features
    for path in mixed():
        (folder / path.relative_to(CHECKOUT)).unlink()
    for path in (folder / "tests").glob("*/"):
        if path.name not in {*ROOMS, "support"}:
            shutil.rmtree(path)
    for path in (folder / "tests").glob("test_*.py"):
        path.unlink()


def empty_the_list(path: Path) -> None:
    text = path.read_text()
    begin = text.index(LIST) + len(LIST)
    end = text.index("\n)\n", begin) + 2
    path.write_text(f"{text[:begin]}(){text[end:]}")


# Doors


def doors() -> list[Path]:
    return [path for each in DOORS for path in sorted(PACKAGE.glob(each))]


def close(path: Path, names: set[str]) -> None:
    """Take these names from a door; it goes if it has no others."""
    text = path.read_text()
    lines = text.splitlines(keepends=True)
    kept = 0
    for node in ast.parse(text).body:
        if isinstance(node, ast.ImportFrom):
            if names.isdisjoint(each.name for each in node.names):
                kept += 1
            else:
                for number in range(node.lineno - 1, node.end_lineno or node.lineno):
                    lines[number] = ""
    listed = re.compile(rf'\s*"(?:{"|".join(names)})",')
    path.write_text(listed.sub("", "".join(lines)) if names else text)
    if names and not kept:
        path.unlink()


def names_of_features(door: Path) -> set[str]:
    """Return the names that a door has of features."""
    return {
        name.rpartition(".")[2]
        for name in imports_of(door)
        if name.startswith("pgjobs.features.")
    }


@cache
def gone() -> set[str]:
    """Return the names that the copy lacks, with their modules, and modules."""
    names = {
        f"{module_of(path)}.{name}"
        for path in doors()
        for name in names_of_features(path)
    }
    modules = {f"pgjobs.features.{name}" for name in FEATURES}
    return {*names, *modules, "tests.features", "tests.documents"}


# Tests


@cache
def uses_features(path: Path) -> bool:
    """Whether a module of the tests imports anything that the copy lacks."""
    for name in imports_of(path):
        parts = name.split(".")
        if any(
            ".".join(parts[:number]) in gone() for number in range(1, len(parts) + 1)
        ):
            return True
        imported = file_of(name)
        if imported is not None and uses_features(imported):
            return True
    return False


def file_of(name: str) -> Path | None:
    """Return the module of the tests that a name is, or that a name is of."""
    while name.startswith("tests."):
        for path in (f"{name}.py", f"{name}/__init__.py"):
            found = CHECKOUT / path.replace(".", "/", path.count(".") - 1)
            if found.is_file():
                return found
        name = name.rpartition(".")[0]
    return None


def needs_features(path: Path) -> bool:
    name = str(path.relative_to(CHECKOUT))
    return uses_features(path) or name in MIXED | OF_HISTORY | LONG


def mixed() -> list[Path]:
    """Return the tests beside those of features that do not run without them."""
    paths = sorted((CHECKOUT / "tests").rglob("*.py"))
    rooms = {
        path.parent
        for path in paths
        if path.name == "conftest.py" and uses_features(path)
    }
    return [
        path
        for path in paths
        if "features" not in path.relative_to(CHECKOUT).parts
        and (needs_features(path) or rooms & {*path.parents})
    ]


def imports_of(path: Path) -> Iterator[str]:
    """Yield the full names of what a module imports."""
    package = module_of(path).split(".")
    if path.name != "__init__.py":
        package.pop()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            base = [node.module] if node.module else []
            if node.level:
                base = [*package[: len(package) - node.level + 1], *base]
            yield from (".".join([*base, alias.name]) for alias in node.names)


def module_of(path: Path) -> str:
    parts = path.relative_to(CHECKOUT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


if __name__ == "__main__":
    make(Path(sys.argv[1]))
