"""docs/reliability.md names what there is: verdicts, tests, faults and bugs."""

import re

import pytest

from chaos.bugs import BUGS
from chaos.checker import judging  # noqa: F401  (registers the verdicts)
from chaos.checker.verdicts import VERDICTS
from chaos.timeline import NAMES
from tests.processes import ROOT

PAGE = (ROOT / "docs/reliability.md").read_text()
TEST = re.compile(r"`(test_\w+)`")
FILE = re.compile(r"`([\w/]+/test_\w+\.py)`:")


def rows_of(title: str) -> list[list[str]]:
    """Return the cells of the tables below a title."""
    (text,) = re.findall(rf"^## {title}$(.*?)(?=^## |\Z)", PAGE, re.M | re.S)
    lines = [line for line in text.splitlines() if line.startswith("|")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in rows if set(row[0]) != {"-"}]


PROMISES = {row[0]: row for row in rows_of("Promises")[1:]}


@pytest.mark.parametrize("promise", PROMISES)
def test_promise_has_tests_and_they_exist(promise):
    # [file, what follows it, file, what follows it ...]
    _, *parts = FILE.split(PROMISES[promise][2])
    named = dict(zip(parts[::2], map(TEST.findall, parts[1::2]), strict=True))
    assert named
    for path, names in named.items():
        assert names
        text = (ROOT / "tests" / path).read_text()
        assert [name for name in names if f"def {name}(" not in text] == []


def test_each_verdict_belongs_to_a_promise():
    told = {name for row in PROMISES.values() for name in row[1].split(", ")}
    assert {verdict.name for verdict in VERDICTS} <= told


def test_figures_are_those_of_all_faults():
    assert set(NAMES) <= {row[0] for row in rows_of("Faults that were tried")}


def test_bugs_are_those_that_can_be_seeded():
    told = {row[0]: row[1] for row in rows_of("Bugs that are caught")[1:]}
    assert told == {bug.name: bug.verdict for bug in BUGS}
