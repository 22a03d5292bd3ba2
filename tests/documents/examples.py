"""The examples of a page: its Python and SQL run, its command lines are parsed.

A page is one program: what a block defines, the next ones use. A block whose first line
names a file (`# shop/tasks.py`) is the text of that module. A comment
`<!-- invisible-code-block: python ... -->` holds what a reader need not see.
"""

import ast
import asyncio
import inspect
import re
import shlex
import sys
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import ModuleType
from unittest.mock import patch

from asgiref.sync import sync_to_async
from django.core.management import get_commands, load_command_class
from django.db import connection, connections
from sybil import Document, Example, Sybil
from sybil.parsers.myst import CodeBlockParser, SkipParser

ROOT = Path(__file__).resolve().parent.parent.parent
OF_ROOT = sorted([*ROOT.glob("*.md"), ROOT / "example_project/README.md"])
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("**/*.md")])
# Of `django.tasks`, which all versions of Django have to try: their examples run in
# tests/features/django_tasks/test_documentation.py.
OF_DJANGO_TASKS = {ROOT / "docs/django_tasks.md", *(ROOT / "docs/migrating").iterdir()}
FILE = re.compile(r"# ([\w/]+)\.py")
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
COMMAND = re.compile(
    r"(?:^|\s)(?:python |/python )?(?:[\w/]+/)?manage\.py (.+?)(?:  +#.*|\s+#.*)?$"
)


def document(path: Path) -> Document:
    """Return the page with its examples."""
    parsers = [
        CodeBlockParser("python", run_python),
        CodeBlockParser("sql", run_sql),
        SkipParser(),
    ]
    return Sybil(parsers).parse(path)


def run_python(example: Example) -> None:
    """Run a block as a part of the module that it names, or of the page."""
    enter_module(example)
    source = "\n" * (example.line + example.parsed.line_offset) + example.parsed
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    code = compile(source, example.path, "exec", flags=flags, dont_inherit=True)
    if code.co_flags & inspect.CO_COROUTINE:
        asyncio.run(run_async(eval(code, example.namespace)))
    else:
        exec(code, example.namespace)


async def run_async(coroutine: Coroutine) -> None:
    try:
        await coroutine
    finally:
        await sync_to_async(connections.close_all)()


def enter_module(example: Example) -> None:
    """Let what follows be defined in the module that the block's first line names."""
    names = example.namespace
    named = FILE.match(example.parsed)
    name = named[1].replace("/", ".") if named else names.get("__name__", "page")
    names["__name__"] = name
    names["__package__"] = name.rpartition(".")[0]
    module = ModuleType(name)
    vars(module)["__getattr__"] = partial(defined, names)
    sys.modules[name] = module


def defined(names: dict, name: str):
    """Look up what a page has defined; a module of the page has all of it."""
    try:
        return names[name]
    except KeyError:
        raise AttributeError(name) from None


@contextmanager
def modules_of_pages() -> Iterator[None]:
    """Forget the modules that pages define in the block."""
    before = {*sys.modules}
    yield
    for name in sys.modules.keys() - before:
        if isinstance(vars(sys.modules[name]).get("__getattr__"), partial):
            del sys.modules[name]


def python_blocks(path: Path) -> list[str]:
    """Return the Python that readers see, also what cannot run."""
    return BLOCK.findall(path.read_text())


def imports(block: str) -> Iterator[tuple[str, str]]:
    """Yield each module and name that a block imports by `from`; it must be Python."""
    flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    for node in ast.walk(compile(block, "block", "exec", flags=flags)):
        if isinstance(node, ast.ImportFrom):
            yield from ((node.module or "", each.name) for each in node.names)


def run_sql(example: Example) -> None:
    with connection.cursor() as cursor:
        cursor.execute(example.parsed)


def command_lines(path: Path) -> list[str]:
    """Return what follows `manage.py` in the command lines of a page."""
    text = re.sub(r"\\\n\s*", "", path.read_text())
    parts = (part for line in text.splitlines() for part in line.split(" && "))
    lines = (COMMAND.search(part) for part in parts)
    found = [each[1] for each in lines if each and "`" not in each.string]
    return [line.partition(" | ")[0] for line in found]


def parse_command(line: str) -> None:
    """Parse a command line as Django would; raise CommandError for what is wrong."""
    name, *arguments = shlex.split(line)
    app = get_commands()[name]
    command = load_command_class(app, name)
    # Django's own commands know which databases there are.
    known = connections.databases
    with patch.dict(known, {"eu": known["default"], "replica": known["default"]}):
        command.create_parser("manage.py", name).parse_args(arguments)
