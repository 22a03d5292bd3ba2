"""The figures of other queues, and of pgjobs, are those of the stored run."""

import json
import re

import pytest

from benchmarks.comparison import FIGURES
from benchmarks.report import median, number
from tests.documents.examples import ROOT

RUN = json.loads((ROOT / "benchmarks/results/performance.json").read_text())
README = (ROOT / "README.md").read_text()
PERFORMANCE = (ROOT / "docs/performance.md").read_text()
ROW = re.compile(r"^\|(.+)\|$", re.M)

# The first table of docs/performance.md: what stands in a row, case, system, columns.
IN_SHORT = {
    "`enqueue`, each in a transaction of its own": (
        "{} jobs/s", "enqueue", "pgjobs", "jobs/s"
    ),
    "`enqueue_many`": ("{} jobs/s", "enqueue-many", "pgjobs", "jobs/s"),
    "one worker with 10 slots": ("{} jobs/s", "drain", "pgjobs", "jobs/s"),
    "the same with `--prefetch 200`": (
        "{} jobs/s", "drain", "pgjobs-prefetch", "jobs/s"
    ),
    "from COMMIT to the first line of the task, idle worker": (
        "{} ms; 95 % within {} ms", "pickup", "pgjobs", "p50 ms", "p95 ms"
    ),
    "an idle worker": (
        "{} statements/s, {} % of a core", "idle", "pgjobs", "statements/s",
        "worker CPU %",
    ),
}  # fmt: skip


def measured(case: str, system: str, column: str) -> str:
    """Return a figure of the stored run as the pages show it."""
    return number(median(column, RUN["figures"][case][system]))


def rows_below(text: str, title: str) -> list[list[str]]:
    """Return the cells of the tables between a title and the next one."""
    (part,) = re.findall(rf"^#+ {title}$(.*?)(?=^#+ |\Z)", text, re.M | re.S)
    rows = [[cell.strip() for cell in row.split("|")] for row in ROW.findall(part)]
    return [row for row in rows if set(row[0]) != {"-"}]


HEAD, *ROWS = rows_below(README, "Beside others")
SYSTEMS = [name.partition(" ")[0].lower() for name in HEAD[1:]]
ROW_OF = {row[0]: row[1:] for row in ROWS}


@pytest.mark.parametrize(
    ("title", "case", "column", "less"),
    [figure for figure in FIGURES if figure[0] in ROW_OF],
)
def test_figures_of_the_readme_are_those_of_the_stored_run(title, case, column, less):
    figures = {name: measured(case, name, column) for name in SYSTEMS}
    shown = dict(zip(SYSTEMS, ROW_OF[title], strict=True))
    values = {name: float(each.replace(",", "")) for name, each in figures.items()}
    best = (min if less else max)(values, key=values.__getitem__)
    assert shown == figures | {best: f"**{figures[best]}**"}


def test_each_row_of_the_readme_that_has_figures_is_compared():
    with_figures = {
        title for title, row in ROW_OF.items() if row[0].strip("*")[0] < "A"
    }
    assert with_figures
    assert with_figures <= {title for title, *_ in FIGURES}


def test_one_figure_of_the_first_screen_is_that_of_the_stored_run():
    first_screen = " ".join(README.partition("## ")[0].split())
    pgjobs, celery = (
        measured("drain", name, "jobs/s") for name in ("pgjobs", "celery")
    )
    assert f"one worker ran {pgjobs} jobs/s where Celery's ran {celery}" in first_screen


@pytest.mark.parametrize("column", HEAD[2:])
def test_readme_names_the_versions_that_ran(column):
    name, _, version = column.partition(" ")
    settings = RUN["settings"][name.lower()]
    assert f"{name.lower()}=={version}." in settings


def test_comparison_names_the_versions_that_ran():
    page = (ROOT / "docs/comparison.md").read_text()
    versions = {
        row[0].lower(): row[1] for row in rows_below(page, "Versions and sources")
    }
    ran = versions.keys() & RUN["settings"].keys()
    assert len(ran) == 8
    for name in ran:
        version = versions[name].partition(",")[0]
        assert RUN["settings"][name].startswith(f"{name}=={version};")


def test_each_column_on_python_packages_has_a_version():
    page = (ROOT / "docs/comparison.md").read_text()
    head, *features = rows_below(page, "Python: features")
    versions = {row[0]: row[1] for row in rows_below(page, "Versions and sources")}
    assert all(versions[name] for name in head[2:])
    assert all(len(row) == len(head) and all(row) for row in features)


def test_each_line_on_python_packages_has_a_source():
    page = (ROOT / "docs/comparison.md").read_text()
    _, *features = rows_below(page, "Python: features")
    _, *sources = rows_below(page, "Where to check each line on Python")
    assert [row[0] for row in sources] == [row[0] for row in features]
    assert all(row[1] for row in sources)


def test_summary_of_the_performance_page_is_that_of_the_stored_run():
    _, *rows = rows_below(PERFORMANCE, "In figures")
    shown = dict(rows)
    for title, (text, case, system, *columns) in IN_SHORT.items():
        figures = [measured(case, system, column) for column in columns]
        assert shown.pop(title) == text.format(*figures)
    assert not shown
