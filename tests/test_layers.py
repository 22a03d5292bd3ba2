"""The layers: a module imports only from its own layer and from those below.

Read with `ast`, so that nothing needs to run. Imports for type checkers only do not
count; imports inside functions count, unless they are listed here with their reason.
"""

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

import pgjobs

ROOT = Path(pgjobs.__file__).parent
ORDER = ("ground", "queue", "declaring", "running", "doors")
# A package's name stands for all of its modules.
LAYERS = {
    "ground": (
        "pgjobs.addresses",
        "pgjobs.backoff",
        "pgjobs.conf",
        "pgjobs.connections",
        "pgjobs.database",
        "pgjobs.exceptions",
        "pgjobs.fields",
        "pgjobs.plain_json",
        "pgjobs.signals",
        "pgjobs.sql",
        "pgjobs.texts",
        "pgjobs.transactions",
        "pgjobs.timetable",
    ),
    "queue": ("pgjobs.models",),
    "declaring": (
        "pgjobs.arguments",
        "pgjobs.bound",
        "pgjobs.chains",
        "pgjobs.context",
        "pgjobs.definitions",
        "pgjobs.dependencies",
        "pgjobs.events",
        "pgjobs.hints",
        "pgjobs.keys",
        "pgjobs.links",
        "pgjobs.steps",
        "pgjobs.recurrence",
        "pgjobs.schedules",
        "pgjobs.object_hints",
        "pgjobs.schemas",
        "pgjobs.tasks",
        "pgjobs.uniqueness",
        "pgjobs.write_all",
    ),
    "running": ("pgjobs.worker",),
    "doors": (
        "pgjobs",  # what projects import; nothing in here imports it
        "pgjobs.admin",
        "pgjobs.apps",
        "pgjobs.checks",
        "pgjobs.draining",
        "pgjobs.management",
        "pgjobs.urls",
        "pgjobs.views",
    ),
}
LATE_IMPORTS = {
    # Models cannot be imported before the apps are ready, tasks must be.
    ("pgjobs.tasks", "pgjobs.models"),
    ("pgjobs.chains", "pgjobs.models"),
    ("pgjobs.links", "pgjobs.models"),
    ("pgjobs.context", "pgjobs.models"),
    ("pgjobs.context", "pgjobs.steps"),
    ("pgjobs.definitions", "pgjobs.models"),
    ("pgjobs.draining", "pgjobs.worker"),
    ("pgjobs.draining", "pgjobs.worker.audience"),
    ("pgjobs.context", "pgjobs.events"),
    ("pgjobs.context", "pgjobs.steps"),
    ("pgjobs.events", "pgjobs.models"),
    ("pgjobs.events", "pgjobs.models.outbox"),
    ("pgjobs.schedules", "pgjobs.models"),
    ("pgjobs.schedules", "pgjobs.models.firing"),
    # Django imports the app's configuration first of all.
    ("pgjobs.apps", "pgjobs.checks"),
    ("pgjobs.apps", "pgjobs.conf"),
    ("pgjobs.apps", "pgjobs.definitions"),
    ("pgjobs.apps", "pgjobs.events"),
    ("pgjobs.apps", "pgjobs.schedules"),
    ("pgjobs.apps", "pgjobs.tasks"),
}
# Who alone may know a package of others.
KEEPERS = {
    "pydantic": ("pgjobs.hints", "pgjobs.object_hints", "pgjobs.schemas"),
    "cronsim": ("pgjobs.timetable",),
    "admin_actions": ("pgjobs.admin",),
    "django.contrib.admin": ("pgjobs.admin",),
    "django.core.management": ("pgjobs.management",),
}


class Import(NamedTuple):
    module: str  # that imports
    imported: str
    line: int
    is_late: bool  # inside of a function

    def __str__(self) -> str:
        return f"{self.module}:{self.line} imports {self.imported}"


