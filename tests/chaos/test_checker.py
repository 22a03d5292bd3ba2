"""The checker is independent, and none of its verdicts is untested."""

import ast
from pathlib import Path

from chaos.checker import states
from chaos.checker.verdicts import VERDICTS
from tests.chaos import histories  # noqa: F401  (makes all verdicts known)

CHECKER = Path(states.__file__).parent
HERE = Path(__file__).parent


def test_checker_imports_nothing_of_the_product():
    for path in CHECKER.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and not node.level:
                assert not (node.module or "").startswith(("pgjobs", "django"))
            if isinstance(node, ast.Import):
                assert not any(each.name.startswith("pgjobs") for each in node.names)


def test_every_verdict_is_tested():
    text = "".join(path.read_text() for path in HERE.glob("test_*.py"))
    assert len(VERDICTS) >= 25
    for verdict in VERDICTS:
        assert f'"{verdict.name}"' in text, verdict.name
