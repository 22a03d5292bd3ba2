"""The reference has the exit codes that the commands raise."""

import ast
import inspect
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from tests.documents.examples import ROOT

# The module of each command's class.
COMMANDS = {
    path.stem: Path(
        inspect.getfile(
            import_module(f"pgjobs.management.commands.{path.stem}").Command
        )
    )
    for path in (ROOT / "pgjobs/management/commands").glob("*.py")
    if path.stem != "__init__"
}
# The codes of its worker stand in operations.md, from the code itself.
WORKER = "runjobs"


@pytest.fixture
def documented(monkeypatch) -> dict[str, dict[int, str]]:
    monkeypatch.syspath_prepend(ROOT / "docs")
    return import_module("generated_exits").EXIT_CODES


def raised(path: Path) -> Iterator[int]:
    """Yield the code of each CommandError that the module itself makes."""
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Call(func=ast.Name("CommandError"), keywords=given):
                named = {each.arg: each.value for each in given}
                yield ast.literal_eval(named.get("returncode", ast.Constant(1)))


def test_reference_has_each_command(documented):
    assert documented.keys() == COMMANDS.keys()


@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - {WORKER}))
def test_reference_has_each_code_that_the_command_raises(name, documented):
    assert {*raised(COMMANDS[name])} <= documented[name].keys()


def test_codes_are_found():
    assert {*raised(COMMANDS["jobs"])} == {1, 2}
    assert {*raised(COMMANDS["synctasks"])} == {1}
