"""The layers: a module imports only from its own layer and from those below.

Read with `ast`, so that nothing needs to run. Imports inside functions count, unless
they are listed here with their reason. Of imports for type checkers only those of `Job`
and `JobOptions` may point upwards.
"""

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

import pgjobs
from pgjobs.features import FEATURES

ROOT = Path(pgjobs.__file__).parent
# From below to above. A folder's name stands for what is in it and has no name of its
# own here; "pgjobs" is the face, which projects import and no module of the package.
LAYERS = [
    # Of the features only their list: it imports none of them until it is asked.
    ("conf", "exceptions", "signals", "fields", "base", "sql", "database", "features"),
    ("queue",),
    ("models",),
    ("reports",),
    ("tasks",),
    ("worker.options", "worker.memory", "worker.observer"),
    ("worker.connections",),
    ("worker.slots", "worker.job_log", "logging"),
    ("worker.upkeep",),
    ("worker",),
    ("worker.process",),
    (
        "admin",
        "apps",
        "checks",
        "draining",
        "management",
        "templatetags",
    ),
    tuple(f"features.{name}" for name in FEATURES),
    (
        "testing",
        "management.commands",
        "backends",
        "contrib",
        "signatures",
        "views",
        "urls",
        "pgjobs",
    ),
]
# They hold names for projects, also those of features, and are no part of the core.
DOORS = ("testing", "contrib", "backends", "management.commands")
DOORS_THEMSELVES = ("pgjobs", "models", "signatures", "views", "urls")
# What the core still imports of features. It may only become shorter.
FEATURES_IN_CORE: set[tuple[str, str]] = set()
# As few as can be: they hide what a module needs.
LATE_IMPORTS = {
    ("draining", "worker"),
    ("draining", "worker.observer"),
    # These need the models. Django imports the app's configuration first of all.
    ("apps", "checks"),
    ("apps", "tasks.sensitive"),
    # Extras: their packages may not be there.
    ("features.exporters.serving", "features.exporters.prometheus"),
    # On Django 5.2 it needs the package django-tasks, which may be missing.
    ("features.importing.command", "features.importing.django_tasks_db"),
    # Of Django for PostgreSQL only, once it is known that psycopg is there.
    ("checks.databases", "django.db.backends.postgresql.psycopg_any"),
    # An extra, which takes long to import.
    (
        "features.encryption.keyring",
        "cryptography.hazmat.primitives.ciphers.aead",
    ),
    # Only where a task is isolated.
    ("features.isolation.options", "features.isolation.execution"),
    ("features.isolation.options", "features.isolation.gathering"),
    ("features.isolation.checks", "features.isolation.pool"),
    # Only where calls have many jobs.
    ("features.chunks.options", "features.chunks.gathering"),
    # A child imports nothing of the project before it has forked, and no models before
    # Django is set up.
    ("features.isolation.keeper", "json"),
    ("features.isolation.keeper", "pgjobs.features.isolation.inside"),
    ("features.isolation.inside", "features.isolation.slot"),
    # Another queue's package, which only its users have.
    ("features.importing.django_q2", "django_q.signing"),
}
OF_FEATURES = tuple(f"features.{name}" for name in FEATURES)
# The only modules that may import a package from outside.
KEEPERS = {
    "pydantic": (
        "tasks.arrival",
        "tasks.hints",
        "features.chunks.members",
        "features.definitions.schemas",
    ),
    "cronsim": ("features.schedules.timetable",),
    "admin_actions": ("admin", *OF_FEATURES),
    "django.contrib.admin": ("admin", *OF_FEATURES),
    "django.core.management": ("management", *OF_FEATURES),
    "prometheus_client": ("features.exporters.prometheus",),
    "opentelemetry": ("features.exporters.otel",),
    "cryptography": ("features.encryption.keyring",),
    "sentry_sdk": ("features.exporters.sentry",),
    "django.tasks": ("features.django_tasks.compat",),
    "django_tasks": ("features.django_tasks.compat",),
}


class Import(NamedTuple):
    module: str  # that imports
    imported: str
    line: int
    is_late: bool  # inside of a function
    is_typing: bool  # for type checkers only
    name: str  # that is imported

    def __str__(self) -> str:
        return f"{self.module}:{self.line} imports {self.imported}"