def module_of(path: Path) -> str:
    parts = ("pgjobs", *path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


PATHS = {
    module_of(path): path
    for path in sorted(ROOT.rglob("*.py"))
    if "migrations" not in path.parts
}


def imports_of(module: str) -> Iterator[Import]:
    tree = ast.parse(PATHS[module].read_text())
    yield from imports_in(tree, module, is_late=False)


def imports_in(node: ast.AST, module: str, is_late: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        if isinstance(child, ast.Import | ast.ImportFrom):
            for name in imported_by(child, module):
                yield Import(module, name, child.lineno, is_late)
        inside = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
        yield from imports_in(child, module, is_late or inside)


def imported_by(node: ast.Import | ast.ImportFrom, module: str) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
        return
    base = node.module or ""
    if node.level:
        is_package = PATHS[module].name == "__init__.py"
        parts = module.split(".")
        package = parts[: len(parts) - node.level + is_package]
        base = ".".join([*package, *([base] if base else [])])
    for alias in node.names:
        full = f"{base}.{alias.name}"
        yield full if full in PATHS else base


def layer_of(module: str) -> str:
    """Return the layer that names the module, or the nearest package around it."""
    named = {name: layer for layer, names in LAYERS.items() for name in names}
    if module in named:
        return named[module]
    parent = module.rpartition(".")[0]
    while "." in parent:
        if parent in named:
            return named[parent]
        parent = parent.rpartition(".")[0]
    raise LookupError(f"{module} stands in no layer: give it one in {__file__}")


OURS = [each for module in PATHS for each in imports_of(module)]
INTERNAL = [each for each in OURS if each.imported.split(".")[0] == "pgjobs"]


@pytest.mark.parametrize("module", PATHS)
def test_module_has_a_layer(module):
    assert layer_of(module) in ORDER


def test_module_that_nobody_named_has_no_layer():
    with pytest.raises(LookupError, match="stands in no layer"):
        layer_of("pgjobs.brand_new")


def test_every_name_of_a_layer_is_a_module():
    assert {name for names in LAYERS.values() for name in names} <= set(PATHS)


def test_modules_import_from_their_own_layer_and_below():
    wrong = [
        f"{each} ({layer_of(each.module)} from {layer_of(each.imported)})"
        for each in INTERNAL
        if ORDER.index(layer_of(each.imported)) > ORDER.index(layer_of(each.module))
    ]
    assert wrong == []


def test_nothing_in_the_package_imports_its_face():
    assert [str(each) for each in INTERNAL if each.imported == "pgjobs"] == []


def test_imports_inside_functions_are_listed():
    late = {(each.module, each.imported) for each in INTERNAL if each.is_late}
    assert late == LATE_IMPORTS


def test_modules_do_not_import_each_other_in_a_circle():
    graph: dict[str, set[str]] = {}
    for each in INTERNAL:
        if not each.is_late:
            graph.setdefault(each.module, set()).add(each.imported)
    list(TopologicalSorter(graph).static_order())  # raises CycleError


@pytest.mark.parametrize("package", KEEPERS)
def test_foreign_package_is_known_to_its_keepers_only(package):
    knowing = {
        each.module
        for each in OURS
        if f"{each.imported}.".startswith(f"{package}.")
        and not f"{each.module}.".startswith(tuple(f"{k}." for k in KEEPERS[package]))
    }
    assert knowing == set()


def test_reader_of_imports_is_not_blind():
    """The tests above would also pass if no import were seen."""
    seen = {(each.module, each.imported) for each in OURS}
    assert {
        ("pgjobs.worker.execution", "pgjobs.models.transitions"),
        ("pgjobs.models.job", "pgjobs.models.work"),
        ("pgjobs", "pgjobs.tasks"),
        ("pgjobs.hints", "pydantic"),
        ("pgjobs.management.commands.runjobs", "pgjobs.worker"),
    } <= seen
    assert ("pgjobs.models.transitions", "pgjobs.tasks") not in seen
