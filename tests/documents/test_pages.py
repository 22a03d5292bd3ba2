"""What holds for each page: it begins with what it is for, and its links resolve."""

import re
from functools import cache
from pathlib import Path

import pytest

from tests.documents.examples import ROOT

OF_ROOT = sorted(ROOT.glob("*.md"))
# Sphinx writes these before it reads the others.
GENERATED = {
    ROOT / f"docs/reference/{name}.md"
    for name in (
        "commands",
        "models",
        "operations",
        "options",
        "settings",
        "sql_functions",
    )
}
OF_SITE = sorted({*(ROOT / "docs").glob("**/*.md")} - GENERATED)
PAGES = [*OF_ROOT, *OF_SITE]
FENCE = re.compile(r"^( *)(```|:::).*?^\1\2$", re.M | re.S)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)|(?:src|srcset)=\"([^\"]+)\"")
TITLE = re.compile(r"^#+ (.+)$", re.M)


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def prose(path: Path) -> str:
    """Return a page without its blocks of code."""
    return FENCE.sub("", path.read_text())


@cache
def anchors(path: Path) -> set[str]:
    """Return the anchors of the page's titles, as GitHub and MyST make them."""
    titles = (
        re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", t) for t in TITLE.findall(prose(path))
    )
    kept = (re.sub(r"[^\w\- ]", "", title.lower()) for title in titles)
    return {title.strip().replace(" ", "-") for title in kept}


def is_found(link: str, page: Path) -> bool:
    file, _, anchor = link.partition("#")
    target = (page.parent / file).resolve() if file else page
    if target in GENERATED:
        return True
    return target.exists() and (not anchor or anchor in anchors(target))


def inner_links(path: Path) -> list[str]:
    links = (a or b for a, b in LINK.findall(prose(path)))
    return [each for each in links if not re.match(r"https?:|mailto:", each)]


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_links_within_the_project_resolve(path):
    assert [link for link in inner_links(path) if not is_found(link, path)] == []


def test_links_that_lead_nowhere_are_found():
    readme = ROOT / "README.md"
    assert len(inner_links(readme)) > 20
    assert not is_found("docs/gone.md", readme)
    assert not is_found("docs/comparison.md#gone", readme)
    assert is_found("docs/comparison.md#python-figures", readme)


@pytest.mark.parametrize("path", OF_SITE, ids=name_of)
def test_page_begins_with_what_it_is_for(path):
    _, _, text = path.read_text().partition("\n\n")
    assert re.match(r"[\w`*]", text), f"It begins with {text[:40]!r}."
    assert not text.startswith("```")


def test_readme_can_be_read_in_one_go():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 180
