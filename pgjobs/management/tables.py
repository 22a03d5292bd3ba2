"""Tables of plain text."""

import shutil
from collections.abc import Collection, Iterator, Sequence

from django.core.management.base import OutputWrapper

GAP = 2
NARROWEST = 12  # of a column that is cut
EMPTY = ("", "-")


def print_table(
    out: OutputWrapper,
    titles: Sequence[str],
    rows: Sequence[Sequence],
    otherwise: str,
    long: Collection[str] = (),
) -> None:
    """Print rows under titles, or another text if there are none.

    What reads a pipe gets all of each cell. On a terminal the columns whose titles are
    in `long` are cut to its width. If that is not enough, each row takes several lines.
    """
    if not rows:
        out.write(otherwise)
        return
    cells = [list(titles), *([str(cell) for cell in row] for row in rows)]
    most = shutil.get_terminal_size().columns if out.isatty() else None
    if most is not None:
        cut_columns(cells, most, [titles.index(title) for title in long])
    lines = list(lines_of(cells))
    if most is not None and max(map(len, lines)) > most:
        lines = list(blocks_of(titles, rows))
    for line in lines:
        out.write(line)


def widths_of(cells: list[list[str]]) -> list[int]:
    return [max(map(len, column)) for column in zip(*cells, strict=True)]


def cut_columns(cells: list[list[str]], most: int, columns: list[int]) -> None:
    """Cut the widest of these columns until all fit, or all of these are narrow."""
    widths = widths_of(cells)
    while columns and sum(widths) + GAP * (len(widths) - 1) > most:
        widest = max(columns, key=lambda column: widths[column])
        if widths[widest] <= NARROWEST:
            break
        widths[widest] -= 1
    for line in cells:
        for column in columns:
            line[column] = cut(line[column], widths[column])


def cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"


def lines_of(cells: list[list[str]]) -> Iterator[str]:
    widths = widths_of(cells)
    for line in cells:
        padded = [cell.ljust(width) for cell, width in zip(line, widths, strict=True)]
        yield (" " * GAP).join(padded).rstrip()


def blocks_of(titles: Sequence[str], rows: Sequence[Sequence]) -> Iterator[str]:
    """Yield the lines of each row: its name, and below it what it holds."""
    for name, *cells in rows:
        yield str(name)
        for title, cell in zip(titles[1:], cells, strict=True):
            if str(cell) not in EMPTY:
                yield f"  {title}: {cell}" if title else f"  {cell}"
