"""Lists whose rows are cards on a phone, where no head of a table names the cells."""

from collections.abc import Iterable, Iterator
from typing import Any

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.text import capfirst

register = template.Library()
CELL = '<td class="field-'


@register.filter
def labelled(rows: Iterable[Iterable[str]], headers: list[dict[str, Any]]):
    """Return the rows of a list; each cell has the title of its column for a label."""
    return [list(with_labels(cells, headers)) for cells in rows]


def with_labels(cells: Iterable[str], headers: list[dict[str, Any]]) -> Iterator[str]:
    for cell, header in zip(cells, headers, strict=True):
        yield with_label(cell, header["text"]) if cell.startswith(CELL) else cell


def with_label(cell: str, title: str) -> SafeString:
    label = format_html('data-label="{}"', capfirst(title))
    # Django has escaped the cell.
    return mark_safe(f"<td {label} {cell.removeprefix('<td ')}")  # noqa: S308
