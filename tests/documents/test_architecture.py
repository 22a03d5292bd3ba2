"""The pages about the architecture are true: whatever they name is there."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import pgjobs

ROOT = Path(pgjobs.__file__).parent.parent
# Not for everybody: one to look up, and those of features, for those who change them.
APART = [
    ROOT / f"docs/architecture/{name}.md"
    for name in (
        "chunks",
        *("durable", "encryption", "isolation", "keep", "postgresql", "results"),
    )
]
PAGES = [
    ROOT / "docs/architecture.md",
    *sorted((ROOT / "docs/architecture").glob("*.md")),
]


def found_in(folder: Path) -> Iterator[Path]:
    """Yield what is in a folder, without the files of the tests' own server."""
    for path in folder.iterdir():
        if not path.name.startswith((".", "__pycache__")):
            yield path
            if path.is_dir():
                yield from found_in(path)


FILES = [f"/{path.relative_to(ROOT)}" for path in ROOT.glob("*.md")] + [
    f"/{path.relative_to(ROOT)}{'/' if path.is_dir() else ''}"
    for folder in ("pgjobs", "docs", "tests")
    for path in found_in(ROOT / folder)
]
IS_FILE = re.compile(r"[\w./]+\.(py|sql|md)|[\w/]+/")
IS_NAME = re.compile(r"[\w.]+(\(.*\))?")
MOST_LINES = 500
WORDS = {
    word
    for path in (ROOT / "pgjobs").rglob("*")
    if path.suffix in (".py", ".sql", ".html")
    for word in re.findall(r"\w+", path.read_text())
}


def is_there(name: str) -> bool:
    if IS_FILE.fullmatch(name):
        return any(each.endswith(f"/{name}") for each in FILES)
    if IS_NAME.fullmatch(name):
        return re.findall(r"\w+", name.partition("(")[0])[-1] in WORDS
    return True  # an expression or a part of a sentence


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_files_and_names_of_the_architecture_exist(page):
    names = set(re.findall(r"`([^`\n]+)`", page.read_text()))
    assert [name for name in names if not is_there(name)] == []


def test_architecture_stays_short():
    read = [page for page in PAGES if page not in APART]
    assert len(read) == len(PAGES) - len(APART)
    assert sum(len(page.read_text().splitlines()) for page in read) < MOST_LINES


@pytest.mark.parametrize(
    "name", ["worker/gone.py", "gone/", "pgjobs_gone", "Loop.is_gone", "is_gone(now)"]
)
def test_name_that_is_gone_is_found(name):
    assert not is_there(name)