def module_of(path: Path) -> str:
    """Return the module's name inside of pgjobs; that of the package is "pgjobs"."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    parts = parts[:-1] if parts[-1] == "__init__" else parts
    return ".".join(parts) or "pgjobs"


PATHS = {
    module_of(path): path
    for path in sorted(ROOT.rglob("*.py"))
    if "migrations" not in path.parts
}


def imports_of(module: str) -> Iterator[Import]:
    tree = ast.parse(PATHS[module].read_text())
    yield from imports_in(tree, module, is_late=False, is_typing=False)


def imports_in(
    node: ast.AST, module: str, is_late: bool, is_typing: bool
) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            continue  # it imports nothing, and most of a tree are expressions
        if isinstance(child, ast.Import | ast.ImportFrom):
            for imported, name in imported_by(child, module):
                yield Import(module, imported, child.lineno, is_late, is_typing, name)
        inside = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
        types = isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"
        yield from imports_in(child, module, is_late or inside, is_typing or types)


def imported_by(
    node: ast.Import | ast.ImportFrom, module: str
) -> Iterator[tuple[str, str]]:
    """Yield each module that is imported, or imported from, and the name."""
    if isinstance(node, ast.Import):
        yield from ((foreign(alias.name), alias.name) for alias in node.names)
        return
    base = node.module or ""
    if not node.level:
        base = foreign(base)
    else:
        parts = package_of(module)
        parts = parts[: len(parts) - node.level + 1]
        base = ".".join([*parts, *([base] if base else [])])
    for alias in node.names:
        full = f"{base}.{alias.name}".lstrip(".")
        yield (full if full in PATHS else base or "pgjobs"), alias.name


def foreign(name: str) -> str:
    """Return the name of a module that is imported absolutely: it is not ours."""
    return f"library {name}" if name in PATHS else name


def package_of(module: str) -> list[str]:
    if module == "pgjobs":
        return []
    parts = module.split(".")
    return parts if PATHS[module].name == "__init__.py" else parts[:-1]


def layer_of(module: str) -> int:
    """Return the number of the layer that names the module, or its nearest folder."""
    parts = module.split(".")
    while parts:
        for number, names in enumerate(LAYERS):
            if ".".join(parts) in names:
                return number
        parts.pop()
    raise LookupError(f"{module} stands in no layer: give it one in {__file__}")


ALL = [each for module in PATHS for each in imports_of(module)]
OURS = [each for each in ALL if not each.is_typing]
INTERNAL = [each for each in OURS if each.imported in PATHS]
FOR_TYPES = [each for each in ALL if each.is_typing and each.imported in PATHS]


@pytest.mark.parametrize("module", PATHS)
def test_module_has_a_layer(module):
    layer_of(module)


def test_module_without_a_layer_is_found():
    with pytest.raises(LookupError, match="stands in no layer"):
        layer_of("brand_new")


def test_modules_import_from_their_own_layer_and_below():
    wrong = [
        str(each)
        for each in INTERNAL
        if layer_of(each.imported) > layer_of(each.module)
        and (each.module, each.imported) not in FEATURES_IN_CORE
        and each.module not in DOORS_THEMSELVES
    ]
    assert wrong == []


# What type checkers must know whole, and what features add to.
UPWARDS = ("Job", "JobOptions", "JobMethods", "RunningJobMethods")


def test_imports_for_types_point_upwards_for_the_job_and_what_features_add_only():
    wrong = [
        str(each)
        for each in FOR_TYPES
        if layer_of(each.imported) > layer_of(each.module) and each.name not in UPWARDS
    ]
    assert wrong == []


def test_nothing_in_the_package_imports_its_face():
    assert [str(each) for each in INTERNAL if each.imported == "pgjobs"] == []


def test_core_imports_no_feature():
    found = {
        (each.module, each.imported)
        for each in ALL
        if is_core(each.module) and is_feature(each.imported)
    }
    named = {
        (module, text)
        for module in PATHS
        if is_core(module)
        for text in texts_in(module)
        if is_feature(text.removeprefix("pgjobs."))
    }
    assert found | named == FEATURES_IN_CORE


def test_core_imports_no_door():
    found = {
        (each.module, each.imported)
        for each in INTERNAL
        if is_core(each.module) and is_door(each.imported)
    }
    assert found == set()


@pytest.mark.parametrize(
    "module", [m for m in PATHS if m.startswith("management.commands.")]
)
def test_commands_are_doors(module):
    assert PATHS[module].read_text().count("\n") <= 20


def test_doors_define_nothing():
    """But `signatures` defines types, which no process needs."""
    doors = [module for module in PATHS if is_door(module) and module != "signatures"]
    defined = {
        f"{module}.{node.name}"
        for module in doors
        for node in ast.walk(ast.parse(PATHS[module].read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    }
    assert defined == set()


def is_core(module: str) -> bool:
    return not (is_door(module) or is_feature(module))


def is_door(module: str) -> bool:
    is_inside = f"{module}.".startswith(tuple(f"{door}." for door in DOORS))
    return is_inside or module in DOORS_THEMSELVES


def is_feature(name: str) -> bool:
    return f"{name}.".startswith(tuple(f"features.{each}." for each in FEATURES))


def texts_in(module: str) -> Iterator[str]:
    """Yield the texts of a module, which may name what it imports."""
    for node in ast.walk(ast.parse(PATHS[module].read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_imports_inside_functions_are_listed():
    late = {(each.module, each.imported) for each in OURS if each.is_late}
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
        ("worker.slots.execution", "queue.meta"),
        ("models.job_set", "queue.claiming"),
        ("pgjobs", "tasks.lookup"),
        ("tasks.hints", "pydantic"),
        ("management.runjobs", "worker"),
    } <= seen
    assert ("queue.acts", "models") not in seen
    assert ("queue.acts", "models") in {
        (each.module, each.imported) for each in FOR_TYPES
    }
