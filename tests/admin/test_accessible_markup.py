"""What axe-core asks of the markup, for pages that no browser opens in the tests."""

import re
from pathlib import Path

import pytest

import pgjobs

ROOT = Path(pgjobs.__file__).parent
CSS = (ROOT / "static/pgjobs/admin.css").read_text()
SCROLL = ("pgjobs-scroll", "pgjobs-attempts", "pgjobs-text")
OPENED = re.compile(
    rf'<[a-z]+ [^<]*?class="(?:{"|".join(SCROLL)})[ "](?:[^<%{{]|%|{{)*?>'
)
SOURCES = [
    path
    for folder, ending in (("templates", "*.html"), ("admin", "*.py"))
    for path in sorted((ROOT / folder).rglob(ending))
]


def opened(path: Path) -> list[str]:
    """Return the tags of elements that scroll."""
    return OPENED.findall(path.read_text())


def test_elements_that_scroll_are_found():
    assert sum(len(opened(path)) for path in SOURCES) >= 10


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_element_that_scrolls_can_be_reached_by_the_keyboard(path):
    """`scrollable-region-focusable`."""
    for tag in opened(path):
        assert 'tabindex="0"' in tag
        if not tag.startswith("<pre"):
            assert 'role="region"' in tag and "aria-label=" in tag


def rule_of(selector: str) -> str:
    """Return the declarations of a rule of the style sheet."""
    found = re.search(re.escape(selector) + r"[^{}]*\{([^}]*)\}", CSS)
    assert found, selector
    return found[1]


@pytest.mark.parametrize(
    "selector",
    [
        ".pgjobs-scroll td a,",
        ".pgjobs-scroll th a,",
        ".pgjobs-attempts a,",
        '.app-pgjobs #content-main .readonly a:not([role="button"]),',
    ],
)
def test_links_in_text_are_underlined(selector):
    """`link-in-text-block`."""
    assert "text-decoration: underline" in rule_of(selector)


def test_row_buttons_are_as_wide_as_a_thumb_needs():
    """`target-size`: 24 by 24 pixels."""
    rule = rule_of(".module .admin-actions-list li a {"[:-2])
    assert "min-height: 24px" in rule and "min-width: 24px" in rule
