"""Tables of plain text."""

from collections.abc import Sequence

from django.core.management.base import OutputWrapper


def print_table(
    out: OutputWrapper, titles: Sequence[str], rows: Sequence[Sequence], otherwise: str
) -> None:
    """Print rows under titles, or another text if there are none."""
    if not rows:
        out.write(otherwise)
        return
    cells = [titles, *([str(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for line in cells:
        padded = [cell.ljust(width) for cell, width in zip(line, widths, strict=True)]
        out.write("  ".join(padded).rstrip())
