import ast
import re
import sys
from collections.abc import Iterator
from functools import partial

import pytest
from django.core.management import CommandError

from tests.documents.examples import (
    OF_DJANGO_TASKS,
    OF_ROOT,
    PAGES,
    ROOT,
    command_lines,
    document,
    parse_command,
)

CHECK = re.compile(r"pgjobs\.[EW]\d{3}")


@pytest.fixture(autouse=True)
def same_modules_afterwards():
    before = dict(sys.modules)
    yield
    for name in sys.modules.keys() - before.keys():
        if isinstance(vars(sys.modules[name]).get("__getattr__"), partial):
            del sys.modules[name]


def name_of(path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("path", sorted({*PAGES} - OF_DJANGO_TASKS), ids=name_of)
def test_examples_of_the_page_run(path):
    for example in document(path).examples():
        example.evaluate()


@pytest.mark.parametrize("path", sorted({*PAGES, *OF_ROOT}), ids=name_of)
def test_command_lines_of_the_page_are_understood(path):
    for line in command_lines(path):
        try:
            parse_command(line)
        except (CommandError, KeyError, SystemExit) as error:
            pytest.fail(f"manage.py {line}: {error}")


def test_reference_names_each_system_check():
    named = set(CHECK.findall((ROOT / "docs/reference/checks.md").read_text()))
    code = (ROOT / "pgjobs").glob("**/*.py")
    assert named == {id for path in code for id in CHECK.findall(path.read_text())}


def logged_by(path) -> Iterator[str]:
    """Yield the templates of the warnings and errors that a module logs."""
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Call(
                func=ast.Attribute(
                    value=ast.Name("logger"), attr="warning" | "error" | "exception"
                ),
                args=[ast.Constant(str(template)), *_],
            ):
                yield template
            case ast.Call(
                func=ast.Attribute(value=ast.Name("logger"), attr="log"),
                args=[_, ast.Constant(str(template)), *_],
            ):
                yield template


def test_reference_names_each_warning_and_error_that_is_logged():
    page = (ROOT / "docs/reference/messages.md").read_text()
    named = set(re.findall(r"^\| `(.+?)` \|", page, re.M))
    modules = (ROOT / "pgjobs").glob("**/*.py")
    assert named == {template for path in modules for template in logged_by(path)}
