import ast
import re
from collections.abc import Iterator
from importlib import import_module

import pytest
from django.core.management import CommandError
from django.db import connection

from pgjobs.reports.job_filters import ARGUMENTS_INDEX
from tests.documents.examples import (
    OF_DJANGO_TASKS,
    OF_ROOT,
    PAGES,
    ROOT,
    command_lines,
    document,
    imports,
    modules_of_pages,
    parse_command,
    python_blocks,
)

CHECK = re.compile(r"pgjobs\.[EW]\d{3}")


@pytest.fixture(autouse=True)
def same_modules_afterwards():
    with modules_of_pages():
        yield


@pytest.fixture
def same_indexes_afterwards(transactional_db):
    """Drop the index that docs/admin.md makes, which other tests must not meet."""
    yield
    with connection.cursor() as cursor:
        cursor.execute(f"DROP INDEX IF EXISTS {ARGUMENTS_INDEX}")


def name_of(path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.usefixtures("same_indexes_afterwards")
@pytest.mark.parametrize("path", sorted({*PAGES} - OF_DJANGO_TASKS), ids=name_of)
def test_examples_of_the_page_run(path):
    for example in document(path).examples():
        example.evaluate()


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_python_of_the_page_imports_what_there_is(path):
    # Also the blocks of which `skip: next` says that they do not run.
    for block in python_blocks(path):
        for module, name in imports(block):
            if module.partition(".")[0] == "pgjobs":
                assert hasattr(import_module(module), name), name


@pytest.mark.parametrize("path", sorted({*PAGES, *OF_ROOT}), ids=name_of)
def test_command_lines_of_the_page_are_understood(path, settings):
    settings.BASE_DIR = ROOT / "example_project"  # which its own commands read
    for line in command_lines(path):
        try:
            parse_command(line)
        except (CommandError, KeyError, SystemExit) as error:
            pytest.fail(f"manage.py {line}: {error}")


def test_command_lines_of_the_example_project_are_found():
    found = command_lines(ROOT / "example_project/README.md")
    assert {"demo", "demo --headless", "loaddata ground_stations"} <= {*found}


def test_reference_names_each_system_check():
    named = set(CHECK.findall((ROOT / "docs/reference/checks.md").read_text()))
    code = (ROOT / "pgjobs").glob("**/*.py")
    assert named == {id for path in code for id in CHECK.findall(path.read_text())}


# Each way to log, and which of its arguments is the template.
TEMPLATE_OF = {
    "debug": 0, "info": 0, "warning": 0, "error": 0, "exception": 0, "critical": 0,
    "log": 1, "makeRecord": 4,
}  # fmt: skip


def constant(node) -> str:
    """Return a text of the code, with `...` for what stands in braces."""
    match node:
        case ast.Constant(str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(
                p.value if isinstance(p, ast.Constant) else "..." for p in parts
            )
    return ast.unparse(node)


def calls_of(path) -> Iterator[ast.Call]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            yield node


def logged_by(path) -> Iterator[str]:
    """Yield the templates that a module logs."""
    for call in calls_of(path):
        match call.func:
            case ast.Attribute(
                value=ast.Name("logger" | "job_logger" | "logging"), attr=way
            ):
                if way in TEMPLATE_OF:
                    yield constant(call.args[TEMPLATE_OF[way]])


def said_of_jobs_by(path) -> Iterator[str]:
    """Yield the last words of the records that a module logs by `job_log`.

    What is no text there is a status of the job, or its verdict and reason:
    statuses.md has their words.
    """
    for call in calls_of(path):
        match call:
            case ast.Call(ast.Name("log"), [_, _, words, *_]) | ast.Call(
                ast.Name("log_failure"), [_, words, *_]
            ) if isinstance(words, ast.Constant | ast.JoinedStr):
                yield constant(words).partition("\n")[0]


def test_reference_names_each_message_that_is_logged():
    page = (ROOT / "docs/reference/messages.md").read_text()
    named = set(re.findall(r"^\| `(.+?)` \|", page, re.M))
    modules = [*(ROOT / "pgjobs").glob("**/*.py")]
    said = {word for path in modules for word in said_of_jobs_by(path)}
    assert named == {each for path in modules for each in logged_by(path)} | said
