"""What keeps the house in order, measured: `python -m tests.house`.

Prints each figure beside its bound. `tests/test_house.py` fails by those that must
last. The trace of a job needs Python 3.12, and a PostgreSQL as the other tests do.
"""

import ast
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tests.traced_job import Trace

ROOT = Path(__file__).parents[1] / "pgjobs"
# The modules that `Claimer` reaches before it sends a fetch, and those that say for how
# many jobs it has room. A trace proves that none is missing.
FETCHING = (
    "worker/claimer.py",
    "worker/fetch_rule.py",
    "worker/admissions.py",
    "worker/row_by_row.py",
    "worker/connections/backoff.py",
    "queue/claiming.py",
    "queue/statements.py",
)
CAN_TRACE = sys.version_info >= (3, 12)  # by `sys.monitoring`
FETCHES = ("sql/worker/record_and_claim.sql", "sql/worker/claim_by_queue.sql")


class Goal(NamedTuple):
    figure: str
    bound: int


# What must last.
LONGEST_MODULE = Goal("lines of the longest module", 600)
LONGEST_FUNCTION = Goal("lines of the longest function", 50)
NO_FEATURE = Goal("imports of features in the core", 0)
CLAIMER = Goal("lines of Claimer", 249)
FIELDS = Goal("fields that decide about fetching", 15)
CONSTANTS = Goal("constants of fetching", 15)
MODULES = Goal("modules of a warm job", 30)
FUNCTIONS = Goal("functions of a warm job", 120)
CALLS = Goal("calls of a warm job", 400)
# Goals of today, which do not bind later features.
LINES = Goal("lines of Python and SQL without migrations", 48_130)
CORE = Goal("lines of the core", 31_000)
INDEXES = Goal("indexes of the job table", 15)
SHARE = 0.7  # of the core in all lines
# What is still above its bound, and how far. It may only become less.
STILL_ABOVE: dict[Goal, int] = {}
NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?:e\d+)?(?![\w.])")
NOT_CODE = re.compile(r"--[^\n]*|'(?:[^']|'')*'|%\(\w+\)s")
INCLUDE = re.compile(r"^\s*\\ir (\S+)", re.MULTILINE)


class Field(NamedTuple):
    module: str
    name: str
    parts: int  # its own keys or fields, if it holds a dict or an object


class Constant(NamedTuple):
    module: str
    text: str


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def paths(pattern: str) -> list[Path]:
    return [
        path for path in sorted(ROOT.rglob(pattern)) if "migrations" not in path.parts
    ]


def fetching() -> list[Path]:
    return [path for name in FETCHING if (path := ROOT / name).exists()]


def length_of(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    assert node.end_lineno is not None
    return node.end_lineno - node.lineno + 1


def lines_of(path: Path) -> int:
    return path.read_text(encoding="utf-8").count("\n")


def longest_module() -> int:
    return max(map(lines_of, paths("*.py")))


def longest_function() -> int:
    return max(
        length_of(node)
        for path in paths("*.py")
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )


def length_of_claimer() -> int:
    (claimer,) = (
        node
        for node in ast.walk(tree_of(ROOT / "worker/claimer.py"))
        if isinstance(node, ast.ClassDef) and node.name == "Claimer"
    )
    return length_of(claimer)


# Fields


def fields() -> list[Field]:
    """Return the attributes that are assigned outside of `__init__`, by module."""
    found = set()
    for path in fetching():
        module = str(path.relative_to(ROOT))
        for name in changing(tree_of(path)):
            found.add(Field(module, name, parts_of(path, name)))
    return sorted(found)


def changing(node: ast.AST, function: str = "") -> Iterator[str]:
    """Yield the names of the attributes to which functions assign."""
    for child in ast.iter_child_nodes(node):
        inside = function
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            inside = child.name
        if isinstance(child, ast.Attribute) and function != "__init__":
            yield from [child.attr] if is_stored(child) else []
        yield from changing(child, inside)


def parts_of(path: Path, attribute: str) -> int:
    """Return how many keys or fields an attribute holds; 1 for a plain value."""
    numbers = [1]
    for value in values_of(tree_of(path), attribute):
        for node in ast.walk(value):
            if isinstance(node, ast.Dict):
                numbers.append(len(node.keys))
            elif isinstance(node, ast.Name) and node.id in fields_of_classes():
                numbers.append(fields_of_classes()[node.id])
    return max(numbers)


def values_of(tree: ast.AST, attribute: str) -> Iterator[ast.expr]:
    """Yield what is assigned to an attribute, and how it is annotated."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                yield from pairs(target, node.value, attribute)
        elif isinstance(node, ast.AnnAssign) and is_named(node.target, attribute):
            yield node.annotation


def pairs(target: ast.expr, value: ast.expr, attribute: str) -> Iterator[ast.expr]:
    if is_named(target, attribute):
        yield value
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        for one, its in zip(target.elts, value.elts, strict=False):
            yield from pairs(one, its, attribute)


def is_named(node: ast.expr, attribute: str) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == attribute


@cache
def fields_of_classes() -> dict[str, int]:
    """Return how many fields the instances of each class have."""
    return {
        node.name: len(set(fields_of(node)))
        for path in paths("*.py")
        for node in tree_of(path).body
        if isinstance(node, ast.ClassDef)
    }


def fields_of(node: ast.ClassDef) -> Iterator[str]:
    for child in node.body:
        if isinstance(child, ast.AnnAssign) and isinstance(child.target, ast.Name):
            yield child.target.id
    for inner in ast.walk(node):
        if isinstance(inner, ast.Attribute) and is_stored(inner):
            yield inner.attr


def is_stored(node: ast.Attribute | ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store)


# Constants


def constants() -> list[Constant]:
    """Return the upper-case names and the numbers other than 0 and 1.

    A number that has a name counts once, where it gets its name.
    """
    ours = {path: set(named(tree_of(path))) for path in fetching()}
    names = {name for found in ours.values() for name in found}
    found = []
    for path in fetching():
        module = str(path.relative_to(ROOT))
        found += [Constant(module, name) for name in sorted(ours[path])]
        foreign = {name for name in imported(tree_of(path)) if name not in names}
        found += [Constant(module, name) for name in sorted(foreign)]
        found += [Constant(module, each) for each in numbers_in(tree_of(path))]
    for path in sorted({part for name in FETCHES for part in included(ROOT / name)}):
        module = str(path.relative_to(ROOT))
        code = NOT_CODE.sub("", path.read_text(encoding="utf-8"))
        found += [
            Constant(module, each)
            for each in NUMBER.findall(code)
            if float(each) not in (0, 1)
        ]
    return found


def is_constant(name: str) -> bool:
    return name.isupper() and len(name) > 1 and name != "TYPE_CHECKING"


def named(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and is_stored(node) and is_constant(node.id):
            yield node.id


def imported(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            yield from (each.name for each in node.names if is_constant(each.name))


def numbers_in(node: ast.AST) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Assign | ast.AnnAssign) and gives_name(child):
            continue
        is_number = isinstance(child, ast.Constant) and type(child.value) in (
            int,
            float,
        )
        if is_number and child.value not in (0, 1):
            yield str(child.value)
        yield from numbers_in(child)


def gives_name(node: ast.Assign | ast.AnnAssign) -> bool:
    """Whether a statement defines a constant."""
    return any(
        isinstance(each, ast.Name) and is_stored(each) and is_constant(each.id)
        for each in ast.walk(node)
    )


def included(path: Path) -> Iterator[Path]:
    """Yield a file of a statement, and those that it includes."""
    yield path
    for name in INCLUDE.findall(path.read_text(encoding="utf-8")):
        yield from included(path.parent / name)


# Sizes


def lines(of_core: bool = False) -> int:
    """Return the lines of Python and SQL, without migrations."""
    files = paths("*.py") + paths("*.sql")
    return sum(lines_of(path) for path in files if not of_core or is_in_core(path))


def is_in_core(path: Path) -> bool:
    from tests.test_layers import is_core, is_feature, module_of

    if path.suffix == ".sql":
        return not is_feature(".".join(path.relative_to(ROOT).parts))
    return is_core(module_of(path))


def features_in_core() -> int:
    from tests.test_layers import FEATURES_IN_CORE

    return len(FEATURES_IN_CORE)


def indexes() -> int:
    from django.db import connection

    query = "SELECT count(*) FROM pg_indexes WHERE tablename = 'pgjobs_job'"
    with connection.cursor() as cursor:
        cursor.execute(query)
        return cursor.fetchone()[0]


# The table


def lasting() -> dict[Goal, int]:
    """Return the figures that need neither a server nor a newer Python."""
    return {
        NO_FEATURE: features_in_core(),
        LONGEST_MODULE: longest_module(),
        LONGEST_FUNCTION: longest_function(),
        CLAIMER: length_of_claimer(),
        FIELDS: sum(each.parts for each in fields()),
        CONSTANTS: len(constants()),
    }


def of_trace(trace: "Trace") -> dict[Goal, int]:
    return {
        MODULES: trace.modules,
        FUNCTIONS: trace.functions,
        CALLS: trace.number,
    }


def main() -> None:
    figures = lasting()
    with database():
        if CAN_TRACE:
            from tests.traced_job import trace_job

            figures |= of_trace(trace_job())
        figures |= {LINES: lines(), CORE: lines(of_core=True), INDEXES: indexes()}
    for goal, figure in figures.items():
        mark = "" if figure <= goal.bound else "  above"
        sys.stdout.write(f"{figure:7,} of {goal.bound:7,}  {goal.figure}{mark}\n")
    share = figures[CORE] / figures[LINES]
    sys.stdout.write(f"{share:7.3f} of {SHARE:7.3f}  share of the core in them\n")
    if not CAN_TRACE:
        sys.stdout.write("The trace of a job needs Python 3.12.\n")
    for each in sys.argv[1:]:
        sys.stdout.writelines(f"{found}\n" for found in LISTS[each]())


@contextmanager
def database() -> Iterator[None]:
    """Set Django up with a new database, which is gone afterwards."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    os.environ.setdefault("PGJOBS_TEST_DATABASE", "test_pgjobs_house")
    sys.path.append(str(ROOT.parent / "example_project"))
    import django

    django.setup()
    from django.test.runner import DiscoverRunner

    from tests import harness

    with harness.connect() as server:
        harness.make_owner(server)
    runner = DiscoverRunner(verbosity=0, interactive=False)
    made = runner.setup_databases()
    try:
        yield
    finally:
        runner.teardown_databases(made)


# `python -m tests.house fields constants` lists what is counted, too.
LISTS = {"fields": fields, "constants": constants}

if __name__ == "__main__":
    main()
